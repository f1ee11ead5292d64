"""What happens when user code raises: the exception comes back with all it has, and what is saved stays."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, OnceflowError, TaskFailed, run, run_async, task
from onceflow.errors import ExceptionLost, InsideTask, UnpicklableArgument, UnpicklableOutput, WorkerDied, WrongParts
from tests.engine.common import add, fail_while, keep, trace
from tests.helpers.traces import note, traces


class Declined(Exception):
    """Its constructor does not take what `args` holds."""

    def __init__(self, card: str, *, cents: int) -> None:
        super().__init__(f"card {card} declined")
        self.card = card
        self.cents = cents


class Holding(Exception):
    """Holds something that cannot travel."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()
        self.number = 7


class Stubborn(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("never")


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@task
def decline(card: str) -> None:
    raise Declined(card, cents=300)


@task
def chain_errors() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        raise ValueError("outer") from error


@task
def raise_it(kind: type[BaseException], *args: Any) -> None:
    raise kind(*args)


@task
def raise_deep() -> None:
    _deeper_in_user_code()


def _deeper_in_user_code() -> None:
    raise ValueError("from the deep")


@task
def raise_group() -> None:
    raise ExceptionGroup("two", [ValueError("one"), KeyError("two")])


@task
def raise_with_note() -> None:
    error = ValueError("noted")
    error.add_note("look at the fuse")
    raise error


@task
def return_lock() -> Any:
    return threading.Lock()


@task
def return_generator() -> Any:
    return (number for number in range(3))


@task(num_returns=3)
def return_two() -> Any:
    return 1, 2


@task(num_returns=2)
def return_text() -> Any:
    return "ab"


@task
def leave(status: int) -> None:
    sys.exit(status)


@task
def die(trace: str) -> None:
    note(trace, os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


@task
def die_once(trace: str) -> str:
    note(trace, os.getpid())
    if len(traces(trace)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@task
def start_a_run() -> int:
    return run(add.bind(1, 2))


@task
def start_a_run_async() -> None:
    run_async(add.bind(1, 2))


@task
def start_a_run_in(folder: str) -> bool:
    os.chdir(folder)
    try:
        run(add.bind(1, 2))
    except InsideTask:
        return True
    return False


@task
def return_foreign_node() -> Any:
    return add.bind(return_foreign_node.bind(), threading.Lock())


def cause_of(engine: Engine, node: Any) -> BaseException:
    with pytest.raises(TaskFailed) as caught:
        engine.run(node)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


def test_the_cause_is_the_users_exception(engine: Engine) -> None:
    cause = cause_of(engine, decline.bind("visa"))
    assert type(cause) is Declined
    assert (cause.card, cause.cents, str(cause)) == ("visa", 300, "card visa declined")


def test_the_failure_names_run_and_task(engine: Engine) -> None:
    # when
    with pytest.raises(TaskFailed) as caught:
        engine.run(keep.bind(decline.bind("visa")), name="names run and task")
    # then
    failure = caught.value
    assert failure.task == "decline"
    assert failure.failed == ("decline",)
    assert failure.run == engine.list_runs(name="names run and task")[0].id
    assert not failure.undone
    assert "decline" in str(failure)
    assert "card visa declined" in str(failure)
    assert "resume('names run and task')" in str(failure)


def test_the_failure_of_an_irrevocable_task_says_that_it_may_have_happened(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(decline.bind("visa"))
    assert caught.value.uncertain == ("decline",)


def test_a_printed_failure_shows_the_line_in_the_worker(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(raise_deep.bind())
    text = "".join(traceback.format_exception(caught.value))
    assert "_deeper_in_user_code" in text
    assert "test_failures.py" in text
    assert "ValueError: from the deep" in text
    assert "onceflow/backends" not in text


def test_causes_of_the_users_exception_travel_with_it(engine: Engine) -> None:
    cause = cause_of(engine, chain_errors.bind())
    assert type(cause) is ValueError
    assert type(cause.__cause__) is KeyError


def test_notes_of_the_users_exception_travel_with_it(engine: Engine) -> None:
    assert "look at the fuse" in cause_of(engine, raise_with_note.bind()).__notes__


def test_a_group_of_exceptions_stays_one(engine: Engine) -> None:
    cause = cause_of(engine, raise_group.bind())
    assert isinstance(cause, ExceptionGroup)
    assert [type(error) for error in cause.exceptions] == [ValueError, KeyError]


def test_an_exception_that_holds_something_unpicklable_loses_only_that(engine: Engine) -> None:
    cause = cause_of(engine, raise_it.bind(Holding, "full"))
    assert type(cause) is Holding
    assert cause.number == 7
    assert str(cause) == "full"


def test_an_exception_that_refuses_to_be_pickled_keeps_its_class(engine: Engine) -> None:
    cause = cause_of(engine, raise_it.bind(Stubborn, "hard"))
    assert type(cause) is Stubborn
    assert cause.args == ("hard",)


def test_an_exception_with_arguments_that_cannot_travel_is_told_by_name(engine: Engine) -> None:
    def fail() -> None:
        raise ValueError("bad", threading.Lock())

    cause = cause_of(engine, task(fail).bind())
    assert type(cause) is ExceptionLost
    assert "ValueError" in cause.kind
    assert "bad" in cause.text


def test_an_exception_without_text_does_not_hide_which_task_failed(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(raise_it.bind(Silent))
    assert caught.value.task == "raise_it"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, RecursionError])
def test_exceptions_of_python_itself_fail_the_task_only(engine: Engine, kind: type[BaseException]) -> None:
    assert type(cause_of(engine, raise_it.bind(kind, "x"))) is kind


def test_a_task_that_exits_has_failed(engine: Engine) -> None:
    cause = cause_of(engine, leave.bind(3))
    assert type(cause) is SystemExit
    assert cause.code == 3


def test_an_output_that_cannot_be_pickled_fails_the_task(engine: Engine) -> None:
    cause = cause_of(engine, return_lock.bind())
    assert type(cause) is UnpicklableOutput
    assert "return_lock" in str(cause)
    assert "lock" in str(cause)


def test_a_generator_is_no_output(engine: Engine) -> None:
    assert type(cause_of(engine, return_generator.bind())) is UnpicklableOutput


def test_an_argument_that_cannot_be_pickled_is_refused_at_bind() -> None:
    with pytest.raises(UnpicklableArgument) as caught:
        keep.bind([1, {"here": threading.Lock()}])
    assert "value" in caught.value.path
    assert "here" in caught.value.path


def test_too_few_parts_fail_the_task(engine: Engine) -> None:
    cause = cause_of(engine, return_two.bind())
    assert type(cause) is WrongParts
    assert cause.expected == 3


def test_a_text_is_not_a_tuple_of_parts(engine: Engine) -> None:
    assert type(cause_of(engine, return_text.bind())) is WrongParts


def test_a_worker_that_dies_is_not_a_failure_of_its_task(engine: Engine, tmp_path: Path) -> None:
    assert engine.run(die_once.bind(str(tmp_path / "trace"))) == "survived"
    assert len(traces(tmp_path / "trace")) == 2


def test_a_task_that_kills_every_worker_fails_at_last(engine: Engine, tmp_path: Path) -> None:
    cause = cause_of(engine, die.options(worker_deaths=3).bind(str(tmp_path / "trace")))
    assert type(cause) is WorkerDied
    assert cause.status == -9
    assert len(set(traces(tmp_path / "trace"))) == len(traces(tmp_path / "trace")) == 3


def test_run_inside_a_task_is_refused(engine: Engine) -> None:
    cause = cause_of(engine, start_a_run.bind())
    assert type(cause) is InsideTask
    assert cause.task == "start_a_run"


def test_run_async_inside_a_task_is_refused(engine: Engine) -> None:
    assert type(cause_of(engine, start_a_run_async.bind())) is InsideTask


def test_a_refused_run_inside_a_task_opens_no_engine_in_the_worker(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.run(start_a_run_in.bind(str(tmp_path)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]


def test_a_node_that_cannot_be_bound_inside_a_task_fails_the_task(engine: Engine) -> None:
    assert type(cause_of(engine, return_foreign_node.bind())) is UnpicklableArgument


def test_the_first_failure_stops_what_has_not_started(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    # when
    with pytest.raises(TaskFailed):
        engine.run(trace.options(after=[decline.bind("visa")]).bind(path, "after"))
    # then
    assert traces(path) == []


def test_what_is_saved_is_not_run_again_by_resume(engine: Engine, tmp_path: Path) -> None:
    # given a run that has failed in its second task
    fault, path = tmp_path / "fault", str(tmp_path / "trace")
    fault.touch()
    saved = trace.bind(path, "once")
    node = keep.bind([saved, fail_while.options(after=[saved]).bind(str(fault))])
    with pytest.raises(TaskFailed) as caught:
        engine.run(node)
    assert engine.status(caught.value.run) == "failed"
    # when
    fault.unlink()
    result = engine.resume(caught.value.run)
    # then
    assert result == ["once", "mended"]
    assert traces(path) == ["once"]
    assert engine.status(caught.value.run) == "succeeded"


def test_resume_fails_again_while_the_cause_is_there(engine: Engine, tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    fault.touch()
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail_while.bind(str(fault)))
    for _ in range(2):
        with pytest.raises(TaskFailed) as again:
            engine.resume(caught.value.run)
        assert type(again.value.__cause__) is ValueError
        assert again.value.run == caught.value.run


def test_every_failure_is_one_of_the_family(engine: Engine) -> None:
    with pytest.raises(OnceflowError):
        engine.run(decline.bind("visa"))


def test_a_failure_can_be_pickled_with_its_attributes(engine: Engine) -> None:
    import pickle

    with pytest.raises(TaskFailed) as caught:
        engine.run(decline.bind("visa"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.run, again.task, str(again)) == (caught.value.run, "decline", str(caught.value))
