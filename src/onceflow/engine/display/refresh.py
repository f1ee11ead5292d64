"""Shows the progress of runs while a caller waits for them: a thread that polls.

On a terminal a live display that goes away at the end; elsewhere a line every few seconds. Of runs that end soon
nothing is shown. Errors here never reach the callers that wait.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

import msgspec

from onceflow.engine.display import wording
from onceflow.engine.display.progress_view import Looking, View
from onceflow.engine.inspect.overview import TROUBLED
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.errors import EngineClosed

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine

Form = Literal["live", "lines", "json"]

DELAYS: dict[Form, float] = {"live": 0.5, "lines": 2.0, "json": 2.0}
"""Seconds for which nothing is shown: what ends before is not worth it."""

INTERVALS: dict[Form, float] = {"live": 0.2, "lines": 1.0, "json": 1.0}
"""Seconds between two looks."""

SUMMARY = 5.0
"""Seconds between two lines about a run."""

logger = logging.getLogger(__name__)


class Displaying:
    """A context manager: runs are shown while at least one thread is inside. `runs` returns which ones."""

    def __init__(self, engine: Engine, runs: Callable[[], Sequence[str]], form: Form | None = None) -> None:
        self._engine = engine
        self._runs = runs
        self._form = form
        self._lock = threading.Lock()
        self._inside = 0
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._over.clear()
                self._thread = threading.Thread(target=self._show_safely, name="onceflow progress", daemon=True)
                self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._thread is not None:
                self._over.set()
                self._thread.join()
                self._thread = None

    def _show_safely(self) -> None:
        try:
            self._show()
        except EngineClosed:
            return
        except Exception as error:
            logger.warning("progress cannot be shown: %s: %s", type(error).__name__, error)

    def _show(self) -> None:
        begun = time.time()
        form = self._form or ("live" if sys.stderr.isatty() else "lines")
        if self._over.wait(DELAYS[form]):
            return
        looking = Looking(self._engine, lambda _: begun)
        shown: dict[str, None] = {}
        ended: set[str] = set()
        display = open_display(form)
        try:
            over = False
            while True:
                wanted = [] if over else [run for run in self._runs() if run not in ended]
                views = looking.look(dict.fromkeys([*shown, *wanted]))
                for view in [view for view in views if view.has_ended]:
                    ended.add(view.info.id)
                    if view.info.id in shown:
                        display.end(view)
                shown = {view.info.id: None for view in views if not view.has_ended}
                if over:
                    return
                display.show([view for view in views if not view.has_ended], looking.hidden)
                over = self._over.wait(looking.pause(INTERVALS[form]))
        finally:
            display.close()


class Display(Protocol):
    def show(self, views: Sequence[View], hidden: int = 0) -> None:
        """These go on, and so many more."""

    def end(self, view: View) -> None:
        """This one does so no more."""

    def close(self) -> None: ...


def open_display(form: Form) -> Display:
    return Live(sys.stderr) if form == "live" else Lines(sys.stderr, as_json=form == "json")


class Live:
    """Drawn again and again in the same place. What is printed meanwhile appears above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # slow to import
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._console = Console(file=stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, views: Sequence[View], hidden: int = 0) -> None:
        from onceflow.engine.display.layout import draw

        self._live.update(draw(views, hidden, self._console.width, self._console.height), refresh=True)

    def end(self, view: View) -> None:
        self._console.print(self._text(f"{wording.name(view)}: {wording.ending(view)}"))

    def close(self) -> None:
        self._live.stop()


class Lines:
    """A line about each run every few seconds, and one for each task that gets into trouble."""

    def __init__(self, stream: TextIO, *, as_json: bool = False) -> None:
        self._stream = stream
        self._as_json = as_json
        self._told: dict[str, float] = {}
        """Run → when it was last reported."""
        self._known: dict[str, set[tuple[str, str, int]]] = {}
        """Run → (task, state, failures) of those in trouble."""

    def show(self, views: Sequence[View], hidden: int = 0) -> None:
        for view in views:
            for task in self._new_trouble(view):
                self._say(view, wording.trouble(task), _trouble_as_json(task))
            if self._is_due(view.info.id):
                self._say(view, wording.line(view), as_json(view))
        if hidden and not self._as_json and self._is_due(""):
            self._write(f"and {hidden} more run{'s' * (hidden != 1)}")

    def end(self, view: View) -> None:
        self._say(view, wording.ending(view), as_json(view))

    def close(self) -> None:
        pass

    def _new_trouble(self, view: View) -> list[TaskInfo]:
        if view.overview is None:
            return []
        troubled = [task for task in view.overview.others if task.state in TROUBLED]
        before = self._known.get(view.info.id, set())
        self._known[view.info.id] = {(task.id, task.state, task.failures) for task in troubled}
        return [task for task in troubled if (task.id, task.state, task.failures) not in before]

    def _is_due(self, run: str) -> bool:
        now = time.monotonic()
        if now - self._told.get(run, -SUMMARY) < SUMMARY:
            return False
        self._told[run] = now
        return True

    def _say(self, view: View, text: str, fields: dict[str, Any]) -> None:
        if self._as_json:
            told = {"time": time.time(), "id": view.info.id, "name": view.info.name, **fields}
            print(msgspec.json.encode(told).decode(), file=self._stream, flush=True)
        else:
            self._write(f"{wording.name(view)}  {text}")

    def _write(self, text: str) -> None:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}", file=self._stream, flush=True)


def as_json(view: View) -> dict[str, Any]:
    """The progress of a run as JSON, for programs."""
    overview = view.overview
    return {
        "status": view.info.status,
        "elapsed": view.elapsed,
        "counts": None if overview is None else overview.counts,
        "rate": view.rate,
        "estimate": view.estimate,
        "live": overview is not None and overview.live,
        "running": []
        if overview is None
        else [{"id": task.id, "started": task.started, "progress": task.progress} for task in overview.running],
    }


def _trouble_as_json(task: TaskInfo) -> dict[str, Any]:
    return {"task": task.id, "state": task.state, "error": task.error, "reason": task.reason}
