"""Looking at fibers from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, Secret
from onceflow.authoring.fiber_tasks import live_continuations
from onceflow.testing import MemoryEngine
from onceflow.values import secret_masks
from tests.fibers import looked
from tests.helpers.scripts import kill, started
from tests.helpers.waiting import LONG, until

TOKEN = "hunter2-and-more"


def test_a_fiber_that_waits_is_told_with_its_lines_variables_and_what_it_waits_for() -> None:
    # given
    engine = MemoryEngine()
    engine.run_async(looked.fulfil.bind("book", Secret(TOKEN)), name="order")
    engine.clock.advance(1)
    # when
    (fiber,) = engine.list_fibers("order")
    # then
    assert (fiber.id, fiber.function, fiber.state) == ("fulfil", "tests.fibers.looked:fulfil", "waiting")
    assert fiber.waits_for == "wait_event('approval', 259200.0)"
    assert fiber.tasks == ("fulfil~2/wait_event",)
    assert fiber.until is not None
    assert 0 < engine.clock.now + 3 * 86_400 - fiber.until < 2
    outer, inner = fiber.frames
    assert outer.file == inner.file == looked.__file__
    assert outer.source == 'ok = await approved("ann", 3)'
    assert Path(outer.file).read_text().splitlines()[outer.line - 1].strip() == outer.source
    assert inner.source.startswith("return await call(wait_event(")
    assert inner.locals == {"by": "'ann'", "days": "3"}


def test_secrets_and_objects_of_users_are_not_shown() -> None:
    engine = MemoryEngine()
    engine.run_async(looked.fulfil.bind("book", Secret(TOKEN)), name="order")
    engine.clock.advance(1)
    (fiber,) = engine.list_fibers("order")
    shown = fiber.frames[0].locals
    assert shown["item"] == "'book'"
    assert shown["parcel"] == "<Parcel>"
    assert shown["token"] == "<Secret>"
    assert shown["clear"] == "'****'"
    assert shown["headers"] == "{'Authorization': 'Bearer ****'}"


def test_what_a_secret_told_is_masked_wherever_the_fiber_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a fiber that has looked at a secret and waits
    engine = MemoryEngine()
    engine.run_async(looked.telling.bind(Secret(TOKEN)), name="telling")
    engine.clock.advance(1)
    # when it goes on in a process that has never seen the secret
    monkeypatch.setattr(live_continuations, "take", lambda token: None)
    monkeypatch.setattr(secret_masks, "_texts", {})
    engine.send_event("telling", "first")
    engine.clock.advance(1)
    # then
    (fiber,) = engine.list_fibers("telling")
    assert fiber.waits_for == "wait_event('second')"
    assert fiber.frames[0].locals["clear"] == "'****'"


def test_fibers_that_were_forked_and_gathered_are_listed_each() -> None:
    engine = MemoryEngine()
    engine.run_async(looked.family.bind(), name="family")
    engine.clock.advance(1)
    found = {fiber.id: fiber for fiber in engine.list_fibers("family")}
    children = [fiber for id, fiber in found.items() if id != "family"]
    assert sorted(fiber.waits_for for fiber in children) == [
        "wait_event('forked')",
        "wait_event('left')",
        "wait_event('right')",
    ]
    assert {fiber.function for fiber in children} == {"tests.fibers.looked:child"}
    assert found["family"].waits_for == "gather(child(), child())"
    assert set(found["family"].tasks) < {task.id for task in engine.list_tasks("family")}


def test_fibers_that_have_ended_are_not_listed() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(looked.family.bind(), name="family")
    engine.clock.advance(1)
    engine.send_event("family", "left", "l")
    engine.clock.advance(1)
    assert len(engine.list_fibers("family")) == 3
    for key in ("right", "forked"):
        engine.send_event("family", key, key)
    assert handle.result() == [("l", "right"), "forked"]
    assert engine.list_fibers("family") == []


def test_a_fiber_of_a_failed_run_stands_where_it_would_go_on() -> None:
    engine = MemoryEngine()
    engine.run_async(looked.raising.bind("number"), name="raising")
    engine.clock.advance(1)
    engine.send_event("raising", "number", "seven")
    engine.clock.advance(1)
    assert engine.status("raising") == "failed"
    (fiber,) = engine.list_fibers("raising")
    assert fiber.state == "ready"
    assert fiber.frames[0].source == "got = await call(wait_event(name, str))"


def test_one_that_has_not_begun_is_told_by_its_name(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.submit(looked.family.bind(), name="family")
        (fiber,) = engine.list_fibers("family")
    assert (fiber.id, fiber.function, fiber.state) == ("family", "tests.fibers.looked:family", "new")


SHOP = """
    from onceflow import fiber, run_async, wait_event

    @fiber
    async def ordered(item: str) -> str:
        price = len(item)
        answer = await wait_event("answer", str)
        return f"{item} for {price}: {answer}"

    if __name__ == "__main__":
        handle = run_async(ordered.bind("book"), name="order")
        print("here", flush=True)
        handle.result()
"""


@pytest.mark.parametrize("gone", [False, True], ids=["code there", "code gone"])
def test_they_are_shown_from_another_process_also_when_theirs_is_dead(gone: bool, tmp_path: Path) -> None:
    with started(tmp_path, SHOP) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        # given a fiber that waits in another process
        with Engine(tmp_path / "home", workers=1) as other:
            until(lambda: [fiber.state for fiber in other.list_fibers("order")] == ["waiting"])
        before = show(tmp_path)["fibers"]
        kill(process)
        if gone:
            (tmp_path / "script.py").unlink()
    # then it looks the same after that was killed, wherever its code is
    dead = show(tmp_path)
    assert dead["status"] == "interrupted"
    assert dead["fibers"] == before
    (fiber,) = before
    assert fiber["frames"][0]["source"] == 'answer = await wait_event("answer", str)'
    assert fiber["frames"][0]["locals"] == {"item": "'book'", "price": "4"}
    told = command(tmp_path, "show", "order")
    assert "fiber ordered waits for wait_event('answer')\n" in told
    assert "  script.py:7 in ordered  answer = await wait_event(\"answer\", str)\n      item = 'book'\n" in told


def show(folder: Path) -> Any:
    return json.loads(command(folder, "show", "order", "--json"))


def command(folder: Path, *args: str) -> str:
    """What `onceflow` says in this folder."""
    whole = [sys.executable, "-m", "onceflow", *args, "--home", str(folder / "home")]
    done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, timeout=LONG, check=True)
    assert "does not answer" not in done.stderr
    return done.stdout
