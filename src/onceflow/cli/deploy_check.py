"""`onceflow deploy-check`: what would become of parked fibers in the code that is on disk."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
import msgspec

from onceflow.cli import exits, targets
from onceflow.cli.fiber_positions import place
from onceflow.cli.session import Session, common, only_results_on_stdout
from onceflow.cli.types import TEXT
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.inspect.deploy_check import Verdict

_TOLD: dict[Verdict, str] = {"same": "unchanged", "pin": "pinned", "move": "moved", "lost": "lost"}


@click.command("deploy-check")
@click.argument("module", type=TEXT)
@common
def deploy_check(session: Session, module: str) -> None:
    """Say which parked fibers the code of MODULE, as it is on disk now, can resume: those that do not notice (same),
    finish in the code in which they began (pin), go on in the new code (move), or could not go on (lost), and why. It
    ends with 4 if any would be lost. Those that do not notice are only counted.
    """
    with only_results_on_stdout():
        name = targets.load(module).__name__
        with session.engine_if_any() as engine:
            found = [] if engine is None else engine.deploy_check(name)
    if session.json:
        session.say_json([msgspec.to_builtins(outlook) for outlook in found])
    told_of = [] if session.json else [outlook for outlook in found if outlook.verdict != "same"]
    for outlook in sorted(told_of, key=lambda outlook: outlook.verdict != "lost"):
        where = f", {place(outlook.fiber.frames[-1])}" if outlook.fiber.frames else ""
        run = (outlook.name or outlook.run) + (" (failed)" if outlook.status == "failed" else "")
        whose = one_line(f"{run}, fiber {outlook.fiber.id}{where}")
        session.say(f"{outlook.verdict:<6}{whose}")
        for reason in outlook.reasons:
            session.say(f"      {one_line(reason)}")
    counts = Counter(outlook.verdict for outlook in found)
    told = ", ".join(f"{counts[verdict]} {text}" for verdict, text in _TOLD.items() if counts[verdict])
    parked = f"{len(found)} parked {'fiber' if len(found) == 1 else 'fibers'}"
    if counts["lost"]:
        raise exits.Refused(f"{counts['lost']} of {parked} could not go on in {module} ({told})")
    session.note(f"{parked}{': ' if told else ''}{told}")
