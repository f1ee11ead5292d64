"""What a fiber waited for when it failed: did it let through what that had raised?

The outcome of what a fiber awaits is saved, also if it is an error (design 2.8). If the fiber lets the error through
and the run fails by it, then only that segment has read the outcome, and the segment has neither an effect nor an
output. So it can be dropped when the run is resumed: what had failed is tried again, as in a run without fibers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from onceflow.core.model.rows import Row
from onceflow.driver.outputs import Blob, Part
from onceflow.values import failures, packed_outputs

SEGMENT = "segment"
"""The task of segments that continue a fiber."""

FOLLOWING = (SEGMENT, "cleanup")
"""The same, with those that know that the run is cancelled."""


class Awaited(NamedTuple):
    """An awaited operation that may have failed."""

    id: str
    """What the fiber awaited."""
    outcome: tuple[str, int]
    """(node, part) that holds its error, if it has raised one."""
    uncertain: bool
    """Whether it may have happened despite the error."""


def awaited_by(segment: Row) -> list[Awaited]:
    """What this segment of a fiber has waited for. Nothing if it is no such segment."""
    return [one for one, _ in _awaited_by(segment)]


def awaited_below(segment: Row) -> list[Awaited]:
    """The same, with what fibers that it waited for have waited for themselves. In a run that was just loaded, all of
    that is known."""
    found: list[Awaited] = []
    for one, op in _awaited_by(segment):
        found.append(one)
        for row in _inside(op):
            found += [] if row.saved else awaited_below(row)
    return found


def _awaited_by(segment: Row) -> list[tuple[Awaited, Row]]:
    settings = _settings(segment)
    if segment.node.task not in FOLLOWING or segment.expander is None or not (settings is None or settings.fiber):
        return []
    found: list[tuple[Awaited, Row]] = []
    for end, _ in segment.parents:
        if end is segment.expander or not end.fully_saved or end.writes:
            continue
        if end.node.parts != 2 and getattr(_settings(end), "wait", None) is None:
            continue
        op = end
        while op.expander is not None and op.expander is not segment.expander:
            op = op.expander
        uncertain = op is end and op.effect == "irrevocable" and op.begun
        found.append((Awaited(op.id, (end.id, end.node.parts - 1), uncertain), op))
    return found


def _settings(row: Row) -> Any:
    """None if the graph was read without its code, for inspection only."""
    return getattr(getattr(row.node.call, "task", None), "settings", None)


def let_through(
    failure: bytes, awaited: Iterable[tuple[Awaited, Part]], read: Callable[[str], bytes | memoryview]
) -> list[Awaited]:
    """Those that failed, if a fiber that waited for them has failed by what one of them had raised, or by something
    that was raised from that. `read` gives the content of a blob. Errors are unpickled."""
    errors: dict[Awaited, str] = {}
    for one, outcome in awaited:
        error = _error(outcome, read)
        if error is not None:
            errors[one] = failures.tell(failures.dump(error, "a task"))
    raised = failures.tell_causes(failure)
    return list(errors) if any(told in raised for told in errors.values()) else []


def _error(outcome: Part, read: Callable[[str], bytes | memoryview]) -> BaseException | None:
    assert isinstance(outcome, bytes | Blob)
    packed = outcome if isinstance(outcome, bytes) else read(outcome.reference)
    try:
        value = packed_outputs.unpack(packed)
    except Exception:  # a class that this process does not have, say
        return None
    return value if isinstance(value, BaseException) else None


def _inside(row: Row) -> Iterator[Row]:
    """Those of the graph that it has returned, with all that is nested in it."""
    for nested in [] if row.nested is None else row.nested.rows:
        yield nested
        yield from _inside(nested)
