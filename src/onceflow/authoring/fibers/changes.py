"""Code that changes while fibers are parked in it.

**pin** finishes a fiber in the code in which it began: the stored source is compiled again, inside the module as it
is now (helpers that it calls are the new ones). **move** lets it go on at the corresponding place of the new code.
**fail** leaves it alone.

Two places correspond if the suspended expressions have the same text (or the same label) and stand in the same
constructs that hold state: loops, `with`, handlers, `finally`. `if` and `try` hold none, so putting a place into one
keeps it. The lists of places of both versions are aligned as the lines of two texts are. What was computed before the
pause is not computed again, so those parts of the source from which it came have to be the same too: what stands before
the suspension in its own expression, the heads of the loops and `with` blocks around it.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from typing import Any, Literal

from onceflow.authoring.fibers import definitions, sources
from onceflow.authoring.fibers.definitions import Definition
from onceflow.authoring.fibers.points import Point, Version, without_generated
from onceflow.errors import CodeChanged
from onceflow.errors.runs import PINNED

Verdict = Literal["moved", "check", "lost"]


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """How fibers that are parked at one point continue in new code."""

    point: Point
    """In the old code."""
    verdict: Verdict
    target: Point | None = None
    """In the new code."""
    missing: tuple[str, ...] = ()
    """Variables that the new code may read there and the old code did not keep."""
    reason: str = ""

    def __str__(self) -> str:
        place = f"line {self.point.line}: {self.point.text}"
        if self.verdict == "lost":
            return f"{place} → lost: {self.reason}"
        assert self.target is not None
        goal = f"{place} → line {self.target.line}"
        return f"{goal}, check: missing {list(self.missing)}" if self.missing else f"{goal}, moved"


def report(old: Version, new: Version) -> list[Move]:
    """For every point of the old code: can a fiber that is parked there go on in the new code, and where?"""
    return [_judge(point, old, new, _aligned(old, new)) for point in old.points]


def _judge(point: Point, old: Version, new: Version, aligned: dict[int, int]) -> Move:
    number = aligned.get(point.number)
    if number is None:
        return Move(point, "lost", reason=_why_lost(point, new))
    target = new.points[number - 1]
    if point.temporaries and None in (point.holds, target.holds):
        return Move(point, "lost", reason="an older onceflow did not note what its expression had computed before it")
    if [role for role, _ in point.hidden] != [role for role, _ in target.hidden]:
        return Move(point, "lost", reason="it stands in other constructs that hold state")
    if len(point.temporaries) != len(target.temporaries):
        return Move(point, "lost", reason="it is now part of another expression, which holds other intermediate values")
    if apart := sorted({*old.captured} - {*new.captured}):
        names = ", ".join(map(without_generated, apart))
        return Move(point, "lost", reason=f"inner functions no longer share variables with it as before ({names})")
    missing = tuple(sorted(target.live - point.live - point.assigned))
    return Move(point, "check" if missing else "moved", target, missing)


def _why_lost(point: Point, new: Version) -> str:
    same = [other for other in new.points if _text(other) == _text(point)]
    if not same:
        return 'it is gone or its expression was edited (a label would have kept it: `call(…, label="…")`)'
    if all(other.shape != point.shape for other in same):
        then, now = " in ".join(point.shape[::-1]) or "nothing", " in ".join(same[0].shape[::-1]) or "nothing"
        return f"it was inside {then} and is now inside {now}"
    there = [other for other in same if other.shape == point.shape]
    if point.holds is not None and all(other.holds not in (point.holds, None) for other in there):
        return _why_other(point, there[0])
    return "its order among the other awaits has changed"


def _why_other(point: Point, now: Point) -> str:
    """Why it would mean something else by what was computed before it."""
    assert point.holds is not None
    assert now.holds is not None
    if len(point.temporaries) != len(now.temporaries):
        return "it is now part of another expression, which holds other intermediate values"
    inside, computed = len(point.hidden), len(point.hidden) + len(point.temporaries)
    pairs = enumerate(zip(point.holds[:computed], now.holds[:computed], strict=True))
    for which, (then, here) in pairs:
        if then != here and which < inside:
            return f"it was inside `{then}` and is now inside `{here}`"
        if then != here:
            return f"what was computed before it in the same expression was edited: `{then}` is now `{here}`"
    return "inner functions share a variable of its comprehension, which stands elsewhere now"


def _text(point: Point) -> str:
    return f"label {point.label}" if point.label is not None else point.text


def _aligned(old: Version, new: Version) -> dict[int, int]:
    known = all(point.holds is not None for point in (*old.points, *new.points))
    before, after = ([(_text(p), p.shape, p.holds if known else None) for p in each.points] for each in (old, new))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return {
        block.a + offset + 1: block.b + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }


class Moving:
    """A frame on its way into newer code."""

    def __init__(self, definition: Definition, old: Version, move: Move) -> None:
        self._definition = definition
        self._old = old
        self._move = move

    def supplied(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables that the new code needs besides. Raises CodeChanged if none has them."""
        migrate = self._definition.policy.migrate
        if migrate is None:
            self._refuse(self._missing({*variables}))
            return {}
        try:
            given = migrate(dict(variables))
        except Exception as error:
            raise self._refusal(f"migrate raised {type(error).__name__}: {error}") from error
        if not isinstance(given, Mapping):
            raise self._refusal(f"migrate gave something of type {type(given).__name__}, and not a dict of variables")
        if missing := self._missing({*variables, *given}):
            raise self._refusal(
                f"check: missing {missing} at line {self._line}; migrate gave only {sorted(map(str, given))}"
            )
        return dict(given)

    def left_to_migrate(self, variables: Collection[str]) -> list[str]:
        """What `migrate` has to supply if the fiber has these. Raises CodeChanged if there is no such function."""
        missing = self._missing({*variables})
        if self._definition.policy.migrate is None:
            self._refuse(missing)
        return missing

    def _missing(self, variables: set[str]) -> list[str]:
        assert self._move.target is not None
        return sorted(self._move.target.live - self._move.point.live - variables)

    def _refuse(self, missing: list[str]) -> None:
        if missing:
            advice = "give @fiber(migrate=...) a function that supplies them"
            raise self._refusal(f"check: missing {missing} at line {self._line}; {advice}")

    def _refusal(self, verdict: str) -> CodeChanged:
        return CodeChanged(self._old.ref, self._old.version, self._definition.version.version, verdict)

    @property
    def _line(self) -> int:
        assert self._move.target is not None
        return self._move.target.line


