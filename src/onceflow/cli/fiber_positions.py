"""How `onceflow show` tells where fibers stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onceflow.cli.session import Session, as_time
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.inspect.fibers import FiberFrame, FiberInfo

MOST = 20
"""Fibers that are told if nobody asks for more."""


def say(session: Session, fibers: Sequence[FiberInfo], most: int | None) -> None:
    """`most`: if there are more, so many are told."""
    for fiber in fibers[:most]:
        session.say(f"\nfiber {one_line(fiber.id)} {one_line(_state(fiber))}")
        for frame in fiber.frames:
            session.say(f"  {one_line(place(frame))}  {one_line(frame.source)}")
            for name, value in frame.locals.items():
                session.say(f"      {one_line(f'{name} = {value}')}")
    if most is not None and len(fibers) > most:
        more = len(fibers) - most
        session.say(f"\n… and {more} other {'fiber' if more == 1 else 'fibers'}: --all shows them")


def place(frame: FiberFrame) -> str:
    """Where a function of a fiber stands."""
    label = f", label {frame.label}" if frame.label is not None else ""
    return f"{_shortest(frame.file)}:{frame.line} in {frame.function.partition(':')[2]}{label}"


def _shortest(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _state(fiber: FiberInfo) -> str:
    match fiber.state:
        case "new":
            return "has not come to its first await"
        case "ready":
            return f"goes on after {fiber.waits_for}"
        case "waiting":
            return f"waits for {fiber.waits_for}" + ("" if fiber.until is None else f", until {as_time(fiber.until)}")
