"""Undo: what rollback functions are called with and when, and how a run that was undone stands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task
from onceflow.errors import RunPaused
from tests.engine.common import add, keep
from tests.helpers.traces import note, traces

NEVER = RetryPolicy(0, delay=0.01)


class Refused(Exception):
    pass


def book_and_note(city: str, path: str, nights: int = 2) -> str:
    note(path, json.dumps(["booked", city, current().key]))
    return f"room in {city}"


def cancel(city: str, nights: int, path: str, *, output: str | None, key: str) -> None:
    note(path, json.dumps(["cancelled", city, nights, output, key]))


book = task(rollback=cancel)(book_and_note)


def cancel_unless(path: str, fault: str) -> None:
    """Cannot take it back while there is a fault."""
    note(path, '["tried to cancel"]')
    if os.path.exists(fault):
        raise Refused("the desk is closed")
    note(path, '["cancelled"]')


@task(rollback=cancel_unless, retry=NEVER)
def book_stubbornly(path: str, fault: str) -> str:
    note(path, json.dumps(["booked", current().key]))
    return "room"


@task(can_rollback=True)
def refuse(*_: Any) -> None:
    raise Refused("no money")


@task
def refuse_irrevocably(*_: Any) -> None:
    raise Refused("no money")


@task(can_rollback=True)
def refuse_while(fault: str, *_: Any) -> str:
    if os.path.exists(fault):
        raise Refused("not yet")
    return "fine"


def clean(path: str) -> None:
    note(path, '["cleaned"]')


@task(rollback=clean)
def half_done(path: str) -> None:
    note(path, '["began"]')
    raise Refused("half way")


async def cancel_later(path: str, *, output: str | None) -> None:
    note(path, json.dumps(["cancelled", output]))


@task(rollback=cancel_later)
async def book_later(path: str) -> str:
    return "async room"


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in traces(path)]


def failure_of(engine: Engine, node: Any, **options: Any) -> TaskFailed:
    with pytest.raises(TaskFailed) as caught:
        engine.run(node, **options)
    return caught.value


def test_a_rollback_gets_the_arguments_it_declares_and_output_and_key(engine: Engine, tmp_path: Path) -> None:
    # when
    path = tmp_path / "trace"
    failure_of(engine, refuse.bind(book.bind("Rome", str(path))), on_failure="undo")
    # then
    booked, cancelled = lines(path)
    assert cancelled == ["cancelled", "Rome", 2, "room in Rome", booked[2]]


def clean_all(path: str, *args: Any, key: str, **kwargs: Any) -> None:
    note(path, json.dumps(["cleaned", args, kwargs, bool(key)]))


@task(rollback=clean_all)
def write_all(path: str, *rows: int, at: str = "noon", **named: int) -> str:
    return path


def test_the_stars_of_a_rollback_get_the_other_arguments_as_they_were_bound(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    failure_of(engine, refuse.bind(write_all.bind(str(path), 1, 2, more=3)), on_failure="undo")
    assert lines(path) == [["cleaned", [1, 2], {"more": 3}, True]]


def test_a_run_all_of_which_was_taken_back_is_undone(engine: Engine, tmp_path: Path) -> None:
    failure = failure_of(engine, refuse.bind(book.bind("Rome", str(tmp_path / "trace"))), on_failure="undo")
    assert failure.undone
    assert failure.kept == failure.uncertain == ()
    assert "taken back" in str(failure)
    assert type(failure.__cause__) is Refused
    assert engine.status(failure.run) == "undone"


def test_by_default_a_failure_keeps_what_was_done(engine: Engine, tmp_path: Path) -> None:
    # when
    path = tmp_path / "trace"
    failure = failure_of(engine, refuse.bind(book.bind("Rome", str(path))))
    # then
    assert not failure.undone
    assert [line[0] for line in lines(path)] == ["booked"]
    assert engine.status(failure.run) == "failed"


def test_an_attempt_that_did_not_finish_is_undone_without_an_output(engine: Engine, tmp_path: Path) -> None:
    # when
    path = tmp_path / "trace"
    failure = failure_of(engine, half_done.bind(str(path)), on_failure="undo")
    # then
    assert failure.undone
    assert lines(path) == [["began"], ["cleaned"]]


def test_undoing_goes_backwards(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    first = book.bind("Rome", path)
    second = book.options(after=[first]).bind("Oslo", path)
    # when
    failure_of(engine, refuse.options(after=[second]).bind(), on_failure="undo")
    # then
    assert [line[:2] for line in lines(tmp_path / "trace")] == [
        ["booked", "Rome"],
        ["booked", "Oslo"],
        ["cancelled", "Oslo"],
        ["cancelled", "Rome"],
    ]


def test_what_something_irrevocable_stands_on_is_kept_and_listed(engine: Engine, tmp_path: Path) -> None:
    # when an irrevocable task fails: it may have happened
    path = tmp_path / "trace"
    failure = failure_of(engine, refuse_irrevocably.bind(book.bind("Rome", str(path))), on_failure="undo")
    # then
    assert failure.kept == ("book_and_note",)
    assert failure.uncertain == ("refuse_irrevocably",)
    assert not failure.undone
    assert [line[0] for line in lines(path)] == ["booked"]
    assert engine.status(failure.run) == "failed"


def test_what_nothing_irrevocable_stands_on_is_taken_back_beside_what_is_kept(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    charged = keep.bind(book.bind("Rome", path))
    other = book.options(after=[charged]).bind("Oslo", path)
    # when
    failure = failure_of(engine, refuse.bind(charged, other), on_failure="undo")
    # then
    assert failure.kept == ("book_and_note",) or len(failure.kept) == 1
    assert [line[:2] for line in lines(tmp_path / "trace") if line[0] == "cancelled"] == [["cancelled", "Oslo"]]
    assert engine.status(failure.run) == "failed"


def test_a_large_output_is_given_to_the_rollback(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")

    def take_back(size: int, *, output: bytes | None) -> None:
        note(path, [size, len(output or b"")])

    def make(size: int) -> bytes:
        return b"x" * size

    # when
    failure_of(engine, refuse.bind(task(rollback=take_back)(make).bind(200_000)), on_failure="undo")
    # then
    assert traces(path) == ["[200000, 200000]"]


def test_a_large_input_is_given_to_the_rollback(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")

    def take_back(value: bytes) -> None:
        note(path, len(value))

    def use(value: bytes) -> None: ...

    large = task.pure(name="large")(lambda: b"x" * 200_000).bind()
    # when
    failure_of(engine, refuse.bind(task(rollback=take_back)(use).bind(large)), on_failure="undo")
    # then
    assert traces(path) == ["200000"]


def test_async_rollbacks_are_awaited(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    failure_of(engine, refuse.bind(book_later.bind(str(path))), on_failure="undo")
    assert lines(path) == [["cancelled", "async room"]]


def test_resume_of_an_undone_run_starts_afresh_with_new_keys(engine: Engine, tmp_path: Path) -> None:
    # given
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()
    failure = failure_of(engine, refuse_while.bind(str(fault), book.bind("Rome", str(path))), on_failure="undo")
    # when
    fault.unlink()
    result = engine.resume(failure.run)
    # then
    assert result == "fine"
    assert [line[0] for line in lines(path)] == ["booked", "cancelled", "booked"]
    first, _, second = lines(path)
    assert first[2] != second[2]
    assert engine.status(failure.run) == "succeeded"


def test_a_failed_resume_of_an_undone_run_is_undone_again(engine: Engine, tmp_path: Path) -> None:
    # given
    path = tmp_path / "trace"
    failure = failure_of(engine, refuse.bind(book.bind("Rome", str(path))), on_failure="undo")
    # when
    with pytest.raises(TaskFailed) as again:
        engine.resume(failure.run)
    # then
    assert again.value.undone
    assert [line[0] for line in lines(path)] == ["booked", "cancelled", "booked", "cancelled"]


def test_an_undo_that_fails_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    # given a rollback that fails the first time
    path = str(tmp_path / "trace")

    def shaky() -> None:
        note(path, "tried")
        if len(traces(path)) == 1:
            raise Refused("busy")

    def act() -> None: ...

    # when
    failure = failure_of(
        engine, refuse.bind(task(rollback=shaky, retry=RetryPolicy(0, delay=0.01))(act).bind()), on_failure="undo"
    )
    # then
    assert failure.undone
    assert traces(path) == ["tried", "tried"]


def test_an_undo_that_keeps_failing_pauses_the_run(engine: Engine, tmp_path: Path) -> None:
    # given
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()
    # when
    with pytest.raises(RunPaused) as caught:
        engine.run(refuse.bind(book_stubbornly.bind(str(path), str(fault))), on_failure="undo")
    # then
    assert caught.value.task == "book_stubbornly"
    assert type(caught.value.__cause__) is Refused
    assert str(caught.value.__cause__) == "the desk is closed"
    assert engine.status(caught.value.run) == "paused"
    assert caught.value.run in [info.id for info in engine.list_runs(status="paused")]


def test_a_paused_run_goes_on_undoing_when_the_cause_is_removed(engine: Engine, tmp_path: Path) -> None:
    # given
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()
    with pytest.raises(RunPaused) as caught:
        engine.run(refuse.bind(book_stubbornly.bind(str(path), str(fault))), on_failure="undo")
    # when
    fault.unlink()
    with pytest.raises(TaskFailed) as failed:
        engine.resume(caught.value.run)
    # then
    assert failed.value.undone
    assert str(failed.value.__cause__) == "no money"
    assert engine.status(caught.value.run) == "undone"
    assert lines(path)[-1] == ["cancelled"]
    assert [line[0] for line in lines(path)].count("booked") == 1


def test_a_paused_run_pauses_again_while_the_cause_is_there(engine: Engine, tmp_path: Path) -> None:
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()
    with pytest.raises(RunPaused) as caught:
        engine.run(refuse.bind(book_stubbornly.bind(str(path), str(fault))), on_failure="undo")
    with pytest.raises(RunPaused) as again:
        engine.resume(caught.value.run)
    assert again.value.run == caught.value.run
    assert type(again.value.__cause__) is Refused


def test_a_paused_run_is_known_to_be_paused_to_the_next_engine(tmp_path: Path) -> None:
    # given
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()
    with Engine(tmp_path / "home", workers=1) as engine, pytest.raises(RunPaused) as caught:
        engine.run(refuse.bind(book_stubbornly.bind(str(path), str(fault))), on_failure="undo")
    # when
    fault.unlink()
    with Engine(tmp_path / "home", workers=1) as engine:
        before = engine.status(caught.value.run)
        with pytest.raises(TaskFailed) as failed:
            engine.resume(caught.value.run)
    # then
    assert before == "paused"
    assert failed.value.undone
    assert type(failed.value.__cause__) is Refused
    assert lines(path)[-1] == ["cancelled"]


def test_an_attempt_that_cannot_be_undone_before_its_retry_pauses_the_run(engine: Engine, tmp_path: Path) -> None:
    # given
    path, fault = tmp_path / "trace", tmp_path / "fault"
    fault.touch()

    def act(trace: str, fault: str) -> str:
        note(trace, "acted")
        if len(traces(trace)) == 1:
            raise Refused("first time")
        return "acted"

    def take_back(trace: str, fault: str) -> None:
        if os.path.exists(fault):
            raise Refused("cannot be taken back")

    node = task(rollback=take_back, retry=RetryPolicy(1, delay=0.01))(act).bind(str(path), str(fault))
    # when
    with pytest.raises(RunPaused) as caught:
        engine.run(node)
    # then the second attempt has not begun, and does when the first one is undone
    assert traces(path) == ["acted"]
    fault.unlink()
    assert engine.resume(caught.value.run) == "acted"
    assert traces(path) == ["acted", "acted"]


def test_events_tell_of_undos(engine: Engine, tmp_path: Path) -> None:
    # when
    handle = engine.run_async(refuse.bind(book.bind("Rome", str(tmp_path / "trace"))), on_failure="undo")
    kinds = [(event.kind, event.task or event.detail) for event in handle]
    # then
    assert ("undoing", "book_and_note") in kinds
    assert kinds.index(("undoing", "book_and_note")) < kinds.index(("undone", "book_and_note"))
    assert kinds[-1] == ("status", "undone")


def test_a_run_that_succeeds_undoes_nothing(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    assert engine.run(keep.bind(book.bind("Rome", str(path))), on_failure="undo") == "room in Rome"
    assert [line[0] for line in lines(path)] == ["booked"]


def test_undo_of_a_run_without_anything_to_undo(engine: Engine) -> None:
    failure = failure_of(engine, refuse.bind(), on_failure="undo")
    assert failure.undone
    assert engine.status(failure.run) == "undone"


def test_an_unknown_way_to_handle_failure_is_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="'keep' or 'undo', not 'forget'"):
        engine.run(add.bind(1, 2), on_failure="forget")  # type: ignore[arg-type]
