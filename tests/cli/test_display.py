"""What is shown of runs that go on: on a terminal, and elsewhere."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.common import ENVIRONMENT, FLOWS, Command
from tests.helpers.waiting import LONG, until

CLEARED = "\x1b[2K"
"""What a terminal is told to empty a line."""
CURSOR = "\x1b[?25h"
"""What it is told to show its cursor."""


class Terminal:
    """A command that runs on a terminal of its own."""

    def __init__(self, *args: str, home: Path) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self._ours = ours
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onceflow", *args, "--home", str(home)],
            env={**ENVIRONMENT, "TERM": "xterm-256color", "ONCEFLOW_WORKERS": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""

    @property
    def text(self) -> str:
        """All that was written, without what only moves the cursor or colours it."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw).replace("\r", "")

    def read_until(self, pattern: str) -> None:
        deadline = time.monotonic() + LONG
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text[-2000:]
            assert self._read(), self.text[-2000:]

    def read_all(self) -> int:
        """Returns how the command ended."""
        while self._read():
            pass
        return self.process.wait(LONG)

    def _read(self) -> bool:
        if select.select([self._ours], [], [], LONG)[0]:
            with contextlib.suppress(OSError):  # the terminal is closed when nobody writes to it any more
                some = os.read(self._ours, 65536)
                self.raw += some.decode(errors="replace")
                return bool(some)
        return False

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LONG)
        os.close(self._ours)


@contextlib.contextmanager
def terminal(*args: str, home: Path) -> Iterator[Terminal]:
    made = Terminal(*args, home=home)
    try:
        yield made
    finally:
        made.close()


def test_a_run_on_a_terminal_is_shown_and_the_display_goes_away(fresh: Command, tmp_path: Path) -> None:
    door = tmp_path / "door"
    arguments = ("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}")
    with terminal(*arguments, home=fresh.home) as screen:
        # when it takes longer than a moment
        screen.read_until(r"w walked [━╸╺]+ running · 0 of 2 done · \d+:\d\d")
        screen.read_until(r"  walk +[━╸╺]+ \d+:\d\d +7 of 20 \(35 %\) miles")
        screen.read_until(r"  after +waiting +waits for walk")
        assert re.search(r"walk \| on my way\n", screen.text)  # what tasks print stands above it
        door.touch()
        # then what is left is the last line about it, and the result
        assert screen.read_all() == 0
        last = screen.raw[screen.raw.rindex(CLEARED) + len(CLEARED) :]
        assert last.replace("\r", "") == "held and done\n"
        assert re.search(r"w: succeeded after \d+\.\d s, 2 tasks\n", screen.text)
        assert screen.raw.rindex(CURSOR) > screen.raw.rindex("walked")


def test_a_short_run_on_a_terminal_leaves_nothing_but_its_result(fresh: Command) -> None:
    with terminal("run", f"{FLOWS}:nothing", "--name", "n", home=fresh.home) as screen:
        assert screen.read_all() == 0
        assert "succeeded" not in screen.text or "after" in screen.text


def test_a_run_of_another_process_is_watched_on_a_terminal(fresh: Command, tmp_path: Path) -> None:
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}", "--quiet")
    until(Path(f"{door}.here").exists)
    with terminal("watch", "w", home=fresh.home) as screen:
        screen.read_until(r"  walk +[━╸╺]+ \d+:\d\d +7 of 20 \(35 %\) miles")
        door.touch()
        assert screen.read_all() == 0
        assert re.search(r"w: succeeded after .*, 2 tasks\n", screen.text)
    driving.communicate(timeout=LONG)


def test_ctrl_c_on_a_terminal_leaves_it_as_it_was(fresh: Command, tmp_path: Path) -> None:
    door = tmp_path / "door"
    with terminal("watch", "--interval", "0.05", home=fresh.home) as screen:
        assert screen.read_all() == 0  # nothing goes on
    driving = fresh.start("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}", "--quiet")
    until(Path(f"{door}.here").exists)
    with terminal("watch", home=fresh.home) as screen:
        screen.read_until(r"  walk +[━╸╺]+")
        os.kill(screen.process.pid, 2)
        assert screen.read_all() == 130
        assert CURSOR in screen.raw[screen.raw.rindex("walk") :]
        assert screen.text.endswith("onceflow: interrupted\n")
    door.touch()
    driving.communicate(timeout=LONG)


@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)], ids=["lines", "json", "quiet"])
def test_elsewhere_a_long_run_is_told_in_lines(fresh: Command, tmp_path: Path, options: tuple[str, ...]) -> None:
    # given
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}", *options)
    assert driving.stdout is not None
    assert driving.stderr is not None
    # when
    told = ""
    if options == ("--quiet",):
        until(Path(f"{door}.here").exists)
    else:
        while '"done":7,' not in told and "35 %" not in told:
            told = driving.stderr.readline()
    door.touch()
    out, rest = driving.communicate(timeout=LONG)
    # then
    if options == ("--json",):
        assert json.loads(told)["running"][0]["progress"] == {"done": 7, "total": 20, "note": "miles"}
        assert json.loads(rest.splitlines()[-1])["status"] == "succeeded"
        assert json.loads(out)["result"] == "held and done"
    elif options == ("--quiet",):
        assert [line for line in rest.splitlines() if " | " not in line] == []
    else:
        assert re.search(r"  w  running, 0 of 2 done, 1 running, 1 waiting, 0:\d\d: walk 35 %\n", told)
        assert re.search(r"  w  succeeded after .* s, 2 tasks\n$", rest)
        assert out == "held and done\n"


def test_show_tells_of_a_run_of_another_process(fresh: Command, tmp_path: Path) -> None:
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}", "--quiet")
    until(Path(f"{door}.here").exists)
    walk, after = fresh.json("show", "w")["tasks"]
    assert (walk["state"], walk["progress"], walk["live"]) == (
        "running",
        {"done": 7, "total": 20, "note": "miles"},
        True,
    )
    assert (after["state"], after["reason"]) == ("waiting", "waits for walk")
    assert "7 of 20 (35 %) miles" in fresh("show", "w").stdout
    door.touch()
    driving.communicate(timeout=LONG)


def test_an_engine_that_does_not_answer_is_mentioned(fresh: Command, tmp_path: Path) -> None:
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:walked", "--name", "w", "--arg", f"path={door}", "--quiet")
    until(Path(f"{door}.here").exists)
    for socket in (fresh.home / "engines").glob("*.socket"):
        socket.unlink()
    result = fresh("show", "w")
    assert result.stderr.startswith("onceflow: the engine that drives it does not answer: ")
    assert "ready" in result.stdout
    watching = fresh.start("watch", "w", "--interval", "0.05")
    assert watching.stderr is not None
    assert "does not answer" in watching.stderr.readline()
    door.touch()
    watching.communicate(timeout=LONG)
    driving.communicate(timeout=LONG)
