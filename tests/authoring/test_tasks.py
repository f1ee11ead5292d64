"""Tasks as functions, and what their options mean to core."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import RetryPolicy, task
from onceflow.authoring.graph_builder import build_graph
from onceflow.core.model.effects import Options
from onceflow.errors import InvalidOption


@task
def double(number: int, *, times: int = 2) -> int:
    """Multiplies."""
    return number * times


@task.pure
def shout(text: str) -> str:
    return text.upper()


@task(name="fetch-page", retry=2)
async def fetch(url: str) -> bytes:
    return url.encode()


def undo(number: int, *, output: int | None, key: str) -> None: ...


def test_calling_a_task_just_calls_the_function() -> None:
    assert double(4) == 8
    assert double(4, times=3) == 12


def test_calling_an_async_task_gives_its_coroutine() -> None:
    assert asyncio.run(fetch("a")) == b"a"
    assert fetch.is_async
    assert not double.is_async


def test_a_task_looks_like_its_function() -> None:
    assert double.__name__ == "double"
    assert double.__doc__ == "Multiplies."
    assert inspect.signature(double) == inspect.signature(double.function)
    assert repr(double) == "<task double(number: 'int', *, times: 'int' = 2) -> 'int'>"


def test_a_plain_task_is_saved_and_irrevocable() -> None:
    assert double.core_options == Options(checkpoint=True, deterministic=False, effect="irrevocable", retries=0)


def test_a_pure_task_has_no_effect_and_is_deterministic_and_not_saved() -> None:
    assert shout.core_options == Options(checkpoint=False, deterministic=True, effect="none", retries=0)


def test_a_pure_task_may_be_saved() -> None:
    @task.pure(checkpoint=True, name="slow")
    def think() -> int:
        return 42

    assert think.core_options == Options(checkpoint=True, deterministic=True, effect="none")
    assert think.name == "slow"


def test_a_name_and_retries_are_taken_from_the_decorator() -> None:
    assert fetch.name == "fetch-page"
    assert fetch.core_options.retries == 2


def test_a_rollback_makes_a_task_undoable() -> None:
    undoable = task(rollback=undo)(double.function)
    assert undoable.core_options.effect == "undoable"
    assert undoable.settings.effect == "undoable"


def test_can_rollback_without_a_rollback_means_no_effect() -> None:
    assert task(can_rollback=True)(double.function).core_options.effect == "none"


@pytest.mark.parametrize(
    ("given", "effect"),
    [
        ({"effect": "irrevocable"}, "irrevocable"),
        ({"effect": "irrevocable", "can_rollback": False}, "irrevocable"),
        ({"can_rollback": False}, "irrevocable"),
        ({"effect": "none"}, "none"),
        ({"effect": "none", "can_rollback": True}, "none"),
        ({"can_rollback": True}, "none"),
        ({"rollback": undo}, "undoable"),
        ({"rollback": undo, "can_rollback": True}, "undoable"),
        ({"rollback": undo, "effect": "undoable"}, "undoable"),
        ({"rollback": undo, "effect": "undoable", "can_rollback": True}, "undoable"),
    ],
)
def test_a_task_says_what_it_does_outside_in_either_spelling(given: dict[str, Any], effect: str) -> None:
    declared = task(**given)(double.function)

    assert declared.core_options.effect == effect
    assert double.options(**given).core_options == declared.core_options


@pytest.mark.parametrize(
    ("declared", "changes", "effect"),
    [
        ({"effect": "none"}, {"rollback": undo}, "undoable"),
        ({"effect": "none"}, {"rollback": None}, "none"),
        ({"effect": "none"}, {"can_rollback": False}, "irrevocable"),
        ({"effect": "none"}, {"checkpoint": False}, "none"),
        ({"effect": "irrevocable"}, {"can_rollback": True}, "none"),
        ({"effect": "irrevocable"}, {"rollback": undo}, "undoable"),
        ({"can_rollback": True}, {"effect": "irrevocable"}, "irrevocable"),
        ({"can_rollback": False}, {"effect": "none"}, "none"),
        ({"rollback": undo, "effect": "undoable"}, {"rollback": None}, "irrevocable"),
        ({"rollback": undo, "effect": "undoable"}, {"checkpoint": False}, "undoable"),
        ({"rollback": undo}, {"rollback": None, "effect": "none"}, "none"),
        ({"rollback": undo, "can_rollback": True}, {"rollback": None, "effect": "irrevocable"}, "irrevocable"),
    ],
)
def test_what_options_say_of_the_effect_replaces_what_was_declared(
    declared: dict[str, Any], changes: dict[str, Any], effect: str
) -> None:
    assert task(**declared)(double.function).options(**changes).core_options.effect == effect


def test_a_pure_task_can_be_given_an_effect() -> None:
    assert shout.options(effect="irrevocable").core_options.effect == "irrevocable"
    assert shout.options(can_rollback=False).core_options.effect == "irrevocable"


def test_options_merge_over_those_of_the_decorator() -> None:
    changed = fetch.options(checkpoint=False).options(deterministic=True)
    assert changed.core_options == Options(checkpoint=False, deterministic=True, effect="irrevocable", retries=2)
    assert changed.name == "fetch-page"


def test_options_leave_the_task_itself_as_it_was() -> None:
    double.options(checkpoint=False, name="other")
    assert double.core_options.checkpoint
    assert double.name == "double"


def test_a_rollback_can_be_taken_away_again() -> None:
    undoable = task(rollback=undo)(double.function)
    assert undoable.options(rollback=None).core_options.effect == "irrevocable"


def test_a_task_may_serve_as_rollback() -> None:
    assert double.options(rollback=task(undo)).settings.rollback is undo


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"chekpoint": True}, r"no option 'chekpoint' for double\(number.*the options are after, can_rollback"),
        ({"checkpoint": 1}, "checkpoint must be True or False, not 1"),
        ({"name": ""}, "name must be a text"),
        ({"num_returns": 0}, "num_returns must be an int of at least 1"),
        ({"num_returns": True}, "num_returns must be an int of at least 1"),
        ({"retry": -1}, "retry must be a count"),
        ({"retry": "often"}, "retry must be a count"),
        ({"rollback": 3}, "rollback must be a function"),
        ({"rollback": undo, "can_rollback": False}, "leave one out"),
        ({"rollback": undo, "effect": "none"}, "says effect='none'; leave one out"),
        ({"rollback": undo, "effect": "irrevocable"}, "says effect='irrevocable'; leave one out"),
        ({"effect": "undoable"}, "needs rollback="),
        ({"effect": "none", "can_rollback": False}, "contradict each other"),
        ({"effect": "irrevocable", "can_rollback": True}, "contradict each other"),
        ({"effect": "nothing"}, "effect must be 'none', 'undoable' or 'irrevocable', not 'nothing'"),
        ({"effect": None}, "effect must be 'none', 'undoable' or 'irrevocable', not None"),
        ({"after": 3}, "after must be a list of nodes"),
    ],
)
def test_a_wrong_option_is_a_type_error_that_names_the_task(given: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        double.options(**given)  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidOption)
    assert caught.value.name == "double"


def test_a_wrong_option_of_the_decorator_is_reported_with_the_signature() -> None:
    with pytest.raises(TypeError, match=r"no option 'chekpoint' for double\(number: 'int'"):
        task(chekpoint=True)(double.function)  # type: ignore[call-overload]


def test_an_inherited_rollback_contradicts_can_rollback_false() -> None:
    undoable = task(rollback=undo)(double.function)
    with pytest.raises(TypeError, match="leave one out"):
        undoable.options(can_rollback=False)


def test_an_inherited_rollback_contradicts_another_effect() -> None:
    undoable = task(rollback=undo)(double.function)
    with pytest.raises(TypeError, match="leave one out"):
        undoable.options(effect="none")


def test_after_belongs_to_a_call_and_not_to_the_decorator() -> None:
    with pytest.raises(TypeError, match=r"options\(after=\[…\]\)\.bind"):
        task(after=[])(double.function)  # type: ignore[call-overload]


def test_pure_refuses_what_would_make_it_impure() -> None:
    with pytest.raises(TypeError, match="declare anything else with @task"):
        task.pure(deterministic=False)(double.function)  # type: ignore[call-overload]


def test_options_have_names() -> None:
    with pytest.raises(TypeError, match="options have names"):
        task(double.function, True)  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", [3, "text", None, double, double.bind(1)])
def test_only_functions_become_tasks(thing: object) -> None:
    with pytest.raises(TypeError):
        task(thing)  # type: ignore[call-overload]


def test_a_method_cannot_be_a_task() -> None:
    with pytest.raises(TypeError, match=r"it is a method of .*Shop"):

        class Shop:
            @task
            def sell(self) -> None: ...


def test_a_function_inside_a_function_may_call_its_parameter_self() -> None:
    @task
    def visit(self: int) -> int:
        return self

    assert visit(self=3) == 3
    assert repr(visit.bind(self=3)) == "<node visit>"


def test_a_callable_without_a_name_needs_one() -> None:
    half = functools.partial(double.function, times=3)
    with pytest.raises(TypeError, match="has no name of its own"):
        task(half)
    assert task(name="triple")(half)(2) == 6


def test_a_callable_that_hides_its_parameters_cannot_be_a_task() -> None:
    class Hidden:
        __name__ = "hidden"
        __signature__ = "secret"

        def __call__(self) -> None: ...

    with pytest.raises(TypeError, match="does not tell its parameters"):
        task(Hidden())


class TestRollbackParameters:
    def test_any_subset_of_the_tasks_parameters_will_do(self) -> None:
        for function in (lambda: None, lambda number: None, lambda times, key: None, lambda *, output: None):
            double.options(rollback=function)

    def test_the_names_of_variadic_parameters_count(self) -> None:
        @task(rollback=lambda rows, named: None)
        def write(*rows: int, **named: int) -> None: ...

        node = build_graph(write.bind(1, 2, a=3)).nodes[0]
        given = node.call.task.rollback_arguments((1, 2), {"a": 3}, output=None, key="k")
        assert given == ([(1, 2), {"a": 3}], {})

    @pytest.mark.parametrize(
        ("function", "says"),
        [
            (lambda city: None, "'city' of its rollback .* is neither a parameter of the task nor"),
            (lambda city="Rome": None, "'city' of its rollback .* is neither a parameter of the task nor"),
            (lambda city, *rest: None, "'city' of its rollback .* is neither a parameter of the task nor"),
            (lambda city, /: None, "'city' of its rollback .* is neither a parameter of the task nor"),
            (lambda *, city, **rest: None, "'city' of its rollback .* is neither a parameter of the task nor"),
        ],
    )
    def test_anything_else_is_a_type_error_that_names_it(self, function: object, says: str) -> None:
        with pytest.raises(TypeError, match=says):
            double.options(rollback=function)  # type: ignore[arg-type]

    def test_a_task_whose_parameter_is_called_key_cannot_hand_it_to_the_rollback(self) -> None:
        with pytest.raises(TypeError, match="rename the task's parameter"):

            @task(rollback=lambda key: None)
            def lock(key: str) -> None: ...

    def test_the_rollback_receives_what_it_declares(self) -> None:
        undoable = double.options(rollback=undo)
        given = undoable.rollback_arguments((4,), {}, output=8, key="run/double/0")
        assert given == ([4], {"output": 8, "key": "run/double/0"})

    def test_defaults_count_as_given(self) -> None:
        undoable = double.options(rollback=lambda times: None)
        assert undoable.rollback_arguments((4,), {}, output=None, key="") == ([2], {})

    @pytest.mark.parametrize(
        ("function", "args", "kwargs", "given"),
        [
            (lambda *xs: None, (4,), {"times": 3}, ([4], {})),
            (lambda *xs: None, (), {"number": 4}, ([], {})),
            (lambda **rest: None, (4,), {"times": 3}, ([], {"times": 3})),
            (lambda *xs, **rest: None, (4, 3), {}, ([4, 3], {})),
            (lambda *xs, **rest: None, (), {"number": 4, "times": 3}, ([], {"number": 4, "times": 3})),
            (lambda *xs, output, key, **rest: None, (4,), {"times": 3}, ([4], {"output": 8, "key": "k", "times": 3})),
            (lambda key, *xs: None, (4,), {"times": 3}, (["k", 4], {})),
            (lambda times, *xs: None, (4, 3), {}, ([3, 4], {})),
            (lambda times, *xs, **rest: None, (4,), {"times": 3}, ([3, 4], {})),
            (lambda number, /: None, (), {"number": 4}, ([4], {})),
        ],
    )
    def test_stars_get_the_arguments_as_they_were_bound_that_it_does_not_declare(
        self,
        function: Callable[..., None],
        args: tuple[int, ...],
        kwargs: dict[str, int],
        given: tuple[list[Any], dict[str, Any]],
    ) -> None:
        @task(rollback=function)
        def scale(number: int, times: int = 2) -> int:
            return number * times

        assert scale.rollback_arguments(args, kwargs, output=8, key="k") == given
        function(*given[0], **given[1])

    def test_stars_get_what_the_tasks_own_stars_were_given(self) -> None:
        @task
        def write(name: str, *rows: int, **named: int) -> None: ...

        def given(rollback: Callable[..., None]) -> tuple[list[Any], dict[str, Any]]:
            return write.options(rollback=rollback).rollback_arguments(("x", 1, 2), {"a": 3}, output=None, key="k")

        assert given(lambda *xs, **rest: None) == (["x", 1, 2], {"a": 3})
        assert given(lambda name, *rows, **named: None) == (["x", 1, 2], {"a": 3})
        assert given(lambda rows, *xs, **rest: None) == ([(1, 2), "x"], {"a": 3})
        assert given(lambda named, *xs, **rest: None) == ([{"a": 3}, "x", 1, 2], {})


class TestRetry:
    def test_a_count_is_short_for_a_policy(self) -> None:
        assert double.options(retry=3).settings.retry == RetryPolicy(3)

    def test_delays_grow_up_to_the_longest(self) -> None:
        policy = RetryPolicy(9, delay=1, backoff=3, max_delay=10)
        assert [policy.wait(failures) for failures in (1, 2, 3, 4, 100_000)] == [1, 3, 9, 10, 10]

    def test_jitter_moves_a_delay_both_ways(self) -> None:
        policy = RetryPolicy(1, delay=10, jitter=0.5)
        assert [policy.wait(1, chance) for chance in (0.0, 0.5, 1.0)] == [5, 10, 15]

    def test_only_the_named_errors_are_covered(self) -> None:
        policy = RetryPolicy(1, on=(OSError, KeyError))
        assert policy.covers(ConnectionError())
        assert not policy.covers(ValueError())
        assert RetryPolicy(1, on=KeyError).covers(KeyError())

    @pytest.mark.parametrize(
        "wrong",
        [{"count": -1}, {"delay": -1}, {"backoff": 0.5}, {"jitter": 2}, {"max_delay": -1}],
    )
    def test_impossible_numbers_are_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="RetryPolicy: "):
            RetryPolicy(**{"count": 1, **wrong})  # type: ignore[arg-type]

    @pytest.mark.parametrize("wrong", [{"count": "3"}, {"count": True}, {"on": ()}, {"on": "OSError"}, {"on": (3,)}])
    def test_wrong_kinds_are_refused(self, wrong: dict[str, object]) -> None:
        with pytest.raises(TypeError, match="RetryPolicy: "):
            RetryPolicy(**{"count": 1, **wrong})  # type: ignore[arg-type]


class TestPickling:
    def test_a_task_of_a_module_goes_by_its_name(self) -> None:
        assert pickle.loads(pickle.dumps(double)) is double

    def test_the_same_task_with_other_options_goes_by_name_and_options(self) -> None:
        changed = pickle.loads(pickle.dumps(double.options(retry=3, name="other")))
        assert changed.function is double.function
        assert changed.settings == double.options(retry=3, name="other").settings

    def test_a_local_task_goes_by_value(self) -> None:
        import cloudpickle

        factor = 3

        @task(retry=1)
        def scale(number: int) -> int:
            return number * factor

        copy = pickle.loads(cloudpickle.dumps(scale))
        assert copy(2) == 6
        assert copy.settings == scale.settings

    def test_a_local_task_may_refer_to_itself(self) -> None:
        import cloudpickle

        @task.pure
        def count(number: int) -> int:
            return 0 if number == 0 else 1 + count(number - 1)

        assert pickle.loads(cloudpickle.dumps(count))(5) == 5
