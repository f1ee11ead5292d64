"""Programs of peers end with everything that they have started, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import processes, programs
from tests.bench import common

BLOCKED = """
import sys
from pathlib import Path
from bench import field, harness
from tests.bench import common

folder, ledger = map(Path, sys.argv[1:])
field.OURS = common.stub("ours", folder / "ours")
field.PEERS = {"hangs": common.stub("hangs", ledger)}
field._installed = lambda peer, tell: peer
field._measuring.environment = lambda _: {**field.OURS.environment}
sys.exit(harness.main(["trigger", "--peers", "hangs", "--json", str(folder / "written.json")]))
"""


def test_closing_ends_what_the_program_has_started(tmp_path: Path) -> None:
    contestant = common.stub("stubborn", tmp_path / "ledger")

    with contestant.start(tmp_path / "place") as program:
        family = program.processes()

    assert len(family) == 2
    assert not any(processes.is_alive(process) for process in family)


def test_what_libraries_print_does_not_disturb_the_answers(tmp_path: Path) -> None:
    with common.stub("stub", tmp_path / "ledger").start(tmp_path / "place") as program:
        assert len(program.ask("trigger", 3)) == 3

    assert (tmp_path / "place" / programs.LOG).read_text() == "a library that prints\n"


def test_a_program_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger"
    with common.stub("hangs", ledger).start(tmp_path / "place") as program:
        family = program.processes()
        monkeypatch.setattr(programs, "PATIENCE", 0.0)
        with pytest.raises(programs.Failed, match="did not answer within 0 s"):
            program.ask("trigger", 1)

    assert len(family) == 2
    assert not any(processes.is_alive(process) for process in family)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interrupted_harness_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, status: int) -> None:
    ledger = tmp_path / "ledger"
    os.mkfifo(ledger)
    harness = subprocess.Popen(
        [sys.executable, "-c", BLOCKED, tmp_path, ledger], cwd=common.ROOT, env=programs.environment(str(common.ROOT))
    )
    assert ledger.read_text() == "hangs: one\n"  # which waits until the stub is in the middle of it
    family = set(processes.descendants(harness.pid))

    harness.send_signal(number)

    assert harness.wait() == status
    assert len(family) == 3, "ours, theirs, and what theirs has started"
    assert not any(processes.is_alive(process) for process in family)
    assert not (tmp_path / "written.json").exists()
