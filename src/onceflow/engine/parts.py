"""What the methods of an engine share: its parts, and the checks that each makes first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from onceflow.errors import EngineClosed, InsideTask
from onceflow.values.context import is_in_fiber, running

if TYPE_CHECKING:
    from onceflow.engine.attaching import Attaching
    from onceflow.engine.inspect.journal_view import Reading
    from onceflow.engine.inspect.run_info import Listing
    from onceflow.engine.run_commands.reach import Reach
    from onceflow.engine.runtime.facade import Hub
    from onceflow.engine.settings import EngineSettings
    from onceflow.storage.run_stores import Place


class Parts:
    """What an engine consists of."""

    settings: EngineSettings
    _home: Place
    _hub: Hub
    _attaching: Attaching
    _reading: Reading
    _listing: Listing
    _reach: Reach
    _closed: bool
    _process: int
    """The one that opened it."""

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise EngineClosed("the engine belongs to the process that this one was forked from; open one of your own")
        if self._closed:
            raise EngineClosed(f"the engine at {self.settings.home} was closed")

    def _check_usable(self) -> None:
        """Whether runs may be started here."""
        self._check_open()
        refuse_inside_task()


def refuse_inside_task() -> None:
    context = running.get()
    if context is not None:
        raise InsideTask(context["task"], is_fiber=is_in_fiber())
