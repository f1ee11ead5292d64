"""Guards: the handlers in force where a task runs, as they travel with its attempts.

The exception's class lives where user code ran, so that is where handlers are asked: a guard goes to the worker with
the attempt, and says there what is to become of an exception. Its layers stand in the order in which they are asked,
the innermost first: what the task has itself, then what each graph around it has.

A layer answers **for** something (`at`): for the task itself, or for the transaction in which it failed, which is all
that handlers outside of it can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from onceflow.authoring.handlers import Decision, FailedAttempt, Handler, handler
from onceflow.authoring.options import Settings
from onceflow.errors import Cancelled
from onceflow.values import failures
from onceflow.values.handler_answers import THE_TASK


class Layer(NamedTuple):
    """Handlers that were given in one place."""

    handlers: Sequence[Handler]
    catch: bool = False
    """Whatever they leave is caught: the outcome is (None, the exception)."""
    at: int = THE_TASK
    """For what they answer."""


class Target(NamedTuple):
    """What a layer answers for."""

    parts: int
    """How many parts it gives its consumers."""
    catch: bool
    """They are the value and the error."""


InForce = tuple[Sequence[Layer], Mapping[int, Target]]
"""The handlers in force somewhere, the innermost first, and what they answer for beside the task itself."""

NOTHING: InForce = ((), {})

PASSED_ON = "_onceflow_passed_on"
"""Attribute of an exception that a fiber lets go as it was given it at an await: trying its segment again can never
help, because what was awaited has failed for good."""


class Verdict(NamedTuple):
    """What shall become of a failure."""

    kind: Literal["value", "again", "break"]
    at: int
    value: Any = None
    parts: int = 1
    delay: float = 0.0
    jitter: float = 0.0


class Guard:
    """What the attempts of a task take with them."""

    __slots__ = ("_layers", "_targets")

    def __init__(self, layers: Sequence[Layer], targets: Mapping[int, Target]) -> None:
        self._layers = layers
        self._targets = targets

    def __getstate__(self) -> InForce:
        return self._layers, self._targets

    def __setstate__(self, state: InForce) -> None:
        self._layers, self._targets = state

    def __call__(
        self, error: BaseException, context: Mapping[str, Any], failed: Mapping[int, int], *, hopeless: bool
    ) -> tuple[BaseException, Verdict | None]:
        """The exception, or what a handler raised instead, and what is to become of it; None if it fails the run.
        `failed`: how often what the layers answer for has failed before. `hopeless`: trying again can never help."""
        passed_on = vars(error).pop(PASSED_ON, False)
        for layer in self._layers:
            target = self._targets[layer.at]
            count = failed.get(layer.at, 0) + 1
            failure = FailedAttempt(context["run"], context["task"], context["attempt"], context["key"], count)
            for one in layer.handlers:
                if not one.covers(error):
                    continue
                try:
                    decision = one.decide(error, failure)
                except Exception as raised:
                    if raised is not error:
                        raised.__context__ = raised.__context__ or error
                        error = raised
                    continue
                match decision.kind:
                    case "ignore":
                        value = (decision.value, None) if target.catch else decision.value
                        return error, Verdict("value", layer.at, value, target.parts)
                    case "break":
                        return error, Verdict("break", layer.at)
                    case "terminate":
                        return error, None
                policy = decision.policy
                assert policy is not None
                again = not hopeless and not (passed_on and layer.at == THE_TASK)
                if again and count <= policy.count:
                    return error, Verdict("again", layer.at, delay=policy.wait(count), jitter=policy.jitter)
            if layer.catch and isinstance(error, (Exception, Cancelled)):
                return error, Verdict("value", layer.at, (None, _Caught(error)), target.parts)
        return error, None


def guard_of(settings: Settings, around: InForce) -> Guard | None:
    """The guard of a task with these settings, where these handlers are in force."""
    layers, targets = around
    if settings.handlers or settings.catch:
        layers = (Layer(settings.handlers, bool(settings.catch)), *layers)
    elif not layers:
        return None
    return Guard(layers, {**targets, THE_TASK: Target(settings.num_returns, bool(settings.catch))})


def in_force_inside(settings: Settings, around: InForce, depth: int) -> InForce:
    """What is in force in the graph, at this depth, that a task with these settings returned."""
    layers, targets = around
    if settings.transaction:
        return _in_transaction(settings, around, depth)
    if settings.catch:
        targets = {**targets, depth: Target(settings.num_returns, True)}
        layers = (Layer((), True, depth), *layers)
    if settings.handlers and not (layers and layers[0] == Layer(settings.handlers)):
        layers = (Layer(settings.handlers), *layers)
    return layers, targets


def _in_transaction(settings: Settings, around: InForce, depth: int) -> InForce:
    """To all that is outside, what fails in here is the transaction."""
    layers, targets = around
    handlers = settings.handlers
    if settings.retry.count:
        handlers = (handler(settings.retry.on, Decision("retry", policy=settings.retry)), *handlers)
    own = [Layer(handlers, bool(settings.catch), depth)] if handlers or settings.catch else []
    outer = [layer._replace(at=depth) if layer.at == THE_TASK else layer for layer in layers]
    return (*own, *outer), {**targets, depth: Target(settings.num_returns, bool(settings.catch))}


class _Caught:
    """An exception on its way to code that gets it as a value: unpickled, this is the exception, with its causes,
    whatever its class makes of its arguments."""

    __slots__ = ("_failure",)

    def __init__(self, error: BaseException) -> None:
        self._failure = failures.dump(error, "the task")

    def __reduce__(self) -> tuple[Any, ...]:
        return failures.load, (self._failure,)
