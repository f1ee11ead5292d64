"""The programs that `waits` and `fibers_engine` start: one fills a home with parked runs, one drives them, and one
sends events."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

from onceflow import Engine, fiber, sleep, task, wait_event
from onceflow.engine.runtime.facade import Hub
from onceflow.fibers import call
from onceflow.storage.home import Home
from onceflow.storage.journal import NEVER, AppendEntries, CreateRun, SetStatus, commit

SECONDS = 1e6
"""That the sleeping ones sleep."""

AT_ONCE = 500


@task(effect="none")
def got(number: int) -> int:
    return number


@task(effect="none")
def woke() -> None:
    return None


@fiber
async def patient(greeting: str) -> int:
    asked = time.time()
    number = await call(wait_event("number", int))
    return number if len(greeting) and time.time() >= asked else -1


def fill(home: str, count: int) -> None:
    """Half of them wait for an event, half for time to pass."""
    waits = {"number": got.bind(wait_event("number", int)), "sleep": woke.options(after=[sleep(SECONDS)]).bind()}
    _fill(home, waits, count // 2)


def fill_with_fibers(home: str, count: int) -> None:
    """All of them are fibers that wait for an event."""
    _fill(home, {"number": patient.bind("hello")}, count)


def _fill(home: str, kinds: dict[str, Any], count: int) -> None:
    """All but one of each kind are copies of those that were really run: to submit so many takes longer than what is to
    be seen."""
    with Engine(home, workers=1) as engine:
        for kind, node in kinds.items():
            engine.run_async(node, name=f"{kind}-0")
        while len(_hub(engine).parked.parking) < len(kinds):
            time.sleep(0.01)
    place = Home(Path(home))
    journal = place.journal
    requests = []
    for kind in kinds:
        row = journal.find_name(f"{kind}-0")
        assert row is not None
        with journal.load(row.id) as loaded:
            entries = list(loaded.entries)
        due = NEVER if kind == "number" else time.time() + SECONDS
        for number in range(1, count):
            id = f"{kind}{number:07}"
            made = CreateRun(
                id, f"{kind}-{number}", row.workflow, row.digest, loaded.graph, loaded.settings, row.owner, "running"
            )
            requests.append([made, AppendEntries(id, 1, entries), SetStatus(id, 1, "waiting", due)])
    for start in range(0, len(requests), AT_ONCE):
        outcome = commit(journal, [one for batch in requests[start : start + AT_ONCE] for one in batch])
        assert outcome.ok, outcome.refusal
    place.close()


def drive(home: str, count: int) -> None:
    """Prints the seconds until all are picked up, and the bytes that each takes; goes on until nobody wants more."""
    with Engine(home, workers=2, output="inherit", event_log=False) as engine:
        before = _bytes()
        started = time.perf_counter()
        engine._recover()
        while len(_hub(engine).parked.parking) < count:
            time.sleep(0.005)
        seconds = time.perf_counter() - started
        print(seconds, (_bytes() - before) / count, flush=True)
        sys.stdin.read()


def send(home: str, first: int, count: int) -> None:
    """As a service does that hears of many things at once. Says when it begins: to start a process is not to be
    seen."""
    with Engine(home) as engine:
        numbers = range(first, first + count)
        print("begins", flush=True)
        engine.send_events([(f"number-{number}", "number", number) for number in numbers], ids=["the one"] * count)


def _hub(engine: Engine) -> Hub:
    hub = engine._hub
    assert isinstance(hub, Hub)
    return hub


def _bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    verb, home, *numbers = sys.argv[1:]
    verbs = {"fill": fill, "fill_with_fibers": fill_with_fibers, "drive": drive, "send": send}
    verbs[verb](home, *map(int, numbers))
