"""Transactions: parts of a run that are done as a whole, or taken back; and branches that end early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task, transaction, workflow
from onceflow.handlers import break_, handler, ignore, retry, terminate
from tests.helpers.traces import note, traces


class Sold(Exception):
    pass


def cancel(path: str, what: str) -> None:
    note(path, f"cancel {what}")


@task(rollback=cancel)
def book(path: str, what: str, *after: Any) -> str:
    note(path, f"book {what}")
    return what


@task
def pay(path: str, *what: Any) -> str:
    note(path, "pay")
    return "paid"


@task(can_rollback=True)
def sell_out(path: str, what: str, *after: Any) -> str:
    raise Sold(what)


@task(can_rollback=True)
def fail_until(path: str, enough: int, *after: Any) -> str:
    if traces(path).count("book room") < enough:
        raise Sold("not yet")
    return "at last"


@task.pure
def show(*values: Any) -> str:
    return repr(values)


@transaction
def trip(path: str, last: Any = sell_out) -> str:
    room = book.bind(path, "room")
    flight = book.bind(path, "flight", room)
    return show.bind(room, flight, last.bind(path, "train", flight))


@transaction(retry=RetryPolicy(3, delay=0.001))
def stubborn(path: str, enough: int) -> str:
    return show.bind(fail_until.bind(path, enough, book.bind(path, "room")))


UNDONE = ["book room", "book flight", "cancel flight", "cancel room"]


def test_a_transaction_that_succeeds_is_a_task(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    assert engine.run(show.bind(trip.bind(path, book))) == repr(("('room', 'flight', 'train')",))


def test_a_transaction_that_fails_is_taken_back_in_reverse_order_and_fails_the_run(
    engine: Engine, tmp_path: Path
) -> None:
    path = str(tmp_path / "world")
    with pytest.raises(TaskFailed) as caught:
        engine.run(show.bind(trip.bind(path)))
    assert isinstance(caught.value.__cause__, Sold)
    assert traces(path) == UNDONE


def test_what_is_outside_of_it_stays(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    with pytest.raises(TaskFailed):
        engine.run(show.bind(book.bind(path, "table"), trip.options(after=[book.bind(path, "car")]).bind(path)))
    assert "cancel car" not in traces(path)
    assert "cancel room" in traces(path)


def test_a_failed_transaction_can_be_caught(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    value, error = trip.options(catch=True).bind(path)
    assert engine.run(show.bind(value, error)) == "(None, Sold('train'))"
    assert traces(path) == UNDONE


def test_a_handler_outside_answers_for_the_whole(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    node = trip.options(handlers=[handler(Sold, ignore("stay at home"))]).bind(path)
    assert engine.run(show.bind(node)) == "('stay at home',)"
    assert traces(path) == UNDONE


def test_the_handlers_of_a_workflow_around_it_answer_for_the_whole(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    assert engine.run(around.bind(path)) == "('nowhere',)"
    assert traces(path) == UNDONE


@workflow(handlers=[handler(Sold, ignore("nowhere"))])
def around(path: str) -> str:
    return show.bind(trip.bind(path))


def test_a_handler_inside_answers_for_the_task(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    last = sell_out.options(handlers=[handler(Sold, ignore("bus"))])
    assert engine.run(trip.bind(path, last)) == "('room', 'flight', 'bus')"


def test_a_transaction_is_tried_again_afresh(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    assert engine.run(stubborn.bind(path, 3)) == "('at last',)"
    assert traces(path) == ["book room", "cancel room"] * 2 + ["book room"]


def test_a_transaction_that_is_tried_too_often_fails(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    with pytest.raises(TaskFailed):
        engine.run(stubborn.bind(path, 9))
    assert traces(path) == ["book room", "cancel room"] * 4


def test_a_handler_may_have_a_transaction_tried_again(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    node = stubborn.options(retry=0, handlers=[handler(Sold, retry(2, delay=0.001))]).bind(path, 3)
    assert engine.run(node) == "('at last',)"


def test_terminate_takes_the_transaction_back_and_fails_the_run(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    last = sell_out.options(handlers=[handler(Sold, terminate())])
    with pytest.raises(TaskFailed):
        engine.run(trip.options(catch=True).bind(path, last))
    assert traces(path) == UNDONE


@transaction
def paid(path: str) -> str:
    room = book.bind(path, "room")
    money = pay.bind(path, room)
    return show.bind(sell_out.bind(path, "train", book.bind(path, "flight", money)))


def test_what_something_irrevocable_stands_on_is_kept_and_listed(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    with pytest.raises(TaskFailed) as caught:
        engine.run(paid.bind(path))
    assert caught.value.kept == ("paid/book",)
    assert traces(path) == ["book room", "pay", "book flight", "cancel flight"]


@transaction
def outer(path: str) -> str:
    return show.bind(trip.options(catch=True).bind(path), book.bind(path, "table"))


def test_a_transaction_in_a_transaction_is_taken_back_alone(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    assert "Sold('train')" in engine.run(outer.bind(path))
    assert "cancel table" not in traces(path)


@transaction
def outer_failing(path: str) -> str:
    done = trip.bind(path, book)
    return show.bind(done, sell_out.bind(path, "boat", done))


def test_a_transaction_that_is_done_is_taken_back_with_the_one_around_it(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    with pytest.raises(TaskFailed):
        engine.run(outer_failing.bind(path))
    world = traces(path)
    assert sorted(line.replace("book", "cancel") for line in world if line.startswith("book")) == sorted(
        line for line in world if line.startswith("cancel")
    )


def test_a_failed_run_starts_the_transaction_afresh_when_it_is_resumed(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    handle = engine.run_async(stubborn.options(retry=0).bind(path, 2))
    with pytest.raises(TaskFailed):
        handle.result()
    assert engine.resume(handle.id) == "('at last',)"
    assert traces(path) == ["book room", "cancel room", "book room"]


# -- branches that end early -------------------------------------------------------------------------------------------

enough = handler(Sold, break_())


@task
def branch(path: str, what: str) -> Any:
    kept = book.bind(path, what)
    return pay.bind(path, sell_out.options(handlers=[enough]).bind(path, what, kept))


def test_break_ends_the_branch_with_nothing_and_its_siblings_go_on(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    result = engine.run(show.bind(branch.bind(path, "one"), show.bind(2), branch.bind(path, "two")))
    assert result == "(None, '(2,)', None)"
    assert sorted(traces(path)) == ["book one", "book two"]


def test_break_outside_of_any_branch_ends_the_run_with_nothing(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    handle = engine.run_async(pay.bind(path, sell_out.options(handlers=[enough]).bind(path, "all")))
    assert handle.result() is None
    assert traces(path) == []
    assert engine.status(handle.id) == "succeeded"


def test_a_transaction_that_breaks_keeps_what_it_has_done(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    assert engine.run(show.bind(trip.bind(path, sell_out.options(handlers=[enough])))) == "(None,)"
    assert traces(path) == ["book room", "book flight"]


@task
def failing_branch(path: str) -> Any:
    return show.bind(sell_out.bind(path, "inside", book.bind(path, "room")))


def test_what_fails_in_a_returned_graph_is_caught_as_a_whole(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    value, error = failing_branch.options(catch=True).bind(path)
    assert engine.run(show.bind(value, error)) == "(None, Sold('inside'))"
    assert traces(path) == ["book room"]


def test_the_key_of_a_task_changes_when_its_transaction_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "world")
    engine.run(keyed.options(retry=RetryPolicy(1, delay=0.001)).bind(path))
    assert len(set(traces(path))) == 2


def forget(path: str) -> None: ...


@task(rollback=forget)
def leave_key(path: str) -> None:
    note(path, current().key)


@task(can_rollback=True)
def second_time(path: str, _: Any) -> None:
    if len(traces(path)) < 2:
        raise Sold


@transaction
def keyed(path: str) -> Any:
    return second_time.bind(path, leave_key.bind(path))
