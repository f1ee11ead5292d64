"""A program that is stopped (Ctrl-Z) in the middle of whatever it does: other commands on its home go on, or say what
they wait for."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onceflow import Engine
from onceflow.cli.main import main
from onceflow.storage import lock_waits
from tests.cli.common import FLOWS, Command, well_behaved
from tests.helpers.waiting import LONG
from tests.storage.common import Child

FEW = 25
MANY = 200

COMMITTING = """
import sys, threading
from onceflow import Engine
from tests.cli.flows import approved, trip

engine = Engine(sys.argv[1], workers=1, durability="power", output="store")
engine.run(trip.bind("ann"), name="ended")
engine.run_async(approved.bind(), name="going on")

def commit():
    while True:
        engine.send_event("going on", "noise", 1)

threading.Thread(target=commit, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    print("alive", flush=True)
"""

IN_TURN = """
import sys
from pathlib import Path
from onceflow.storage.fair_lock import Turns
turns = Turns(Path(sys.argv[1]) / "journal.db")
assert turns.try_to_acquire()
print("held", flush=True)
sys.stdin.readline()
"""

LOOKING = [
    ("ls",),
    ("show", "ended"),
    ("show", "going on"),
    ("why", "going on"),
    ("doctor",),
    ("run", f"{FLOWS}:trip", "--arg", "user=ann", "--name", "ended"),
    ("output", "ended"),
    ("stats",),
    ("logs", "ended"),
    ("engines",),
]

WRITING = [
    ("send", "going on", "more"),
    ("run", f"{FLOWS}:trip", "--arg", "user=bob"),
]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "TELL_AFTER", 0.0)
    monkeypatch.setattr(lock_waits, "CHECK_EVERY", 0.05)
    monkeypatch.setenv("ONCEFLOW_LOCK_TIMEOUT", "0.2")


@pytest.fixture
def program(fresh: Command) -> Iterator[Child]:
    with Child(COMMITTING, fresh.home) as made:
        assert made.read() == "ready"
        yield made


def test_whoever_looks_waits_for_no_program_that_is_stopped(
    fresh: Command, program: Child, caplog: pytest.LogCaptureFixture
) -> None:
    stop_and_look(fresh, program, FEW, caplog)


@pytest.mark.soak
def test_that_holds_for_many_moments(fresh: Command, program: Child, caplog: pytest.LogCaptureFixture) -> None:
    stop_and_look(fresh, program, MANY, caplog)


def stop_and_look(onceflow: Command, program: Child, times: int, caplog: pytest.LogCaptureFixture) -> None:
    """(What a command logs is shown on stderr, unless tests catch it.)"""
    random, looking, writing = Random(1), itertools.cycle(LOOKING), itertools.cycle(WRITING)
    refused = 0
    for _ in range(times):
        for _ in range(random.randrange(1, 5)):
            program.go_on()
            assert program.read() == "alive"
        program.stop()
        onceflow(*next(looking))
        caplog.clear()
        result = called(onceflow, *next(writing))
        if result.exit_code != 0:
            refused += 1
            assert result.exit_code == 5, result.output
            told = rf"waiting for .*journal\.db, which is locked by process {program.process} \(.*\), which is stopped"
            assert re.search(told, caplog.text)
            assert "Nothing was changed." in result.stderr.splitlines()[-1]
        program.resume()
    assert refused  # else it was never stopped in a commit


def test_what_is_known_of_a_run_is_told_although_its_engine_is_stopped(
    fresh: Command, program: Child, caplog: pytest.LogCaptureFixture
) -> None:
    program.stop()

    shown = fresh("show", "going on")

    assert f"which cannot be asked: it is process {program.process} (" in caplog.text
    assert "which is stopped (Ctrl-Z)" in caplog.text
    assert "waits for event 'approval'" in shown.stdout


def test_a_command_that_waits_for_a_run_says_that_its_program_is_stopped(
    fresh: Command, program: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEFLOW_LOCK_TIMEOUT", str(LONG))
    with fresh.start("cancel", "going on", "--yes") as waiting:
        program.stop()
        assert waiting.stderr is not None
        line = waiting.stderr.readline()
        program.resume()
        waiting.wait()

    assert re.match(rf"onceflow: waiting for .*process {program.process} \(.*stopped \(Ctrl-Z\); `fg`", line)
    assert fresh.status("going on") == "cancelled"


@pytest.mark.parametrize(
    "args",
    [
        ("delete", "ended", "--yes"),
        ("run", f"{FLOWS}:trip", "--arg", "user=bob"),
        ("submit", f"{FLOWS}:trip", "--arg", "user=bob"),
        ("rerun", "ended", "--from", "pay"),
        ("queue", "set", "q", "--concurrency", "1"),
    ],
)
def test_a_command_that_writes_ends_with_an_error_that_names_the_stopped_program(
    fresh: Command, args: tuple[str, ...]
) -> None:
    fresh.run("trip", "--arg", "user=ann", "--name", "ended")
    before = fresh.json("ls")
    with Child(IN_TURN, fresh.home) as program:
        assert program.read() == "held"
        program.stop()

        line = fresh.error(*args, code=5).splitlines()[-1]

        assert f"by process {program.process} (" in line
        assert "which is stopped (Ctrl-Z); `fg` in its terminal" in line
    assert fresh.json("ls") == before


@pytest.mark.parametrize("args", [("resume", "going on"), ("run", f"{FLOWS}:approved", "--name", "going on")])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_one_ctrl_c_ends_a_command_that_only_waits_for_another_program(
    fresh: Command, program: Child, args: tuple[str, ...], is_stopped: bool
) -> None:
    if is_stopped:
        program.stop()
    with fresh.start(*args) as waiting:
        assert waiting.stderr is not None
        line = waiting.stderr.readline()  # after a while it says what it waits for, or how that gets on
        waiting.send_signal(signal.SIGINT)
        _, errors = waiting.communicate(timeout=LONG)
    program.resume()

    assert "going on" in line
    assert waiting.returncode == 130
    assert "run going on is driven by another process, and was not stopped" in errors
    assert fresh.status("going on") == "waiting"


def test_that_an_engine_cannot_be_asked_is_said_once_for_each_time_that_it_stops(
    fresh: Command, program: Child, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine(fresh.home, workers=1) as engine:
        for times in (1, 2):
            program.stop()
            for _ in range(3):
                engine.list_tasks("going on")
            assert caplog.text.count("which cannot be asked: it is process") == times
            program.resume()
            for _ in range(2):
                engine.list_tasks("going on")
            assert caplog.text.count("can be asked again") == times


MODULE = """
import logging
logging.basicConfig(filename={log!r}, level=logging.ERROR)
from tests.cli.flows import trip
"""
"""Wants nothing of onceflow in its log."""


def test_a_command_that_waits_says_so_after_two_seconds_even_if_it_is_quiet_and_logs_go_elsewhere(
    fresh: Command, tmp_path: Path
) -> None:
    """With the real patience: the line is there before the error that comes after three seconds."""
    fresh.run("trip", "--arg", "user=ann")
    module = tmp_path / "shop.py"
    module.write_text(MODULE.format(log=str(tmp_path / "log")))
    with Child(IN_TURN, fresh.home) as program:
        assert program.read() == "held"
        program.stop()
        args = ("run", f"{module}:trip", "--arg", "user=bob", "--quiet")
        with fresh.start(*args, ONCEFLOW_LOCK_TIMEOUT="3") as waiting:
            out, errors = waiting.communicate()

    assert (out, waiting.returncode) == ("", 5)
    told, error = errors.splitlines()
    holder = rf"locked by process {program.process} \(.*\), which is stopped \(Ctrl-Z\)"
    assert re.match(rf"onceflow: waiting for .*journal\.db, which is {holder}.* \(2 s so far\)", told)
    assert "journal.db: it has been locked for 3 s by process" in error


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)])
@pytest.mark.parametrize("stream", [None, "stderr", "elsewhere"])
def test_what_is_waited_for_is_said_on_stderr_once(
    fresh: Command, options: tuple[str, ...], stream: str | None
) -> None:
    """Whatever is done with the log: nothing, or it is shown on stderr, or written elsewhere."""
    fresh.run("trip", "--arg", "user=ann")
    handlers: list[logging.Handler] = []

    class Runner(CliRunner):
        """With a log of the user's."""

        @contextlib.contextmanager
        def isolation(self, *given: Any, **others: Any) -> Iterator[Any]:
            with super().isolation(*given, **others) as streams:
                if stream is not None:
                    handlers.append(logging.StreamHandler(sys.stderr if stream == "stderr" else io.StringIO()))
                    logging.getLogger().addHandler(handlers[0])
                try:
                    yield streams
                finally:
                    for handler in handlers:
                        logging.getLogger().removeHandler(handler)

    with Child(IN_TURN, fresh.home) as program:
        assert program.read() == "held"
        args = ["run", f"{FLOWS}:trip", "--arg", "user=bob", *options, "--home", str(fresh.home)]
        result = Runner().invoke(main, args)

    assert result.exit_code == 5
    assert len(re.findall(r"waiting for .*journal\.db, which is locked by process", result.stderr)) == 1


def called(onceflow: Command, *args: str) -> Result:
    result = CliRunner().invoke(main, [*args, "--home", str(onceflow.home)])
    well_behaved(result)
    return result
