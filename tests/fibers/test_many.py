"""The fibers that others have started, seen from outside."""

from __future__ import annotations

from pathlib import Path

from onceflow import Engine, Secret
from onceflow.testing import MemoryEngine
from tests.cli.common import Command
from tests.fibers import many


def test_a_fiber_that_another_one_started_keeps_its_id_as_it_goes_on() -> None:
    # given
    engine = MemoryEngine()
    engine.run_async(many.family.bind(), name="family")
    engine.clock.advance(1)
    engine.send_event("family", "begin")
    engine.clock.advance(1)
    ids = [fiber.id for fiber in engine.list_fibers("family")]
    assert ids == [
        "family",
        "family~2/fiber",
        "family~2/fiber_1",
        "family~2/fiber_2",
        "family~2/fiber/fiber",
        "family~2/fiber/fiber_1",
    ]
    for number in range(2):
        # when they go on to their second and their third await
        for name in ("one", "two", "forked left", "forked right"):
            engine.send_event("family", f"{name} {number}", "a")
        engine.clock.advance(1)
        # then
        assert [fiber.id for fiber in engine.list_fibers("family")] == ids
        tasks = {task.id for task in engine.list_tasks("family")}
        for fiber in engine.list_fibers("family"):
            assert set(fiber.tasks) <= tasks
            assert fiber.id in tasks


def test_fibers_come_in_the_order_of_their_numbers() -> None:
    engine = MemoryEngine()
    engine.run_async(many.crowd.bind(25), name="crowd")
    engine.clock.advance(1)
    _, *children = engine.list_fibers("crowd")
    assert [fiber.waits_for for fiber in children] == [f"wait_event('{number} 0')" for number in range(25)]


def test_of_many_fibers_some_are_shown_and_how_to_see_them_all(tmp_path: Path) -> None:
    # given
    with Engine(tmp_path / "home", workers=1) as engine:
        for event in engine.run_async(many.crowd.bind(25), name="crowd"):
            if event.kind == "status" and event.detail == "waiting":
                break
        engine.close()
    onceflow = Command(tmp_path / "home")
    # when
    some, every = onceflow("show", "crowd").stdout, onceflow("show", "crowd", "--all").stdout
    # then
    assert some.count("\nfiber ") == 20
    assert some.endswith("\n… and 6 other fibers: --all shows them\n")
    assert every.count("\nfiber ") == 26
    assert "other fibers" not in every


def test_a_secret_in_the_key_of_an_event_is_not_shown(tmp_path: Path) -> None:
    # given
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(many.secretive.bind(Secret("hunter2-and-more")), name="secretive")
        for event in handle:
            if event.kind == "status" and event.detail == "waiting":
                break
        told = [engine.list_tasks("secretive"), engine.list_fibers("secretive"), engine.why("secretive")]
        engine.close()
    # when
    onceflow = Command(tmp_path / "home")
    told += [
        onceflow("show", "secretive").stdout,
        onceflow.json("show", "secretive"),
        onceflow("why", "secretive").stdout,
    ]
    # then
    for one in told:
        assert "hunter2" not in str(one)
        assert "answer to ****" in str(one)
    # and it is known all the same
    onceflow("send", "secretive", "answer to hunter2-and-more", '"yes"')
    assert onceflow("resume", "secretive").stdout == "yes\n"
