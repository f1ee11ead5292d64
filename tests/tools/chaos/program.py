"""An engine as users start one: a script without a `__main__` guard, whose functions and exceptions are its own.

python program.py FOLDER LIFE
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from onceflow.actors import Exclusive
from tests.tools.chaos import lives, steps
from tests.tools.chaos.plans import Step


class OwnTrouble(Exception):
    """An exception that only this script has."""


def play(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: tuple[str, str] | None,
    ballast: bytes,
    taken: Exclusive[Sequence[Any]] = (),
) -> Any:
    try:
        return steps.perform(step, folder, inputs, origin, own(), taken)
    except steps.Trouble as trouble:
        raise OwnTrouble(str(trouble)) from trouble


async def play_async(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: tuple[str, str] | None,
    ballast: bytes,
    taken: Exclusive[Sequence[Any]] = (),
) -> Any:
    return play(step, folder, inputs, origin, ballast, taken)


def take_back(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: tuple[str, str] | None,
    output: Any,
    key: str,
    taken: Sequence[Any],
) -> None:
    steps.undo(step, folder, inputs, origin, output, key, taken)


def own() -> steps.Functions:
    return steps.Functions(play, play_async, take_back)


lives.live(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=lives.Life), own())
