"""What tasks print and log is stored, shown and found again, and never harms a run."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task
from onceflow.engine.logs import terminal_lines
from onceflow.errors import InvalidOption, NoSuchRun
from onceflow.runs import LogLine
from onceflow.storage import logs
from tests.engine.common import fail_while, keep
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import run_script, started
from tests.helpers.waiting import until


@pytest.fixture(scope="module")
def engine(home: Path) -> Iterator[Engine]:
    made = Engine(home, workers=2, output="store")
    yield made
    made.close()


def texts(lines: Iterator[LogLine]) -> list[str]:
    return [line.text for line in lines]


@task
def speak(*words: object) -> None:
    for word in words:
        print(word)


@task
def speak_everywhere() -> None:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop").warning("to the log")
    logging.getLogger("shop").debug("too quiet")
    current().logger.info("on my way")
    subprocess.run(["echo", "from a subprocess"], check=True)
    print("no end", end="")


@task(retry=RetryPolicy(2, delay=0))
def speak_and_fail(marker: str) -> str:
    print("trying")
    if not os.path.exists(marker):
        Path(marker).touch()
        raise ValueError("not yet")
    return "done"


# -- stored ------------------------------------------------------------------------------------------------------------


def test_output_and_records_of_a_task_are_stored_in_order(engine: Engine) -> None:
    engine.run(speak_everywhere.bind(), name="everywhere")
    lines = list(engine.logs("everywhere"))
    assert [(line.stream, line.text) for line in lines] == [
        ("stdout", "to stdout"),
        ("stderr", "to stderr"),
        ("log", "to the log"),
        ("log", "on my way"),
        ("stdout", "from a subprocess"),
        ("stdout", "no end"),
    ]
    assert {(line.task, line.attempt, line.undo) for line in lines} == {("speak_everywhere", "1.1", False)}
    assert [(line.level, line.logger) for line in lines if line.stream == "log"] == [
        (logging.WARNING, "shop"),
        (logging.INFO, "onceflow.task.speak_everywhere"),
    ]
    assert all(abs(line.time - time.time()) < 600 for line in lines)


def test_each_attempt_has_its_own_lines(engine: Engine, tmp_path: Path) -> None:
    engine.run(speak_and_fail.bind(str(tmp_path / "marker")), name="twice")
    assert [(line.attempt, line.text) for line in engine.logs("twice")] == [("1.1", "trying"), ("1.2", "trying")]
    assert [line.attempt for line in engine.logs("twice", attempt="1.2")] == ["1.2"]


def test_a_run_that_prints_nothing_makes_no_log(engine: Engine, home: Path) -> None:
    id = engine.run_async(keep.bind(1)).id
    engine.resume(id)
    assert list(engine.logs(id)) == []
    assert not (logs.of_runs(home) / id).exists()


@task
def print_and_die(marker: str) -> None:
    print("last words")
    print("half a line", end="", flush=True)
    os.write(1, b"past Python\n")
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_task_wrote_before_its_worker_was_killed_is_there(engine: Engine, tmp_path: Path) -> None:
    engine.run(print_and_die.bind(str(tmp_path / "marker")), name="killed")
    first = texts(engine.logs("killed", attempt="1.1"))
    assert first == ["last words", "half a linepast Python"]


def take_back(*, key: str) -> None:
    print("taking back")


@task(rollback=take_back)
def book() -> str:
    print("booking")
    return "booked"


@task(can_rollback=True)
def refuse(booked: str) -> None:
    raise ValueError(booked)


def test_what_an_undo_prints_is_told_apart(engine: Engine) -> None:
    with pytest.raises(TaskFailed):
        engine.run(refuse.bind(book.bind()), name="undone", on_failure="undo")
    assert [(line.text, line.undo) for line in engine.logs("undone")] == [("booking", False), ("taking back", True)]


def test_another_engine_goes_on_with_the_same_log(tmp_path: Path) -> None:
    @task
    def speak_while(path: str) -> str:
        print("looking")
        return fail_while(path)

    (tmp_path / "obstacle").touch()
    for epoch in ("1", "2"):
        with Engine(tmp_path / "home", workers=1, output="store") as engine:
            if epoch == "1":
                with pytest.raises(TaskFailed):
                    engine.run(speak_while.bind(str(tmp_path / "obstacle")), name="a")
                (tmp_path / "obstacle").unlink()
            else:
                engine.resume("a")
            assert [line.attempt.split(".")[0] for line in engine.logs("a")] == ["1", "2"][: int(epoch)]


def test_deleting_a_run_deletes_its_log(engine: Engine, home: Path) -> None:
    handle = engine.run_async(speak.bind("hello"))
    handle.result()
    assert engine.size(handle.id) > logs.size(logs.of_runs(home) / handle.id) > 0
    engine.delete(handle.id)
    assert not (logs.of_runs(home) / handle.id).exists()
    with pytest.raises(NoSuchRun):
        engine.logs(handle.id)


def test_a_task_that_prints_a_lot_keeps_what_is_new(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1, output="store", log_limit=20_000) as engine:
        engine.run(speak.bind(*range(20_000)), name="chatty")
        lines = list(engine.logs("chatty"))
        assert lines[0].stream == "missed"
        assert "dropped" in lines[0].text
        assert lines[-1].text == "19999"
        assert next(engine.logs("chatty", stream="stdout")).text != "0"
        assert engine.size("chatty") < 500_000


def test_nothing_is_missing_of_a_very_long_line(engine: Engine) -> None:
    engine.run(speak.bind("x" * 300_000), name="long")
    assert "".join(texts(engine.logs("long"))) == "x" * 300_000  # it may have come in pieces


def test_records_from_the_chosen_level_on_are_captured(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1, output="store", log_level="debug") as engine:
        engine.run(speak_everywhere.bind(), name="a")
        assert "too quiet" in texts(engine.logs("a"))


@task
def leave_thread_behind(door: str) -> None:
    def speak_late() -> None:
        knock(door)
        print("late")

    threading.Thread(target=speak_late).start()


def test_what_belongs_to_no_job_is_kept_by_the_engine(tmp_path: Path, door: Door) -> None:
    from onceflow.engine.logs import engine_log

    folder = logs.of_engines(tmp_path / "home")
    with Engine(tmp_path / "home", workers=1, output="store", event_log=False) as engine:
        engine.run(leave_thread_behind.bind(door.path), name="a")
        door.wait()
        door.open()
        found = until(lambda: [event for event in engine_log.read(folder, {}) if event.event == "stdout"])
        assert [event.detail for event in found] == ["late"]
        assert list(engine.logs("a")) == []


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_if_nothing_can_be_stored_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine(tmp_path / "home", workers=1, output="store") as engine:
        (tmp_path / "home" / "logs").write_text("in the way")
        for _ in range(3):
            engine.run(speak.bind("hello", "again"))
        (tmp_path / "home" / "logs").unlink()
        engine.run(speak.bind("better"), name="later")
        assert texts(engine.logs("later")) == ["better"]
    told = [record.getMessage() for record in caplog.records if record.name == "onceflow.engine.logs.task_output"]
    assert len([text for text in told if "cannot be stored" in text]) == 1
    assert told[-1].endswith("of what tasks printed could not be stored")


def test_a_log_says_what_is_missing_in_it(tmp_path: Path, door: Door) -> None:
    @task
    def speak_twice(path: str) -> None:
        print("lost")
        knock(path)
        print("found")

    with Engine(tmp_path / "home", workers=1, output="store", event_log=False) as engine:
        (tmp_path / "home" / "logs").write_text("in the way")
        handle = engine.run_async(speak_twice.bind(door.path), name="a")
        door.wait()
        until(lambda: engine._hub.host._printing.statistics().lost)  # type: ignore[attr-defined]
        (tmp_path / "home" / "logs").unlink()
        door.open()
        handle.result()
        lines = [(line.stream, line.text) for line in engine.logs("a")]
        assert lines == [("missed", "1 piece of output could not be stored"), ("stdout", "found")]


def test_a_damaged_line_is_left_out(engine: Engine, home: Path) -> None:
    handle = engine.run_async(speak.bind("one", "two"))
    handle.result()
    file = logs.of_runs(home) / handle.id / "0.jsonl"
    file.write_bytes(b'{"time":1.0,"ta\n\xff\n' + file.read_bytes() + b'{"time"')
    assert texts(engine.logs(handle.id)) == ["one", "two"]


# -- asked for ---------------------------------------------------------------------------------------------------------


@task
def expand() -> Any:
    print("outer")
    return speak.bind("inner")


def test_lines_are_chosen_by_task_stream_level_and_time(engine: Engine) -> None:
    @task
    def both(*before: object) -> None:
        speak_everywhere()

    engine.run(both.bind(speak.bind("first"), expand.bind()), name="chosen")
    assert texts(engine.logs("chosen", "speak")) == ["first"]
    assert texts(engine.logs("chosen", task="expand")) == ["outer", "inner"]
    assert texts(engine.logs("chosen", task="expand/speak")) == ["inner"]
    assert texts(engine.logs("chosen", stream="stderr")) == ["to stderr"]
    assert texts(engine.logs("chosen", level="WARNING")) == ["to the log"]
    assert texts(engine.logs("chosen", level=logging.INFO)) == ["to the log", "on my way"]
    assert texts(engine.logs("chosen", since=time.time() + 60)) == []
    assert texts(engine.logs("chosen", "speak", since=time.time() - 600)) == ["first"]


@pytest.mark.parametrize("wrong", [{"stream": "stdin"}, {"level": "LOUD"}, {"level": True}, {"since": "yesterday"}])
def test_what_cannot_be_asked_for_is_told_at_once(engine: Engine, wrong: dict[str, Any]) -> None:
    engine.run(keep.bind(1), name="asked")
    with pytest.raises(InvalidOption):
        engine.logs("asked", **wrong)


def test_following_gives_lines_as_they_come_and_ends_with_the_run(engine: Engine, door: Door) -> None:
    @task
    def speak_between(path: str) -> None:
        print("before")
        knock(path)
        print("after")

    handle = engine.run_async(speak_between.bind(door.path))
    door.wait()
    lines = engine.logs(handle.id, follow=True)
    assert next(lines).text == "before"
    door.open()
    assert texts(lines) == ["after"]
    assert engine.status(handle.id) == "succeeded"


SPEAKING = """
import sys
from onceflow import run, task
from tests.helpers.doors import knock

