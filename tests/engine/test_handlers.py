"""Handlers: what becomes of a task that raises for the last time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task, workflow
from onceflow.errors import InvalidOption, TaskTimedOut, WorkerDied, WrongParts
from onceflow.handlers import FailedAttempt, handler, ignore, retry, terminate
from tests.helpers.traces import note, traces


class Flaky(ConnectionError):
    pass


class Declined(Exception):
    pass


optional = handler(KeyError, ignore(0))
flaky = handler((Flaky, TimeoutError), retry(3, delay=0.001))
hopeless = handler(Declined, terminate())


@handler(Declined)
def replace(error: Declined, failure: FailedAttempt) -> object:
    return f"{failure.task}: {error}, {failure.failures}"


@handler(Declined)
def decide(error: Declined, failure: FailedAttempt) -> object:
    return retry(2, delay=0.001) if failure.failures < 3 else ignore("given up")


@handler(Declined)
def pass_on(error: Declined, failure: FailedAttempt) -> object:
    raise error


@handler(Declined)
def translate(error: Declined, failure: FailedAttempt) -> object:
    raise KeyError(str(error)) from error


@handler(Declined)
def who(error: Declined, failure: FailedAttempt) -> object:
    assert (current().task, current().key) == (failure.task, failure.key)
    return current().task


untyped: Any = handler
untyped_task: Any = task


@task
def fail(kind: type[BaseException] = KeyError) -> Any:
    raise kind("no")


@task
def fail_until(path: str, enough: int, kind: type[BaseException] = Flaky) -> int:
    note(path, current().key)
    if len(traces(path)) < enough:
        raise kind(f"call {len(traces(path))}")
    return len(traces(path))


def take_back(path: str) -> None:
    note(f"{path}.undone", "undone")


@task(rollback=take_back)
def effect(path: str) -> str:
    note(path, current().key)
    raise Declined("after all")


@task(num_returns=2)
def two() -> Any:
    raise KeyError("no")


@task
async def fail_async() -> int:
    raise KeyError("no")


@task(threads=True)
def fail_in_thread() -> int:
    raise KeyError("no")


@task.pure
def show(*values: Any) -> str:
    return repr(values)


def test_an_ignored_failure_is_an_output(engine: Engine) -> None:
    assert engine.run(show.bind(fail.options(handlers=[optional]).bind())) == "(0,)"


def test_a_handler_of_other_exceptions_has_no_say(engine: Engine) -> None:
    with pytest.raises(TaskFailed):
        engine.run(fail.options(handlers=[flaky]).bind())


def test_an_async_task_and_one_in_a_thread_are_handled_alike(engine: Engine) -> None:
    nodes = [kind.options(handlers=[optional]).bind() for kind in (fail_async, fail_in_thread)]
    assert engine.run(show.bind(*nodes)) == "(0, 0)"


def test_a_handler_gives_a_part_for_each_that_the_task_returns(engine: Engine) -> None:
    first, second = two.options(handlers=[handler(KeyError, ignore((1, 2)))]).bind()
    assert engine.run(show.bind(second, first)) == "(2, 1)"
    with pytest.raises(TaskFailed) as caught:
        engine.run(show.bind(two.options(handlers=[optional]).bind()))
    assert isinstance(caught.value.__cause__, WrongParts)


def test_a_handler_may_ask_for_another_try(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    assert engine.run(fail_until.options(handlers=[flaky]).bind(path, 4)) == 4


def test_a_handler_asks_for_so_many_tries_and_no_more(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    with pytest.raises(TaskFailed):
        engine.run(fail_until.options(handlers=[flaky]).bind(path, 5))
    assert len(traces(path)) == 4


def test_when_its_tries_are_used_up_the_next_handler_is_asked(engine: Engine, tmp_path: Path) -> None:
    handlers = [flaky, handler(Flaky, ignore("enough"))]
    result: Any = engine.run(fail_until.options(handlers=handlers).bind(str(tmp_path / "calls"), 9))
    assert result == "enough"


def test_the_retry_policy_comes_first(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    node = fail_until.options(retry=RetryPolicy(2, delay=0.001), handlers=[handler(Flaky, ignore(0))]).bind(path, 9)
    assert engine.run(node) == 0
    assert len(traces(path)) == 3


def test_what_the_retry_policy_does_not_cover_is_handled_at_once(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    policy = RetryPolicy(2, on=KeyError, delay=0.001)
    assert engine.run(fail_until.options(retry=policy, handlers=[handler(Flaky, ignore(0))]).bind(path, 9)) == 0
    assert len(traces(path)) == 1


def test_a_function_decides(engine: Engine, tmp_path: Path) -> None:
    assert engine.run(fail.options(handlers=[replace]).bind(Declined)) == "fail: no, 1"
    path = str(tmp_path / "calls")
    result: Any = engine.run(fail_until.options(handlers=[decide]).bind(path, 9, Declined))
    assert result == "given up"
    assert len(traces(path)) == 3


def test_a_function_may_leave_the_matter_to_the_next_handler(engine: Engine) -> None:
    assert engine.run(fail.options(handlers=[pass_on, replace]).bind(Declined)) == "fail: no, 1"


def test_what_a_function_raises_takes_the_place_of_the_exception(engine: Engine) -> None:
    assert engine.run(fail.options(handlers=[translate, optional]).bind(Declined)) == 0
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail.options(handlers=[translate]).bind(Declined))
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value.__cause__.__cause__, Declined)


def test_a_function_can_ask_for_the_current_attempt(engine: Engine) -> None:
    assert engine.run(fail.options(handlers=[who]).bind(Declined)) == "fail"


def test_terminate_leaves_nothing_to_the_handlers_after_it(engine: Engine) -> None:
    with pytest.raises(TaskFailed):
        engine.run(fail.options(handlers=[hopeless, replace]).bind(Declined))


def test_an_undoable_task_is_undone_before_a_handler_goes_on(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "effect")
    assert engine.run(show.bind(effect.options(handlers=[replace]).bind(path))) == "('effect: after all, 1',)"
    assert traces(path + ".undone") == ["undone"]


def test_an_undoable_task_is_undone_before_a_handler_tries_again(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "effect")
    assert engine.run(effect.options(handlers=[decide]).bind(path)) == "given up"
    assert len(traces(path + ".undone")) == 3
    assert len(set(traces(path))) == 3


def test_what_was_handled_is_told(engine: Engine) -> None:
    handle = engine.run_async(show.bind(fail.options(handlers=[optional]).bind()))
    handle.result()
    (failed, _) = engine.list_tasks(handle.id)
    assert (failed.state, failed.saved) == ("done", True)


def test_a_pure_task_that_was_handled_is_saved(engine: Engine) -> None:
    handle = engine.run_async(show.bind(show.options(handlers=[optional]).bind(fail.options(catch=True).bind())))
    handle.result()


# -- catch -------------------------------------------------------------------------------------------------------------


def test_catch_gives_the_value_and_no_error(engine: Engine) -> None:
    value, error = show.options(catch=True).bind(1)
    assert engine.run(show.bind(value, error)) == "('(1,)', None)"


def test_catch_gives_the_error_and_no_value(engine: Engine) -> None:
    value, error = fail.options(catch=True).bind()
    assert engine.run(show.bind(value, error)) == "(None, KeyError('no'))"


def test_what_is_caught_may_be_the_result(engine: Engine) -> None:
    value, error = engine.run(fail.options(catch=True).bind())
    assert value is None
    assert isinstance(error, KeyError)


def test_handlers_come_before_catch(engine: Engine) -> None:
    assert engine.run(fail.options(catch=True, handlers=[optional]).bind()) == (0, None)


def test_what_is_not_an_exception_of_programs_is_not_caught(engine: Engine) -> None:
    with pytest.raises(TaskFailed):
        engine.run(fail.options(catch=True).bind(GeneratorExit))


def test_a_task_with_several_outputs_gives_them_as_one_value(engine: Engine) -> None:
    assert engine.run(pair.options(catch=True).bind()) == ((1, 2), None)
    value, error = engine.run(two.options(catch=True).bind())
    assert (value, type(error)) == (None, KeyError)


@task(num_returns=2)
def pair() -> tuple[int, int]:
    return 1, 2


@task
def unpicklable_error() -> None:
    error = RuntimeError("no")
    error.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    raise error


def test_an_error_that_cannot_be_pickled_is_caught_without_what_cannot(engine: Engine) -> None:
    _, error = engine.run(unpicklable_error.options(catch=True).bind())
    assert isinstance(error, RuntimeError)


@task
def expand() -> Any:
    return show.bind(3)


def test_catch_waits_for_the_result_of_a_returned_graph(engine: Engine) -> None:
    assert engine.run(expand.options(catch=True).bind()) == ("(3,)", None)


# -- what the engine finds out -----------------------------------------------------------------------------------------


@task(timeout=1)
def hang(path: str) -> str:
    note(path, "called")
    if len(traces(path)) == 1:
        __import__("time").sleep(60)
    return "in time"


@task
def die() -> None:
    __import__("os")._exit(1)


def test_a_task_that_kills_every_worker_is_handled(engine: Engine) -> None:
    _, error = engine.run(die.options(catch=True, worker_deaths=2).bind())
    assert isinstance(error, WorkerDied)


def test_a_task_that_hangs_is_handled(engine: Engine, door: Any, tmp_path: Path) -> None:
    value, error = engine.run(hang.options(catch=True).bind(str(tmp_path / "one")))
    assert value is None
    assert isinstance(error, TaskTimedOut)
    assert engine.run(hang.options(handlers=[flaky]).bind(str(tmp_path / "two"))) == "in time"


# -- how they are declared ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: untyped("ValueError", ignore(1)), "on must be one or more exception classes"),
        (lambda: untyped(ValueError, 3), "a decision is retry"),
        (lambda: untyped(ValueError)(lambda error: 1), "called with two arguments"),
        (lambda: untyped_task(handlers=[ValueError])(print), "handlers must be a list of handlers"),
        (lambda: untyped_task(catch=True)(print), "belongs to one call"),
    ],
)
def test_what_is_wrong_with_a_handler_is_told_at_once(make: Any, text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        make()


# -- where they are in force -------------------------------------------------------------------------------------------


@workflow(handlers=[optional, replace])
def inner() -> Any:
    return show.bind(fail.bind(), fail.options(handlers=[handler(KeyError, ignore("own"))]).bind(), fail.bind(Declined))


@workflow(handlers=[handler(KeyError, ignore("outer")), handler(ZeroDivisionError, ignore("outer"))])
def outer() -> Any:
    return show.bind(inner.bind(), fail.bind(), fail.bind(ZeroDivisionError))


def test_the_handlers_of_a_workflow_are_in_force_for_all_that_it_binds(engine: Engine) -> None:
    assert engine.run(inner.bind()) == "(0, 'own', 'fail_2: no, 1')"


def test_the_innermost_handler_decides(engine: Engine) -> None:
    found = "(0, 'own', 'fail_2: no, 1')"
    assert engine.run(outer.bind()) == repr((found, "outer", "outer"))


def test_a_workflow_leaves_the_tasks_that_it_binds_as_they_are() -> None:
    inner.bind()
    assert fail.settings.handlers == ()


@task
def expand_failing(kind: type[BaseException], deep: int) -> Any:
    if deep:
        return expand_failing.bind(kind, deep - 1)
    return show.bind(fail.bind(kind), fail.options(handlers=[handler(kind, ignore("own"))]).bind(kind))


def test_the_handlers_of_a_task_are_in_force_in_the_graph_that_it_returns(engine: Engine) -> None:
    assert engine.run(expand_failing.options(handlers=[optional]).bind(KeyError, 0)) == "(0, 'own')"


def test_handlers_are_in_force_in_graphs_in_graphs(engine: Engine) -> None:
    assert engine.run(expand_failing.options(handlers=[optional]).bind(KeyError, 3)) == "(0, 'own')"


@workflow(handlers=[optional])
def with_nested() -> Any:
    return show.bind(expand_failing.bind(KeyError, 1))


def test_the_handlers_of_a_workflow_are_in_force_in_graphs_that_its_tasks_return(engine: Engine) -> None:
    assert engine.run(with_nested.bind()) == "(\"(0, 'own')\",)"
