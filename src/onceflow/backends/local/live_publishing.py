"""Live objects on their way to shared memory, as the pool sees it.

Each is asked for once, however many wait for it. Its maker answers with the place, or with what was in the way; or it
dies, and the object is gone.
"""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable, Mapping

from onceflow.backends.local.messages import Publish, Published
from onceflow.backends.local.workers import Worker
from onceflow.data.arena import NoRoom
from onceflow.data.objects import Object, Shelf

Then = Callable[[OSError | None], None]
"""Called when an object has been published, has been lost (`Object.lost`), or cannot be published, with the error."""


class Publishing:
    def __init__(self, shelf: Shelf, workers: Mapping[int, Worker]) -> None:
        self._shelf = shelf
        self._workers = workers
        self._waiting: dict[Object, list[Then]] = {}
        """What has been asked for, and what waits for it."""
        self._refused: weakref.WeakSet[Object] = weakref.WeakSet()
        """What could not be published when it was last tried."""

    def ask(self, object: Object, then: Then | None = None) -> None:
        """Has a live object published. `then` is called later, and once."""
        waiting = self._waiting.get(object)
        if waiting is None:
            assert object.live is not None
            assert object.place is None
            assert not object.lost
            waiting = self._waiting[object] = []
            self._workers[object.maker].tell(Publish(object.live.number))
        if then is not None:
            waiting.append(then)

    def answered(self, published: Published) -> None:
        """By its maker, whose segments are known."""
        object = self._shelf.find_live(published.number)
        assert object is not None
        if published.place is None:
            self._refused.add(object)
            self._call(object, NoRoom(errno.ENOSPC, published.problem))
        else:
            self._refused.discard(object)
            self._shelf.settle(object, published.place)
            self._call(object, None)

    def evacuate(self, worker: Worker) -> bool:
        """Has everything published that only this worker has. Whether that has been done, as far as it is possible."""
        objects = [object for object in self._shelf.live_at(worker.pid) if object not in self._refused]
        for object in objects:
            self.ask(object)
        return not objects

    def lose(self, worker: Worker) -> list[Object]:
        """The worker is gone. Returns what went with it. `forget` notifies its waiters."""
        objects = self._shelf.live_at(worker.pid)
        for object in objects:
            object.lost = True
        return objects

    def forget(self, objects: list[Object]) -> None:
        """Notifies the waiters for objects which are lost."""
        for object in objects:
            if object in self._waiting:
                self._call(object, None)

    def _call(self, object: Object, problem: OSError | None) -> None:
        for then in self._waiting.pop(object):
            then(problem)