@task
def speak(path):
    print("before")
    knock(path)
    print("after")

run(speak.bind(sys.argv[1]), name="there")
"""


def test_a_run_of_another_process_can_be_followed(tmp_path: Path, door: Door) -> None:
    with started(tmp_path, SPEAKING, door.path), Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        lines = engine.logs("there", follow=True)
        assert next(lines).text == "before"
        door.open()
        assert texts(lines) == ["after"]


def test_following_ends_when_the_process_of_the_run_is_dead(tmp_path: Path, door: Door) -> None:
    with started(tmp_path, SPEAKING, door.path) as process, Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        lines = engine.logs("there", follow=True)
        assert next(lines).text == "before"
        process.kill()
        assert texts(lines) == []


# -- shown -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def showing_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("showing") / "home", workers=1)
    yield made
    made.close()


def test_lines_are_shown_with_the_task_in_front(showing_engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    showing_engine.run(speak_everywhere.bind())
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "speak_everywhere | to stdout",
        "speak_everywhere | from a subprocess",
        "speak_everywhere | no end",
    ]
    assert shown.err.splitlines() == [
        "speak_everywhere | to stderr",
        "speak_everywhere | WARNING shop: to the log",
        "speak_everywhere | INFO on my way",
    ]


def test_where_several_runs_are_driven_their_names_are_told(
    showing_engine: Engine, capsys: pytest.CaptureFixture[str], door: Door
) -> None:
    waiting = showing_engine.run_async(knock_async.bind(door.path), name="waiting")
    door.wait()
    showing_engine.run(speak_async.bind("hello"), name="spoken")
    door.open()
    waiting.result()
    assert "spoken speak_async | hello\n" in capsys.readouterr().out


@task
async def knock_async(path: str) -> None:
    import asyncio

    await asyncio.to_thread(knock, path)


@task
async def speak_async(word: str) -> None:
    print(word)


def test_what_is_only_stored_is_not_shown(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.run(speak.bind("quietly"))
    assert capsys.readouterr() == ("", "")


class Broken(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("kind", ["broken", "closed", "none", "ascii"])
def test_a_stream_that_takes_nothing_harms_no_run(
    showing_engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stream: Any = {
        "broken": Broken(),
        "closed": io.StringIO(),
        "none": None,
        "ascii": io.TextIOWrapper(io.BytesIO(), "ascii"),
    }[kind]
    if kind == "closed":
        stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    handle = showing_engine.run_async(speak.bind("grüße"))
    handle.result()
    assert texts(showing_engine.logs(handle.id)) == ["grüße"]
    if kind == "ascii":
        assert stream.buffer.getvalue() == b"speak | gr\\xfc\\xdfe\n"


SCRIPT = """
from onceflow import run, task

