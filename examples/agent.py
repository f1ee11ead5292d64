"""An agent: it looks into an inbox, decides what is to be done about each letter, does it, and asks when it must.

    python examples/agent.py                 works until nothing new has come for a while, or until it needs advice
    python examples/agent.py advise yes      answers what it has asked, and lets it go on

Letters are files in `inbox/`; with an empty inbox, three are put there. What the agent has done lies in `outbox/`.

`work` is an endless loop of look, think, act, as agents are, with its memory in an ordinary list. It can be killed at
any moment and goes on with the same memory; no letter is answered twice, and no model is asked twice for what it has
said already. `think` is where you would call a language model. It stands in for one with three rules; since it is a
task, its answers are saved, so that it need not say the same thing twice.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from onceflow import RetryPolicy, configure, fiber, resume, run_async, send_event, sleep, task, wait_event
from onceflow.runs import RunHandle, list_fibers

INBOX, OUTBOX = Path("inbox"), Path("outbox")
SAMPLES = {
    "1-ann": "The kettle is great, thank you!",
    "2-bob": "It broke. I want my 30 euros back.",
    "3-eve": "It exploded. I want 900 euros.",
}
MAY_SPEND = 100
"""Euros that the agent may give away without asking."""
DAY = 86_400


class Decision(msgspec.Struct, frozen=True):
    tool: Literal["answer", "refund"]
    text: str
    euros: int = 0


@task
def look(seen: list[str]) -> dict[str, str]:
    """Letters that are new."""
    return {file.name: file.read_text() for file in sorted(INBOX.iterdir()) if file.name not in seen}


@task(retry=RetryPolicy(3, delay=1))
def think(letter: str, memory: list[str]) -> Decision:
    """What a language model would say, given the letter and what was done before."""
    sums = [int(word) for word in letter.split() if word.isdigit()]
    if not sums:
        return Decision("answer", "How nice to hear from you.")
    refunds = len([line for line in memory if "refund" in line])
    return Decision("refund", f"We are sorry ({refunds + 1} so far).", euros=sums[0])


@task
def act(letter: str, decision: Decision) -> str:
    """A tool. It writes the same file if it is called again."""
    OUTBOX.mkdir(exist_ok=True)
    given = f" You get {decision.euros} euros." if decision.tool == "refund" else ""
    (OUTBOX / letter).write_text(f"{decision.text}{given}\n")
    return f"{letter}: {decision.tool}"


@fiber
async def handled(name: str, letter: str, memory: list[str]) -> str:
    """Decides about one letter, with a person if it is about much money."""
    decision = await think.call(letter, memory)
    if decision.euros > MAY_SPEND:
        advice = await wait_event("advice", str, timeout=DAY, default="no")
        if advice != "yes":
            decision = Decision("answer", "We have to look into this.")
    return await act.call(name, decision)


@fiber
async def work(patience: int, pause: float) -> list[str]:
    """Ends when it has found nothing new so many times in a row."""
    memory: list[str] = []
    seen: list[str] = []
    bored = 0
    while bored < patience:
        letters = await look.call(seen)
        bored = 0 if letters else bored + 1
        for name, letter in letters.items():
            memory.append(await handled(name, letter, memory))
            seen.append(name)
        await sleep(pause)
    return memory


def follow(handle: RunHandle[Any]) -> None:
    """Until it has come to its end, or needs advice."""
    for event in handle:
        if event.kind == "status" and event.detail == "waiting" and (letter := asks_about()):
            print(f"it needs advice about {letter}")
            return
    print(*handle.result(), sep="\n")


def asks_about() -> str | None:
    """The letter about which the agent wants to know something, if it does: a look at its variables."""
    for standing in list_fibers("agent"):
        if "advice" in standing.waits_for:
            return standing.frames[-1].locals["name"]
    return None


if __name__ == "__main__":
    configure(workers=1)
    INBOX.mkdir(exist_ok=True)
    match sys.argv[1:]:
        case ["advise", advice]:
            send_event("agent", "advice", advice)
            print(*resume("agent"), sep="\n")
        case _:
            for name, letter in ({} if any(INBOX.iterdir()) else SAMPLES).items():
                (INBOX / name).write_text(letter)
            follow(run_async(work.bind(2, 0.1), name="agent"))
