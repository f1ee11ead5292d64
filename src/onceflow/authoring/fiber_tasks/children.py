"""Children: fibers and graphs that run beside a fiber, and how other fibers get their outcomes.

A child is in the graph that the segment returns which has started it, and no node in that graph reads it: it is *aside*
(design 2.11). Its outcome is a node of its own, saved, with an id that is known when it is started. A fiber that joins
the child waits for that node to be settled, as for an event, and is given its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from onceflow.authoring.fiber_tasks.state import State, state_here
from onceflow.authoring.nodes import TaskNode
from onceflow.authoring.tasks import AnyTask, Task, _with_options, task
from onceflow.errors import Cancelled
from onceflow.values import failures, packed_outputs
from onceflow.values.context import current, running
from onceflow.values.waits import CANCELLED, NOT_YET, Wait


@task(name="child", effect="none", num_returns=2)
def _outcome(outcome: tuple[Any, BaseException | None]) -> tuple[Any, bytes | None]:
    """How a child came out. The second part can be read without the user's classes."""
    value, error = outcome
    return value, None if error is None else failures.dump(error, "a forked fiber")


@task(name="join", effect="none", num_returns=2)
def _join(child: str) -> Any:
    raise AssertionError("no worker waits for children")


@task(name="children", effect="none")
def _children(count: int) -> Any:
    raise AssertionError("no worker waits for children")


def _waiting(base: AnyTask[..., Any], wait: Wait) -> AnyTask[..., Any]:
    return _with_options(base, {**base._given, "wait": wait})


def start(caught: Any, state: State) -> tuple[TaskNode, str]:
    """The outcome of a node that catches errors, and the id that it will have. The fiber has one more child."""
    context = running.get()
    assert context is not None
    state.forked += 1
    name = f"child-{state.forked}"
    node = cast("TaskNode", _outcome.options(name=name).bind(caught))
    id = f"{context['inside']}{name}"
    state.children.append(id)
    return node, id


def wait_for(child: str, seconds: float | None) -> TaskNode:
    """A node that waits so long for a child, at the most. `joined` knows what it gives."""
    return cast("TaskNode", _waiting(_join, Wait(seconds=seconds, children=(child,))).bind(child))


def wait_for_some(children: Sequence[str], count: int, seconds: float | None = None) -> TaskNode:
    """A node that waits for so many of these, and gives those that have ended, each with the second part of its
    outcome. If it has waited so long before, it gives none."""
    wait = Wait(seconds=seconds, children=tuple(children), count=count)
    return cast("TaskNode", _waiting(_children, wait).bind(count))


def joined(child: str, outcome: tuple[Any, Any]) -> Any:
    """What a child has returned, if this is what came of waiting for it. Raises what it has raised."""
    value, failure = outcome
    if failure is NOT_YET:
        raise TimeoutError
    if failure is CANCELLED:
        raise Cancelled(current().run)
    state = state_here("join")
    state.children = [other for other in state.children if other != child]
    state.ended = [other for other in state.ended if other != child]
    if failure is not None:
        raise failures.load(failure)
    return value


def _end(result: Any, failure: bytes | None, children: list[tuple[str, bytes]]) -> Any:
    for found in [failure, *[packed_outputs.unpack(packed) for _, packed in children]]:
        if found is not None:
            raise failures.load(found)
    return result


_ended: Task[..., Any] = Task(_end, {"name": "ended", "effect": "none", "deterministic": True, "fiber": True})


def ended(result: Any, error: BaseException | None, state: State) -> Any:
    """A node that gives this, or raises that, when all children have come to their ends. Raises what the first of those
    has raised that could have been joined."""
    failure = None if error is None else failures.dump(error, "a fiber")
    return _ended.bind(result, failure, wait_for_some(state.children, len(state.children)))
