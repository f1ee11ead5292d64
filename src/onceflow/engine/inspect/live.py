"""The state of runs that are driven here. Read in the engine's thread, by this engine or another one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from onceflow.engine.handles import Listening
from onceflow.engine.inspect import overview, task_info
from onceflow.engine.inspect.overview import Counted, Overview
from onceflow.engine.inspect.task_info import TaskInfo

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.runtime.facade import Hub


class LiveRuns:
    """Implements `peers.server.Source`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._counted: weakref.WeakKeyDictionary[Driver, Counted] = weakref.WeakKeyDictionary()
        """What was found when its run was last surveyed."""

    def describe(self, run: str) -> list[TaskInfo] | None:
        """The tasks of a run; None if it is not driven here."""
        insight = self._hub.look_into(run)
        if insight is None:
            return None
        driver = insight.driver
        tasks = task_info.outline(driver.run)
        return task_info.describe(driver.run, tasks, driver.raised_last, driver.annotations, insight)

    def survey(self, run: str) -> Overview | None:
        """The progress of a run; None if it is not driven here."""
        insight = self._hub.look_into(run)
        if insight is None:
            return None
        driver = insight.driver
        counted = self._counted.get(driver)
        if counted is None or counted.changes != driver.changes:
            counted = self._counted[driver] = overview.count(driver)
        return overview.survey(insight, counted)

    def add_listener(self, run: str, listener: Listening, ended: Callable[[], None]) -> bool:
        completion = self._hub.find(run)
        if completion is None:
            return False
        completion.listen(listener)
        completion.when_done(ended)
        return True

    def remove_listener(self, run: str, listener: Listening) -> None:
        completion = self._hub.find(run)
        if completion is not None:
            completion.ignore(listener)