@task
def greet(name):
    print("hello", name)
    return name

print(run(greet.bind("ann"), name="a"))
"""


@pytest.mark.parametrize(
    ("output", "printed", "is_stored"),
    [("show", "greet | hello ann\nann\n", True), ("store", "ann\n", True), ("inherit", "hello ann\nann\n", False)],
)
def test_a_script_prints_what_its_tasks_print(tmp_path: Path, output: str, printed: str, is_stored: bool) -> None:
    assert run_script(tmp_path, SCRIPT, ONCEFLOW_OUTPUT=output) == printed
    assert bool(logs.listed(logs.of_runs(tmp_path / "home"))) == is_stored


def line(text: str, **others: Any) -> LogLine:
    return LogLine(0.0, "charge", "1.1", others.pop("stream", "stdout"), text, **others)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (line("text"), "charge | text\n"),
        (line(""), "charge | \n"),
        (line("two\nlines"), "charge | two\ncharge | lines\n"),
        (line("text", undo=True), "charge (undo) | text\n"),
        (line("10%\r50%\r100%"), "charge | 100%\n"),
        (line("done\r"), "charge | done\n"),
        (line("bad", stream="log", level=40, logger="shop"), "charge | ERROR shop: bad\n"),
        (line("fine", stream="log", level=20, logger="onceflow.task.charge"), "charge | INFO fine\n"),
        (LogLine(0.0, "", "", "missed", "much is gone"), "onceflow | much is gone\n"),
    ],
)
def test_how_a_line_looks(given: LogLine, shown: str) -> None:
    assert terminal_lines.form(given) == shown


def test_a_strange_name_does_not_break_lines() -> None:
    assert terminal_lines.form(line("text"), before="two\nlines\x1b[2J") == "two lines\\x1b[2J charge | text\n"


def test_a_terminal_gets_colours_unless_somebody_minds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    terminal_lines.show([(None, line("text"))])
    assert terminal.getvalue().startswith("\x1b[")
    assert terminal.getvalue().endswith("charge |\x1b[0m text\n")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    terminal_lines.show([(None, line("text"))])
    assert terminal.getvalue() == "charge | text\n"