@dataclasses.dataclass(frozen=True, slots=True)
class Outlook:
    """How a saved frame would go on in the code that is there now."""

    how: Literal["same", "pin", "move"]
    line: int
    """At which."""
    missing: tuple[str, ...] = ()
    """Variables that `migrate` has to supply."""
    needed: tuple[str, ...] = ()
    """What the code reads from there on that its module does not have."""


def outlook(ref: str, version: str, number: int, variables: Collection[str]) -> Outlook:
    """For a frame that has these variables. Nothing of the user's is called, but modules are imported. Raises
    CodeChanged."""
    from onceflow.authoring.fibers import needs  # few look ahead

    definition, target, moving = resolve(ref, version, number)
    line = definition.point(target).line if target > 0 else definition.version.first_line
    needed = tuple(needs.missing(definition, target))
    if definition.version.version != version:
        missing = [] if moving is None else moving.left_to_migrate(variables)
        return Outlook("move", line, tuple(missing), needed)
    return Outlook("same" if definition is definitions.known(ref) else "pin", line, needed=needed)


def resolve(ref: str, version: str, number: int) -> tuple[Definition, int, Moving | None]:
    """Where a saved frame goes on: definition and number of the point there. Raises CodeChanged."""
    now = definitions.known(ref) or _now(ref, version)
    if now.version.version == version or (number <= 0 and now.policy.on_change == "move"):
        return now, number, None
    if now.policy.on_change == "pin":
        return unmoved(ref, version), number, None
    return _moved(now, version, number)


def unmoved(ref: str, version: str) -> Definition:
    """The very code that was saved, whatever the policy is. Raises CodeChanged."""
    now = _now(ref, version)
    if now.version.version == version:
        return now
    before = definitions.pinned(ref, version, now)
    if before is None:
        verdict = "pin needs the old source, which was not registered (register_version)"
        raise CodeChanged(ref, version, now.version.version, verdict)
    return before


def explain_pinned(error: BaseException) -> None:
    """Notes on what a fiber has raised of which functions it was in the old code, if any: a user who has fixed them and
    resumed its run would look for the cause in vain."""
    trace, found = error.__traceback__, dict[str, None]()
    while trace is not None:
        definition = definitions.of_code(trace.tb_frame.f_code)
        if definition is not None and definition is not definitions.known(definition.ref):
            found[definition.ref.partition(":")[2]] = None
        trace = trace.tb_next
    if found:
        error.add_note(f"{' and '.join(found)} {PINNED}")


def _now(ref: str, version: str) -> Definition:
    try:
        now = definitions.current(ref)
    except ModuleNotFoundError as error:
        raise CodeChanged(ref, version, None, f"its module cannot be imported here ({error})") from error
    if now is None:
        gone = "it was removed or renamed (@fiber(name=...) keeps an old name)"
        raise CodeChanged(ref, version, None, "what has its name now is not a fiber" if _is_there(ref) else gone)
    return now


def _is_there(ref: str) -> bool:
    """Whether its module has something of that name."""
    try:
        sources.named(*ref.split(":", 1))
    except AttributeError:
        return False
    return True


def _moved(now: Definition, version: str, number: int) -> tuple[Definition, int, Moving | None]:
    ref = now.ref
    if now.policy.on_change == "fail":
        raise CodeChanged(ref, version, now.version.version, "on_change='fail' keeps it where it is")
    old = definitions.older(ref, version)
    if old is None:
        raise CodeChanged(
            ref, version, now.version.version, "move needs the old points, which were not registered (register_version)"
        )
    move = _judge(old.points[number - 1], old, now.version, _aligned(old, now.version))
    if move.target is None:
        raise CodeChanged(ref, version, now.version.version, f"lost: {move.reason}")
    return now, move.target.number, Moving(now, old, move)
