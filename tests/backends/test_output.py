"""What jobs print and log: whose it is, in its order, before their reports, and whatever becomes of their worker."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.backends.local.messages import Output, send
from onceflow.backends.local.output_receiver import Capture, merged
from onceflow.backends.local.output_sender import CHUNK
from onceflow.backends.local.reports import Died, Ended, Finished, Printed, Report
from onceflow.data.packets import pair
from tests.backends.common import Gate, Loop, gate, kill, nothing, pass_gate, running_pool
from tests.helpers.processes import state_of


class Listening:
    """A pool whose output is kept. `seen` has what was printed and the reports, as they came."""

    def __init__(self) -> None:
        self.seen: list[Printed | Report] = []

    def open(self, directory: Path, workers: int = 1, **options: Any) -> contextlib.AbstractContextManager[Loop]:
        return running_pool(directory, workers, printed=self.seen.extend, **options)

    def watch(self, loop: Loop) -> None:
        loop.listener = self.seen.append

    def text(self, token: int, stream: str = "stdout") -> str:
        """What this job wrote before it was reported."""
        text = ""
        for event in self.seen:
            if isinstance(event, Printed):
                if event.token == token and event.stream == stream:
                    text += event.text
            elif token in (event.tokens if isinstance(event, Died) else (event.token,)):
                return text
        raise AssertionError("it has not been reported")

    def logged(self) -> list[Printed]:
        return [event for event in self.seen if isinstance(event, Printed) and event.stream == "log"]


@pytest.fixture
def heard() -> Listening:
    return Listening()


@pytest.fixture
def alone(tmp_path: Path, heard: Listening) -> Iterator[Loop]:
    """A pool of one worker."""
    with heard.open(tmp_path) as made:
        heard.watch(made)
        yield made


def print_both(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)


def test_what_a_job_prints_is_its_own_and_comes_before_its_report(alone: Loop, heard: Listening) -> None:
    tokens = [alone.start(print_both, f"line {number}") for number in range(200)]
    for token in tokens:
        alone.report(token)

    for number, token in enumerate(tokens):
        assert heard.text(token) == f"line {number}\n"
        assert heard.text(token, "stderr") == f"LINE {number}\n"


def write_in_all_ways() -> None:
    print("by print")
    os.write(1, b"by os.write\n")
    print("again ", end="")
    sys.stdout.flush()
    subprocess.run(["echo", "by a subprocess"], check=True)
    sys.stdout.buffer.write(b"by bytes\n")
    library = ctypes.CDLL(None)
    library.puts(b"by C")
    library.fflush(None)
    print("flushed", flush=True, end="")


def test_the_order_is_kept_whichever_way_it_is_written(alone: Loop, heard: Listening) -> None:
    tokens = [alone.start(write_in_all_ways) for _ in range(20)]
    for token in tokens:
        alone.result(token)

    for token in tokens:
        assert heard.text(token) == "by print\nby os.write\nagain by a subprocess\nby bytes\nby C\nflushed"


def test_a_complete_line_is_there_at_once_and_the_rest_of_it_at_the_end(
    alone: Loop, heard: Listening, door: Gate
) -> None:
    token = alone.start(_print_and_pass, door.path)
    door.wait(alone)
    alone.until(lambda: bool(heard.seen))

    assert [event.text for event in heard.seen if isinstance(event, Printed)] == ["a line\n"]
    door.open()
    alone.result(token)
    assert heard.text(token) == "a line\nand a half"


def _print_and_pass(path: str) -> None:
    print("a line\nand a half", end="")
    pass_gate(path)


def test_what_c_code_writes_is_there_while_it_keeps_the_interpreter_lock(tmp_path: Path, heard: Listening) -> None:
    with heard.open(tmp_path, grace=0.0) as loop:
        heard.watch(loop)
        token = loop.start(_write_and_keep_lock)
        loop.until(lambda: sum(len(event.text) for event in heard.seen if isinstance(event, Printed)) == 200_000)

        loop.pool.stop(token)

        assert loop.report(token) == Ended(token, started=True)
        assert heard.text(token) == "x" * 199_999 + "\n"


def _write_and_keep_lock() -> None:
    text = b"x" * 199_999 + b"\n"
    library = ctypes.PyDLL(None)
    library.write(1, text, len(text))  # more than a pipe holds
    library.sleep(60)


def log_something() -> None:
    logger = logging.getLogger("some.where")
    logger.debug("not told")
    logger.info("told %d", 1)
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("failed")


def test_log_records_arrive_with_level_logger_and_traceback(alone: Loop, heard: Listening) -> None:
    token = alone.start(log_something)
    alone.result(token)

    first, second = heard.logged()
    assert (first.token, first.text, first.level, first.logger) == (token, "told 1", logging.INFO, "some.where")
    assert second.level == logging.ERROR
    assert second.text.startswith("failed\nTraceback")
    assert second.text.endswith("ValueError: why")
    assert abs(second.time - time.time()) < 600


def test_the_level_from_which_on_records_are_told_can_be_chosen(tmp_path: Path, heard: Listening) -> None:
    with heard.open(tmp_path, log_level=logging.ERROR) as loop:
        loop.call(log_something)

    assert [event.text.split("\n")[0] for event in heard.logged()] == ["failed"]


@pytest.mark.parametrize("options", [{"threads": True}, {"is_async": True}], ids=["thread", "async"])
def test_jobs_that_share_a_worker_are_told_apart(alone: Loop, heard: Listening, options: dict[str, Any]) -> None:
    function = _print_in_turns if "threads" in options else _print_in_turns_async
    tokens = [alone.start(function, name, **options) for name in "abc"]
    for token in tokens:
        alone.result(token)

    for name, token in zip("abc", tokens, strict=True):
        assert heard.text(token) == f"{name}\n" * 50 + f"end of {name}"
        assert {event.text for event in heard.logged() if event.token == token} == {name}


def _print_in_turns(name: str) -> None:
    for _ in range(50):
        print(name)
        logging.getLogger().warning(name)
        time.sleep(0)
    print("end of", name, end="")


async def _print_in_turns_async(name: str) -> None:
    for _ in range(50):
        print(name)
        logging.getLogger().warning(name)
        await asyncio.sleep(0)
    print("end of", name, end="")


def test_what_nobody_in_particular_wrote_belongs_to_no_job(alone: Loop, heard: Listening, door: Gate) -> None:
    token = alone.start(_leave_thread, door.path)
    alone.result(token)
    door.wait(alone)
    door.open()

    alone.until(lambda: any(isinstance(event, Printed) for event in heard.seen))

    (event,) = [event for event in heard.seen if isinstance(event, Printed)]
    assert (event.token, event.text) == (0, "late\n")


def _leave_thread(path: str) -> None:
    threading.Thread(target=lambda: print("late" if pass_gate(path) else ""), daemon=True).start()


def test_a_job_that_dies_loses_nothing_of_what_it_wrote(alone: Loop, heard: Listening) -> None:
    for ending in (os.abort, lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(3)):
        token = alone.start(_write_and_end, ending)

        assert isinstance(alone.report(token), Died)

        assert heard.text(token).startswith("printed\nwritten\n")
        assert heard.text(token, "log") == "logged"


def _write_and_end(ending: Any) -> None:
    print("printed")
    os.write(1, b"written\n")
    logging.getLogger().warning("logged")
    ending()


def test_what_a_crash_says_belongs_to_the_job(alone: Loop, heard: Listening) -> None:
    token = alone.start(_crash)

    assert isinstance(alone.report(token), Died)

    assert "Fatal Python error: Segmentation fault" in heard.text(token, "stderr")
    assert "_crash" in heard.text(token, "stderr")


def _crash() -> None:
    faulthandler.enable()
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_stopped_job_loses_nothing_of_what_it_wrote(alone: Loop, heard: Listening, door: Gate) -> None:
    token = alone.start(_print_until_stopped, door.path)
    door.wait(alone)

    alone.pool.stop(token)

    assert alone.report(token) == Ended(token, started=True)
    assert heard.text(token) == "begun\nended"


def _print_until_stopped(path: str) -> None:
    print("begun")
    try:
        pass_gate(path)
    finally:
        print("ended", end="")


def test_a_worker_that_is_killed_loses_nothing(alone: Loop, heard: Listening, door: Gate) -> None:
    token = alone.start(_print_and_pass, door.path)
    pid = door.wait(alone)

    kill(pid)

    assert isinstance(alone.report(token), Died)
    assert heard.text(token) == "a line\n"  # the rest was in its memory


@pytest.mark.parametrize("way", ["print", "subprocess"])
def test_a_job_that_prints_without_end_does_not_keep_others_from_running(
    tmp_path: Path, heard: Listening, way: str
) -> None:
    sizes = []
    with running_pool(tmp_path, 2, printed=lambda events: sizes.append(sum(len(e.text) for e in events))) as loop:
        loop.warm_up()
        endless = loop.start(_print_for_ever, way)
        loop.until(lambda: sum(sizes) > 3_000_000)

        assert [loop.call(nothing) for _ in range(20)] == [None] * 20

        loop.pool.stop(endless)
        assert loop.report(endless) == Ended(endless, started=True)
    assert max(sizes) < 10_000_000


def _print_for_ever(way: str) -> None:
    if way == "subprocess":
        subprocess.run(["yes"], check=True)
    while True:
        print("x" * 1_000)


def test_whoever_prints_faster_than_the_pool_reads_has_to_wait(alone: Loop, tmp_path: Path) -> None:
    with gate(tmp_path / "ahead") as ahead:
        token = alone.start(_print_and_count, str(tmp_path / "count"), ahead.path)
        ahead.wait(alone)
        pid = next(iter(alone.pool._workers))
        while "sock_alloc_send" not in Path(f"/proc/{pid}/wchan").read_text() and state_of(pid) != "S":
            os.sched_yield()  # the pool does not read meanwhile

        assert int((tmp_path / "count").read_text() or "0") < 10_000_000
        alone.result(token)


def _print_and_count(count: str, path: str) -> None:
    with open(path + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())
    with open(count, "w") as file:
        for number in range(300):
            print("x" * 100_000)
            file.seek(0)
            file.write(str(number * 100_000))
            file.flush()


def test_very_long_lines_and_very_large_texts_arrive(alone: Loop, heard: Listening) -> None:
    token = alone.start(_print_much)
    alone.result(token)

    assert heard.text(token) == "é" * 1_000_000 + "\n" + "y" * 300_000
    assert heard.text(token, "log") == "z" * 300_000


def _print_much() -> None:
    print("é" * 1_000_000)
    print("y" * 300_000, end="")
    logging.getLogger().warning("z" * 300_000)


def test_the_streams_behave_like_streams(alone: Loop, heard: Listening) -> None:
    token = alone.start(_look_at_streams)

    assert alone.result(token) == (False, 1, 2, "utf-8", True)
    assert "\\udcff" in heard.text(token)
    assert "UserWarning: careful" in heard.text(token, "stderr")


def _look_at_streams() -> Any:
    print("\udcff")
    print("lines", "and", "words", sep="\n", file=sys.__stdout__)
    warnings.warn("careful", stacklevel=1)
    try:
        input("?")
        ended = False
    except EOFError:
        ended = True
    return sys.stdout.isatty(), sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.encoding, ended


def test_a_child_that_user_code_forked_prints_for_its_job(alone: Loop, heard: Listening) -> None:
    token = alone.start(_print_in_fork)
    alone.result(token)

    assert heard.text(token) == "parent\nchild\nparent again\n"
    assert heard.text(token, "stderr") == "WARNING:root:from the child\n"


def _print_in_fork() -> None:
    print("parent")
    child = os.fork()
    if child == 0:
        print("child")
        logging.getLogger().warning("from the child")
        os._exit(0)
    os.waitpid(child, 0)
    print("parent again")


def test_without_capture_workers_write_where_the_caller_does(
    tmp_path: Path, heard: Listening, capfd: pytest.CaptureFixture[str]
) -> None:
    with heard.open(tmp_path, capture=False) as loop:
        loop.call(print_both, "text")

    assert capfd.readouterr() == ("text\n", "TEXT\n")
    assert not heard.seen


def test_a_pool_that_captures_leaves_no_descriptors_behind(tmp_path: Path, heard: Listening) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with heard.open(tmp_path) as loop:
        loop.report(loop.start(_write_and_end, os.abort))
        assert isinstance(loop.report(loop.start(print_both, "text")), Finished)

    assert len(set(os.listdir("/proc/self/fd"))) == len(before)


@pytest.fixture
def capture() -> Iterator[tuple[Capture, Any, int]]:
    mine, theirs = pair()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    made = Capture(mine, {reading: "stdout"})
    yield made, theirs, writing
    made.close()
    theirs.close()
    os.close(writing)


def test_what_is_in_a_pipe_comes_after_the_messages_that_were_sent_before_it(
    capture: tuple[Capture, Any, int],
) -> None:
    made, theirs, writing = capture
    (pipe,) = made.pipes
    send(theirs, Output(1, "stdout", b"first\n", 0.0))
    os.write(writing, b"second\nthi")
    send(theirs, Output(1, "log", b"later", 0.0, 20, "x"))

    events, _ = made.read(pipe, 1, 1)
    events += made.hear()[0]
    events += made.finish(1)

    assert [event.text for event in events if isinstance(event, Printed)] == ["first\n", "second\n", "thi", "later"]


def test_the_beginning_of_a_line_is_not_taken_for_the_next_jobs(capture: tuple[Capture, Any, int]) -> None:
    made, _, writing = capture
    (pipe,) = made.pipes
    os.write(writing, b"one")
    events, _ = made.read(pipe, 1, 0)
    os.write(writing, b"two\n")
    more, _ = made.read(pipe, 2, 0)

    assert not events
    assert [(event.token, event.text) for event in more if isinstance(event, Printed)] == [(1, "one"), (2, "two\n")]
    os.write(writing, b"z" * (CHUNK // 2))
    assert made.read(pipe, 2, 0) == ([], True)
    os.write(writing, b"z" * (CHUNK // 2 + 1))
    assert len(made.read(pipe, 2, 0)[0]) == 1  # nobody waits for the end of a line that long


def test_lines_that_came_together_are_passed_on_together_but_records_are_not() -> None:
    lines = [Printed(1, "stdout", "a\n", 1.0), Printed(1, "stdout", "b\n", 2.0), Printed(2, "stdout", "c\n", 3.0)]
    records = [Printed(1, "log", "a", 4.0, 20, "x"), Printed(1, "log", "b", 5.0, 20, "x")]

    assert merged(lines + records) == [Printed(1, "stdout", "a\nb\n", 1.0), lines[2], *records]
