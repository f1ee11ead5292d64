"""The hub of an engine with a home directory: a loop in a thread, worker processes, threads that write blobs."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onceflow.driver.driver import Driver
from onceflow.engine import deaths
from onceflow.engine.answering import Answering
from onceflow.engine.hub import Hub, interrupted
from onceflow.engine.loop import Loop
from onceflow.engine.workers import Workers
from onceflow.errors import OnceflowError
from onceflow.storage.blobs import Author
from onceflow.storage.home import Home

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SAVERS = 4
"""Threads that write blobs."""


class LocalHub(Hub):
    """Started on creation, in a thread of its own."""

    def __init__(self, home: Home, size: int | None, preload: Sequence[str]) -> None:
        self._directory = home
        self._size = size
        self._preload = preload
        self._savers: ThreadPoolExecutor | None = None
        super().__init__(home)
        self._threaded.start()

    def _open_loop(self) -> Loop:
        self._threaded = Loop(f"onceflow engine {self._directory.path}", turn=self._turn, ended=self._ended)
        self._threaded.selector.register(self._directory.bell, selectors.EVENT_READ, self._heard_bell)
        self._answering = Answering(self._directory.listener, self._threaded, self)
        return self._threaded

    def _open_workers(self) -> Workers:
        return Workers(
            deaths.prepare(self._directory.path, self._directory.engine),
            self._size,
            preload=self._preload,
            environment={"ONCEFLOW_HOME": str(self._directory.path)},  # a task that looks at runs finds them
            loop=self._threaded,
            answer=self._answered,
            tell_progress=self._tell_progress,
        )

    def _heard_bell(self) -> None:
        self._directory.bell.hush()
        self._look_for_commands()

    def _ended(self, failure: BaseException | None) -> None:
        super()._ended(failure)
        if self._workers is not None:
            deaths.forget(self._directory.path, self._directory.engine)
        if self._savers is not None:
            self._savers.shutdown()
        self._answering.close()

    def save(self, driver: Driver, name: str, value: bytes, then: Callable[[str], None]) -> None:
        if self._savers is None:
            from concurrent.futures import ThreadPoolExecutor  # many runs have no large values

            self._savers = ThreadPoolExecutor(SAVERS, "onceflow saver")
        author = Author(driver.id, driver.run.epoch, self._directory.engine)
        self._savers.submit(self._write, driver, author, name, value, then)

    def _write(self, driver: Driver, author: Author, name: str, value: bytes, then: Callable[[str], None]) -> None:
        """In a saver's thread."""
        try:
            reference = self._directory.blobs.write(author, name, [value])
        except OnceflowError as error:
            failure = error
            self._threaded.post(lambda: driver.interrupt(failure))
        except Exception as error:
            problem = interrupted(driver.id, f"{type(error).__name__}: {error}", error)
            self._threaded.post(lambda: driver.interrupt(problem))
        else:
            self._threaded.post(lambda: self._tell(driver, lambda: then(reference)))
