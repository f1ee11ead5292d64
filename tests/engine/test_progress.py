"""How far the tasks of a run are: events, and what can be asked."""

from __future__ import annotations

import asyncio
import math
import time

from onceflow import Engine, task
from onceflow.engine.handles import MOST_EVENTS, Feed
from onceflow.runs import Event, Progress, TaskInfo
from onceflow.tasks import track
from tests.engine.common import keep, pass_door, walk
from tests.helpers.doors import Door
from tests.helpers.waiting import until


@task
def loop(count: int) -> int:
    return sum(track(range(count)))


@task
def fail(text: str) -> None:
    raise ValueError(text)


def info(engine: Engine, run: str, id: str) -> TaskInfo:
    return next(info for info in engine.list_tasks(run) if info.id == id)


def test_a_running_task_tells_since_when_and_how_far(engine: Engine, door: Door) -> None:
    # given
    before = time.time()
    handle = engine.run_async(walk.bind(door.path))
    # when
    door.wait()
    until(lambda: info(engine, handle.id, "walk").progress is not None)
    # then
    told = info(engine, handle.id, "walk")
    assert (told.state, told.progress, told.live) == ("running", Progress(1, 4, "miles"), True)
    assert told.started is not None
    assert before <= told.started <= time.time()
    door.open()
    handle.result(60)
    told = info(engine, handle.id, "walk")
    assert (told.state, told.progress, told.started, told.live) == ("done", None, None, False)


def test_events_tell_of_progress(engine: Engine) -> None:
    told = [event for event in engine.run_async(loop.bind(3)) if event.kind == "progress"]
    assert (told[0].task, told[0].progress, told[0].detail) == ("loop", Progress(0, 3), "0 of 3 (0 %)")
    assert told[-1].progress == Progress(3, 3)


def test_progress_in_words() -> None:
    assert str(Progress(3)) == "3"
    assert str(Progress(0.5, 2)) == "0.5 of 2 (25 %)"
    assert str(Progress(3, 2, "pages")) == "3 of 2 pages"
    assert str(Progress(-1, 0)) == "-1 of 0"
    assert str(Progress(math.inf, math.inf)) == "inf of inf"
    assert str(Progress(math.nan, 3)) == "nan of 3"
    assert str(Progress(10**9, 10**9, "B")) == "1000000000 of 1000000000 (100 %) B"


def test_a_failed_event_tells_what_was_raised_in_one_line(engine: Engine) -> None:
    (failed,) = [event for event in engine.run_async(fail.bind("one\n  two")) if event.kind == "failed"]
    assert failed.detail == "ValueError: one two"


def test_events_can_be_awaited(engine: Engine, door: Door) -> None:
    async def main() -> list[str]:
        handle = engine.run_async(keep.bind(pass_door.bind(door.path)))
        kinds = []
        async for event in handle:
            kinds.append(event.kind)
            if kinds == ["started"]:
                door.open()
        assert await handle == "through"
        return kinds

    assert asyncio.run(main()) == ["started", "finished", "started", "finished", "status"]


def test_an_event_loop_that_is_gone_does_no_harm(engine: Engine, door: Door) -> None:
    # given somebody who has begun to wait for an event, and does so no more
    handle = engine.run_async(pass_door.bind(door.path))

    async def main() -> None:
        async for event in handle:
            if event.kind == "started":
                waiting = asyncio.ensure_future(anext(handle.__aiter__()))
                await asyncio.sleep(0)
                waiting.cancel()
                return

    asyncio.run(main())
    # when
    door.open()
    # then
    assert handle.result(60) == "through"
    assert engine.run(keep.bind(1)) == 1


def test_progress_that_nobody_reads_does_not_drive_out_other_events() -> None:
    feed = Feed()
    for number in range(2 * MOST_EVENTS):
        feed.tell(Event("progress", "t", progress=Progress(number)))
    feed.tell(Event("finished", "t"))
    feed.close()
    events = []
    while (event := feed.next()) is not None:
        events.append(event)
    assert len(events) == MOST_EVENTS // 2 + 1
    assert events[-1].kind == "finished"
