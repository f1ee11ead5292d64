"""Options of a task: their names, their defaults, and what follows from them.

A task keeps what its author *gave* and derives its *settings* from that, so that `.options(...)` can merge over the
decorator's options before contradictions are looked for.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, get_args

import msgspec

from onceflow.authoring.handlers import Handler, checked
from onceflow.authoring.nodes import TaskNode, as_handle, owner_of
from onceflow.authoring.retries import MOST_RETRIES, RetryPolicy
from onceflow.authoring.signatures import STARS, Shape
from onceflow.core.model.effects import Effect, Options
from onceflow.errors import InvalidOption
from onceflow.values import metadata
from onceflow.values.sizes import read_size
from onceflow.values.texts import is_plain_text
from onceflow.values.variables import Variable
from onceflow.values.waits import Wait


class PureOptions(TypedDict, total=False):
    """Options of `@task.pure`."""

    checkpoint: bool
    cpus: float
    handlers: Sequence[Handler]
    memory: int | str
    metadata: Mapping[str, Any]
    timeout: float | None
    total_timeout: float | None
    name: str
    num_returns: int
    placement: str
    resources: Mapping[str, float]
    priority: int
    queue: str | None
    queue_key: str | Callable[..., Any] | None
    retry: int | RetryPolicy
    threads: bool
    worker_deaths: int | None


class TaskOptions(PureOptions, total=False):
    """Options of `@task`."""

    deterministic: bool
    effect: Effect
    can_rollback: bool
    """How ExoFlow says it: with a rollback function `effect="undoable"`, without one `effect="none"`."""
    rollback: Callable[..., Any] | None
    writes: Sequence[Variable[Any]]


class BindOptions(TaskOptions, total=False):
    """Options of `.options(...)`."""

    after: Sequence[Any]


class CatchOptions(BindOptions, total=False):
    """The same, where it does not matter that `catch` changes what a task returns."""

    catch: bool


MOST_RETURNS = 1_000_000
"""Parts of an output. A graph that says more is damaged."""

MOST_PRIORITY = 100

PURE: TaskOptions = {"checkpoint": False, "deterministic": True, "effect": "none"}


class Settings(msgspec.Struct, frozen=True):
    """All options of a task, with defaults filled in."""

    name: str
    checkpoint: bool = True
    deterministic: bool = False
    effect: Effect = "irrevocable"
    rollback: Callable[..., Any] | None = None
    num_returns: int = 1
    retry: RetryPolicy = RetryPolicy(0)
    threads: bool = False
    cpus: float | None = None
    """None if nothing was said: one core, but nothing for functions that share a process."""
    memory: int = 0
    """Bytes."""
    resources: tuple[tuple[str, float], ...] = ()
    """What a cluster has, by name, and how much of it."""
    placement: str = ""
    """Where in a cluster: "spread" over its nodes, or the id of one; empty for wherever there is room."""
    timeout: float | None = None
    """Seconds that one attempt may run."""
    total_timeout: float | None = None
    """Seconds from the start of the first attempt until the task must be done, with retries and delays."""
    worker_deaths: int | None = None
    """Workers that may die in a row while they run it, the last of which fails it; None for what the engine says."""
    until: float | None = None
    """The moment at which it must be done, with the graph that it returns, in seconds since 1970."""
    metadata: str | None = None
    """Metadata that users attached (`values.metadata`)."""
    wait: Wait | None = None
    """The event or moment that the node waits for, if no worker runs it."""
    writes: tuple[str, ...] = ()
    """The names of the task variables that it writes."""
    handlers: tuple[Handler, ...] = ()
    """Asked, in this order, when it has raised and is not tried again."""
    fiber: bool = False
    """It is a segment of a fiber."""
    queue: str | None = None
    """The queue in which its attempts need a place."""
    queue_key: str | Callable[..., Any] | None = None
    """What they count under there: a text, with its parameters in braces, or a function of its arguments."""
    priority: int = 0
    """Higher ones go first."""
    transaction: bool = False
    """The task returns a graph that is done as a whole, or undone."""
    catch: int = 0
    """If not 0, its consumers get two parts, the value and the error; and the function returns a tuple of so many, or,
    with 1, just a value."""

    def for_core(self) -> Options:
        guards = bool(self.handlers or self.catch)
        writes, transaction = bool(self.writes), self.transaction
        return Options(self.checkpoint, self.deterministic, self.effect, self.retry.count, writes, guards, transaction)


def check_known(given: Mapping[str, Any], allowed: type, task: str, signature: str) -> None:
    """Refuses options that do not exist (here)."""
    known = _known(allowed)
    for name in given:
        if name in known:
            continue
        if name == "after":
            hint = f"it belongs to one call: write `{task}.options(after=[…]).bind(…)`"
        elif name == "catch":
            hint = f"it changes what its consumers get, so it belongs to one call: `{task}.options(catch=True).bind(…)`"
        elif name in _known(TaskOptions):
            hint = "@task.pure means effect none and deterministic; declare anything else with @task"
        else:
            hint = f"the options are {', '.join(sorted(known))}"
        raise InvalidOption(task, f"there is no option {name!r} for {task}{signature} here; {hint}")


def _known(options: type) -> set[str]:
    return set(options.__required_keys__ | options.__optional_keys__)  # type: ignore[attr-defined]


def settle(given: Mapping[str, Any], default_name: str, shape: Shape, *, is_async: bool) -> Settings:
    """The settings that follow from the options given. Refuses contradictions."""
    name = given.get("name", default_name)
    if not is_plain_text(name):
        raise InvalidOption(default_name, f"name must be a text that is not empty and has an encoding, not {name!r}")
    for option in ("checkpoint", "deterministic", "can_rollback", "threads", "catch"):
        if not isinstance(given.get(option, False), bool):
            raise InvalidOption(name, f"{option} must be True or False, not {given[option]!r}")
    rollback = given.get("rollback")
    if rollback is not None:
        rollback = getattr(rollback, "function", rollback)  # a task may serve as one
        _check_rollback(rollback, name, shape)
    if is_async and given.get("threads"):
        raise InvalidOption(name, "threads=True is for ordinary functions; async functions share a process anyway")
    writes = _writes(given.get("writes", ()), name)
    if writes and rollback is not None:
        raise InvalidOption(
            name, "it writes variables, which nothing takes back, so it cannot have a rollback function"
        )
    if writes and given.get("checkpoint") is False:
        raise InvalidOption(name, "what it writes to variables counts with its save, so it cannot say checkpoint=False")
    count = _num_returns(given.get("num_returns", 1), name)
    return Settings(
        name=name,
        checkpoint=given.get("checkpoint", True),
        deterministic=given.get("deterministic", False),
        effect=_effect(given, rollback is not None, name),
        rollback=rollback,
        num_returns=2 if given.get("catch") else count,
        retry=_retry(given.get("retry", 0), name),
        threads=given.get("threads", False),
        cpus=_cpus(given["cpus"], name) if "cpus" in given else None,
        memory=_memory(given.get("memory", 0), name),
        resources=_resources(given.get("resources", {}), name),
        placement=_placement(given.get("placement", ""), name),
        timeout=_seconds(given.get("timeout"), "timeout", name),
        total_timeout=_seconds(given.get("total_timeout"), "total_timeout", name),
        worker_deaths=_worker_deaths(given.get("worker_deaths"), name),
        until=given.get("until"),
        metadata=metadata.encode(given["metadata"], name, kind="task") if "metadata" in given else None,
        writes=writes,
        wait=given.get("wait"),
        handlers=checked(given["handlers"], name) if "handlers" in given else (),
        fiber=given.get("fiber", False),
        transaction=given.get("transaction", False),
        queue=_queue(given.get("queue"), name),
        queue_key=_queue_key(given, name),
        priority=check_priority(given.get("priority", 0), name),
        catch=count if given.get("catch") else 0,
    )


def merged(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task after `.options(**changes)`. What it does outside has two spellings, `effect` and
    `can_rollback`: the later one counts. A rollback function that is added or taken away changes the effect, too."""
    kept = dict(given)
    taken_away = "rollback" in changes and kept.get("effect") == "undoable"
    if "effect" in changes:
        kept.pop("can_rollback", None)
    elif "can_rollback" in changes or changes.get("rollback") is not None or taken_away:
        kept.pop("effect", None)
    return {**kept, **changes}


