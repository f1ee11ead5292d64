"""Where a process kills itself: with SIGKILL, engine and workers, without a chance to clean up.

A point is a moment and a task, such as `after pay`: the bank has the money, and only the bank knows. Points are
chosen by the seed, so that they come again; what else was going on at that moment is a matter of timing.
"""

from __future__ import annotations

import os
import signal
from random import Random
from typing import Literal, NoReturn, get_args

import msgspec

Moment = Literal["before", "after", "saved", "undoing", "undone"]

ARMED = "ONCEFLOW_DEMO_KILL"
"""The environment variable that holds the point of this process, as text."""
ENGINE = "ONCEFLOW_DEMO_ENGINE"
"""The one with the id of the process that has the engine. Workers inherit both."""


class Point(msgspec.Struct, frozen=True):
    moment: Moment
    task: str

    def __str__(self) -> str:
        return f"{self.moment} {self.task}"

    @property
    def story(self) -> str:
        match self.moment:
            case "before":
                return f"{self.task} had begun, and nothing had happened yet"
            case "after":
                return f"{self.task} had just happened, and only the world outside knew"
            case "saved":
                return f"{self.task} had just been saved"
            case "undoing":
                return f"{self.task} was about to be taken back"
            case "undone":
                return f"{self.task} had just been taken back, and only the world outside knew"


def armed() -> Point | None:
    """Where this process, or the engine it works for, is going to kill itself."""
    moment, _, task = os.environ.get(ARMED, "").partition(" ")
    for known in get_args(Moment):
        if moment == known:
            return Point(known, task)
    return None


def reach(moment: Moment, task: str) -> None:
    """To be called at every point, by workers."""
    if armed() == Point(moment, task):
        kill_everything(int(os.environ[ENGINE]))


def kill_everything(engine: int) -> NoReturn:
    """The engine first: no process is left that could notice how the rest dies."""
    os.kill(engine, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def plan(seed: int) -> dict[str, list[Point]]:
    """Trip → where its processes kill themselves, one after the other. The last process finds no point and ends.

    The points of one trip are ordered as the trip is, so each is still ahead when its process starts. What was killed
    `before` or `after` an undoable effect is taken back by the next process, so a point in that undo is ahead, too.
    """
    random = Random(seed)

    def around(task: str) -> Point:
        return Point(random.choice(("before", "after")), task)

    def in_undo(task: str) -> Point:
        return Point(random.choice(("undoing", "undone")), task)

    def perhaps(point: Point) -> list[Point]:
        return [point] if random.random() < 0.5 else []

    booking = random.choice(("book_flight", "book_room"))
    other = random.choice(("book_flight", "book_room"))
    return {
        "ann": [
            *perhaps(Point("saved", "find_offer")),
            around(booking),
            in_undo(booking),
            random.choice((around("reserve"), Point("saved", "reserve"))),
            Point(random.choice(("before", "after", "after")), "pay"),
            *perhaps(around("send_tickets")),
        ],
        "bob": [
            *perhaps(around("send_greeting")),
            in_undo(other),
            in_undo(other),
        ],
    }
