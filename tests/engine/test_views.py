"""How runs get on: what a display sees, says and draws."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from onceflow import Engine, OnceflowError
from onceflow.engine.display import progress_view as viewing
from onceflow.engine.display import wording
from onceflow.engine.display.layout import draw
from onceflow.engine.display.progress_view import ESTIMATE, LARGE, MOST_RUNS, Looking, View
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.task_info import TaskState
from onceflow.engine.statuses import Status
from onceflow.errors import NoSuchRun
from onceflow.planning.estimates import Estimate
from onceflow.runs import Progress, RunInfo, TaskInfo
from tests.engine.common import keep


def info(id: str = "r", status: Status = "running", name: str | None = "order-7") -> RunInfo:
    return RunInfo(id, name, "order", status, created=0.0, updated=0.0)


def a_task(id: str, state: TaskState, **fields: Any) -> TaskInfo:
    return TaskInfo(id, id, state, "none", False, **fields)


def overview(*tasks: TaskInfo, live: bool = True, **counts: int) -> Overview:
    """With these tasks, and so many in each state."""
    running = [task for task in tasks if task.state == "running"]
    others = [task for task in tasks if task.state != "running"]
    return Overview(counts, running, others, live=live)  # type: ignore[arg-type]


LOAD = a_task("load", "running", started=0.0, progress=Progress(7, 20, "rows"))
CHARGE = a_task("charge", "waiting", reason="waits for load")
SHAKY = a_task(
    "shaky", "retrying", failures=1, error="ValueError: no", reason="raised once, is tried again in less than a second"
)


def drawn(views: Sequence[View], height: int = 24, width: int = 100, hidden: int = 0) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, height=height).print(draw(views, hidden, width, height))
    return [line.rstrip() for line in file.getvalue().splitlines()]


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_parked_hides_nothing() -> None:
    view = View(info(status="waiting"), overview(done=3, waiting=2, live=False), 4)
    assert not view.is_blind


def test_a_line_tells_counts_rate_time_and_what_runs() -> None:
    seen = overview(LOAD, CHARGE, done=3, running=1, waiting=1)
    assert wording.line(View(info(), seen, 65, 2.5)) == (
        "running, 3 of 5 done, 1 running, 1 waiting, 2.5/s, 1:05: load 35 %"
    )


def test_a_line_about_a_run_that_nobody_can_be_asked_about_says_so() -> None:
    said = wording.line(View(info(), overview(done=3, ready=2, live=False), 4, 0.0))
    assert said == "running, 3 of 5 done, 2 ready, 0:04 (its engine does not answer, so what runs there is not known)"
    assert wording.line(View(info(), None, 4)) == "running, 0:04"


def test_only_some_running_tasks_are_named() -> None:
    running = [a_task(f"t{number}", "running") for number in range(5)]
    assert wording.named(running) == "t0, t1, t2, …"


def test_trouble_tells_what_was_raised_and_what_comes_next() -> None:
    assert wording.trouble(SHAKY) == "shaky: retrying, raised ValueError: no, is tried again in less than a second"
    assert wording.trouble(a_task("x", "failed", error="E: e")) == "x: failed, raised E: e"
    assert wording.trouble(a_task("x", "undoing")) == "x: undoing"


def test_the_end_of_a_run() -> None:
    assert wording.ending(View(info(status="succeeded"), overview(done=1, live=False), 3.21)) == (
        "succeeded after 3.2 s, 1 task"
    )
    seen = overview(done=2, failed=1, live=False)
    assert wording.ending(View(info(status="failed"), seen, 75)) == "failed after 1:15, 2 of 3 done, 1 failed"
    assert wording.ending(View(info(status="failed"), overview(done=2, running=1), 1)) == (
        "failed after 1.0 s, at least 2 of 3 done"
    )
    assert wording.ending(View(info(status="cancelled"), None, 1)) == "cancelled after 1.0 s"


@pytest.mark.parametrize(("seconds", "said"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3723, "1:02:03")])
def test_time_that_has_passed(seconds: float, said: str) -> None:
    assert wording.clock(seconds) == said


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, ""),
        (Estimate(0.0, 0.0, 0), "ETA 0 s"),
        (Estimate(2.31, 4.04, 1), "ETA 2.3–4 s (1 sample)"),
        (Estimate(20, 89, 12), "ETA 20–89 s (12 samples)"),
        (Estimate(20, 180, 12), "ETA 0.3–3 min (12 samples)"),
        (Estimate(7200, 7201, 5), "ETA 2 h (5 samples)"),
    ],
)
def test_an_estimate_is_a_range_with_its_samples(found: Estimate | None, said: str) -> None:
    assert wording.eta(View(info(), None, 0, estimate=found)) == said


def test_shares() -> None:
    assert wording.share(a_task("t", "running")) == ""
    assert wording.share(a_task("t", "running", progress=Progress(3, None, "files"))) == "3 files"
    assert wording.share(a_task("t", "running", progress=Progress(5, 4))) == "5 of 4"


# -- drawing -----------------------------------------------------------------------------------------------------------


def test_a_display_has_a_head_what_runs_with_bars_and_what_waits_with_reasons() -> None:
    seen = overview(LOAD, SHAKY, CHARGE, done=3, running=1, waiting=1, retrying=1)
    head, load, shaky, charge = drawn([View(info(), seen, 65, 12.4)], width=120)
    assert head.startswith("order-7 order ━")
    assert head.endswith("running · 3 of 6 done · 1:05 · 12/s · 1 running · 1 waiting · 1 retrying")
    assert load.startswith("  load   ━")
    assert load.endswith("7 of 20 (35 %) rows")
    assert shaky == "  shaky  retrying                 raised ValueError: no, is tried again in less than a second"
    assert charge == "  charge waiting                  waits for load"


def test_a_display_is_no_higher_than_the_terminal() -> None:
    running = [a_task(f"r{number}", "running", started=0.0) for number in range(50)]
    others = [a_task(f"f{number}", "failed", error="E: e") for number in range(12)]
    others += [a_task(f"w{number}", "waiting", reason="waits for r1") for number in range(12)]
    seen = overview(*running, *others, running=50, failed=12, waiting=500)
    lines = drawn([View(info(), seen, 1)], height=20)
    assert len(lines) <= 20
    assert lines[-1].strip().startswith("and ")
    for kind in "rfw":
        assert any(line.startswith(f"  {kind}") for line in lines)
    shown = len(lines) - 2
    assert lines[-1].strip() == f"and {562 - shown} more"


def test_a_display_of_many_runs_and_of_a_narrow_terminal() -> None:
    views = [View(info(f"r{number}", name=None), overview(LOAD, running=1), 1) for number in range(4)]
    lines = drawn(views, height=10, width=40)
    assert [line.split()[0] for line in lines] == ["r0", "load", "r1", "load", "r2", "load", "r3", "load"]
    assert all(len(line) <= 40 for line in lines)


def test_what_tasks_are_called_does_not_matter() -> None:
    odd = a_task("[bold]\x1b[31m\nx", "running", started=0.0, progress=Progress(1, 0, "[red]"))
    lines = drawn([View(info(name="[b]n"), overview(odd, running=1), 1)])
    assert lines[0].startswith("[b]n")
    assert "[bold]\\x1b[31m x" in lines[1]


def test_a_run_whose_tasks_cannot_be_told_has_a_head() -> None:
    assert drawn([View(info(), None, 1)]) == ["order-7 order running · 0:01"]
    blind = drawn([View(info(), overview(ready=1, live=False), 1)], width=150)
    assert blind[0].endswith("not answer: what runs there is not known · 0:01 · 1 ready")


# -- looking -----------------------------------------------------------------------------------------------------------


class Fake:
    """An engine with runs that get on as the test says."""

    def __init__(self) -> None:
        self.status: Status = "running"
        self.seen: Overview | Exception = overview(done=0)
        self.surveys = 0
        self.estimates = [Estimate(10.0, 20.0, 3)]

    def estimate(self, run: str) -> Estimate | None:
        return self.estimates.pop(0) if self.estimates else None

    def info(self, run: str) -> RunInfo:
        if run == "gone":
            raise NoSuchRun(run)
        return info(run, self.status)

    def survey(self, run: str) -> Overview:
        self.surveys += 1
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(viewing.time, "monotonic", lambda: now[0])
    return now


def test_the_rate_is_that_of_the_last_seconds(clock: list[float]) -> None:
    fake = Fake()
    looking = Looking(fake)  # type: ignore[arg-type]
    rates = []
    for step in range(31):
        fake.seen = Overview({"done": step}, [], [], finished=3 * step if step <= 15 else 45, live=True)
        rates += [view.rate for view in looking.look(["r"])]
        clock[0] += 1.0
    assert rates[0] is None
    assert rates[1:16] == [3.0] * 15
    assert rates[-1] == 0.0


def test_an_estimate_is_made_now_and_then_and_grows_smaller_meanwhile(clock: list[float]) -> None:
    fake = Fake()
    looking = Looking(fake)  # type: ignore[arg-type]
    seen = []
    for _ in range(3):
        seen += [view.estimate for view in looking.look(["r"])]
        clock[0] += ESTIMATE / 2
    assert seen == [Estimate(10.0, 20.0, 3), Estimate(8.5, 18.5, 3), None]


def test_runs_that_are_gone_are_left_out_and_those_without_code_are_named() -> None:
    fake = Fake()
    fake.seen = OnceflowError("its code is not there")
    (view,) = Looking(fake).look(["gone", "r"])  # type: ignore[arg-type]
    assert (view.info.id, view.overview, view.rate) == ("r", None, None)


def test_not_all_of_many_runs_are_looked_into() -> None:
    fake = Fake()
    looking = Looking(fake)  # type: ignore[arg-type]
    seen = looking.look([f"r{number}" for number in range(100)])
    assert (len(seen), fake.surveys, looking.hidden) == (MOST_RUNS, MOST_RUNS, 100 - MOST_RUNS)
    assert drawn(seen[:1], hidden=looking.hidden)[-1] == f"and {100 - MOST_RUNS} more runs"


def test_after_a_look_that_took_long_the_next_one_comes_later(clock: list[float]) -> None:
    fake = Fake()
    looking = Looking(fake)  # type: ignore[arg-type]
    looking.look(["r"])
    assert looking.pause(0.5) == 0.5

    def slow(run: str) -> Overview:
        clock[0] += 0.1
        return overview(done=1)

    fake.survey = slow  # type: ignore[method-assign]
    looking.look(["r"])
    assert looking.pause(0.5) == pytest.approx(2.0)


@pytest.mark.parametrize(("size", "surveys"), [(LARGE, 2), (LARGE + 1, 1)])
def test_a_large_run_that_has_ended_is_not_read_from_the_journal(size: int, surveys: int) -> None:
    fake = Fake()
    looking = Looking(fake)  # type: ignore[arg-type]
    fake.seen = overview(done=size)
    looking.look(["r"])
    fake.status = "succeeded"
    (view,) = looking.look(["r"])
    assert view.has_ended
    assert view.overview is not None
    assert (view.overview.total, fake.surveys) == (size, surveys)


def test_a_run_that_has_ended_can_be_looked_at(engine: Engine) -> None:
    engine.run(keep.bind(1), name="looked at")
    (view,) = Looking(engine).look([engine.info("looked at").id])
    assert view.overview is not None
    assert view.estimate is None
    assert view.elapsed == view.info.updated - view.info.created
    assert (view.info.status, view.overview.counts, view.is_blind) == ("succeeded", {"done": 1}, False)