def _effect(given: Mapping[str, Any], has_rollback: bool, task: str) -> Effect:
    """What the task does outside. Refuses contradictions between `effect`, `can_rollback` and `rollback`."""
    can_rollback = given.get("can_rollback")
    if "effect" not in given:
        if has_rollback and can_rollback is False:
            raise InvalidOption(
                task, "it has a rollback function but also says can_rollback=False; leave one out (rollback=None)"
            )
        return "undoable" if has_rollback else "none" if can_rollback else "irrevocable"
    effect: Effect = given["effect"]
    if effect not in get_args(Effect):
        raise InvalidOption(task, f"effect must be 'none', 'undoable' or 'irrevocable', not {effect!r}")
    if effect == "undoable" and not has_rollback:
        raise InvalidOption(task, "effect='undoable' needs rollback=, the function that takes the effect back")
    if has_rollback and effect != "undoable":
        raise InvalidOption(
            task, f"it has a rollback function but also says effect={effect!r}; leave one out (rollback=None)"
        )
    if can_rollback is not None and can_rollback is not (effect != "irrevocable"):
        raise InvalidOption(
            task, f"effect={effect!r} and can_rollback={can_rollback} contradict each other; leave one out"
        )
    return effect


def after_nodes(given: Any, task: str) -> tuple[TaskNode, ...]:
    """The nodes of `after=`, each once. A part means the node it belongs to: it has ended when all of it has."""
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise InvalidOption(task, f"after must be a list of nodes, not {given!r}")
    nodes = [owner_of(as_handle(value, f"the option after of task {task!r}")) for value in given]
    if isinstance(given, (set, frozenset)):
        nodes.sort(key=lambda node: node._place())
    return tuple(dict.fromkeys(nodes))


