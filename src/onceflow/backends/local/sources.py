"""The user's source files: whether one of them has changed since workers may have imported it.

In a long-lived program (a notebook, a server) people edit modules and load them anew; workers that imported an older
state must not serve any more. A worker may have imported whatever the function it ran imports, so any change counts,
not only that of a function's own module. Files of the interpreter, of installed packages and of onceflow itself are not
looked at.
"""

from __future__ import annotations

import os
import sys
import time

INTERVAL = 0.2
"""Seconds for which a look at all files is good enough, unless there is a reason to look again."""


class Sources:
    """The files of the modules that this process has imported, and their states."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int]] = {}
        self._looked = 0.0
        self.have_changed(now=True)

    def have_changed(self, *, now: bool) -> bool:
        """Whether a file has another state than when it was first or last seen here. Without `now`, looks only if the
        last look is some time ago."""
        if not now and time.monotonic() - self._looked < INTERVAL:
            return False
        changed = False
        for file in _files():
            try:
                stat = os.stat(file)
            except OSError:  # deleted: workers go on with what they have
                continue
            state = (stat.st_mtime_ns, stat.st_size)
            changed |= self._states.setdefault(file, state) != state
            self._states[file] = state
        self._looked = time.monotonic()
        return changed


_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
"""The folder of onceflow."""


def _files() -> list[str]:
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, _OWN}
    installed = tuple([folder + os.sep for folder in folders])
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [file for file in files if isinstance(file, str) and not file.startswith(installed)]