def _writes(value: Any, task: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(variable, Variable) for variable in value):
        raise InvalidOption(task, f"writes must be a list of variables, not {value!r}")
    return tuple(dict.fromkeys([variable.name for variable in value]))


def _num_returns(value: Any, task: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOption(task, f"num_returns must be an int of at least 1, not {value!r}")
    if value > MOST_RETURNS:
        raise InvalidOption(task, f"num_returns must be at most {MOST_RETURNS:,}, not {value:,}")
    return value


def _worker_deaths(value: Any, task: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidOption(task, f"worker_deaths must be an int of at least 1, not {value!r}")
    return value


def _retry(value: Any, task: str) -> RetryPolicy:
    if isinstance(value, RetryPolicy):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_RETRIES:
        problem = f"retry must be a count from 0 to {MOST_RETRIES:,}, or a RetryPolicy, not {value!r}"
        raise InvalidOption(task, problem)
    return RetryPolicy(value)


def _queue(value: Any, task: str) -> str | None:
    if value is None or (isinstance(value, str) and value and value.isprintable()):
        return value
    raise InvalidOption(task, f"queue must be the name of a queue, a text that is not empty, not {value!r}")


def _queue_key(given: Mapping[str, Any], task: str) -> str | Callable[..., Any] | None:
    key: str | Callable[..., Any] | None = given.get("queue_key")
    if key is None:
        return None
    if given.get("queue") is None:
        raise InvalidOption(task, "queue_key says what it counts under in a queue, so it needs queue= as well")
    if not isinstance(key, str) and not callable(key):
        raise InvalidOption(task, f"queue_key must be a text or a function of its arguments, not {key!r}")
    return key


def check_priority(value: Any, task: str, kind: str = "task") -> int:
    """A priority that was given."""
    if isinstance(value, bool) or not isinstance(value, int) or not -MOST_PRIORITY <= value <= MOST_PRIORITY:
        problem = f"priority must be an int from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {value!r}"
        raise InvalidOption(task, problem, kind=kind)
    return value


def _seconds(value: Any, option: str, task: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise InvalidOption(task, f"{option} must be a number of seconds above 0, not {value!r}")
    return float(value)


def _cpus(value: Any, task: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise InvalidOption(task, f"cpus must be a number that is not negative, not {value!r}")
    return float(value)


def _resources(value: Any, task: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(amount, int | float) and amount > 0 for key, amount in value.items()
    ):
        raise InvalidOption(task, f"resources must be names and amounts above 0, such as {{'gpu': 1}}, not {value!r}")
    return tuple(sorted(value.items()))


def _placement(value: Any, task: str) -> str:
    if not isinstance(value, str):
        raise InvalidOption(task, f"placement must be 'spread' or the id of a node, not {value!r}")
    return value


def _memory(value: Any, task: str) -> int:
    try:
        return read_size(value)
    except ValueError as error:
        raise InvalidOption(task, f"memory must be {error}") from None


def _check_rollback(rollback: Any, task: str, shape: Shape) -> None:
    """A rollback function is called with what it declares, so it may declare by name only what there is."""
    try:
        parameters = inspect.signature(rollback).parameters.values()
    except (TypeError, ValueError):
        raise InvalidOption(task, f"rollback must be a function with a signature, not {rollback!r}") from None
    shown = f"{getattr(rollback, '__qualname__', repr(rollback))}{inspect.signature(rollback)}"
    for parameter in parameters:
        if parameter.kind in STARS:
            continue
        if parameter.name in ("output", "key"):
            if parameter.name not in shape.named:
                continue
            problem = f"would mean both the task's parameter and its {parameter.name}; rename the task's parameter"
        elif parameter.name in shape.named:
            continue
        else:
            problem = "is neither a parameter of the task nor `output` or `key`"
        raise InvalidOption(
            task, f"the parameter {parameter.name!r} of its rollback {shown} {problem}; it is {task}{shape}"
        )
