"""Large values on their way between this process and Ray's store, and actors that are found or started there.

All of that may take long, so a few threads do it. What they find is reported in the engine's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from onceflow.backends.local.actors import messages
from onceflow.backends.ray.store import LOST, Store
from onceflow.data.objects import Object
from onceflow.data.places import Live, Missing, Place

if TYPE_CHECKING:
    from onceflow.backends.local.live_publishing import Then
    from onceflow.backends.ray.inbox import Inbox
    from onceflow.backends.ray.stored_objects import RayShelf

THREADS = 4


class Carriers:
    """`store` is there when the cluster is; nothing is asked before. `lost` is called with what Ray has lost."""

    def __init__(
        self, inbox: Inbox, shelf: RayShelf, store: Callable[[], Store | None], lost: Callable[[list[Object]], None]
    ) -> None:
        self._inbox = inbox
        self._shelf = shelf
        self._store = store
        self._lost = lost
        self._publishing: dict[Object, list[Then]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "onceflow carrier")

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def object_at(self, place: Place) -> Object:
        found = self._shelf.find(place.segment, place.offset)
        assert found is not None
        return found

    def lend(self, objects: set[Object], then: Callable[[BaseException | None], None]) -> None:
        """Brings these into Ray's store, then calls `then`, perhaps with what went wrong."""
        left = set(objects)

        def lent(object: Object, live: Live | BaseException) -> None:
            if isinstance(live, Live):
                self._shelf.lend(object, live)
                left.discard(object)
                if not left:
                    then(None)
            else:
                then(live)

        def put(object: Object, store: Store) -> None:
            try:
                live: Live | BaseException = store.put_bytes(object.map())
            except Exception as error:
                live = error
            self._inbox.post(lambda: lent(object, live))

        for object in objects:
            self._carry(partial(put, object))

    def publish(self, object: Object, then: Then) -> None:
        """Brings what is in Ray's store into memory here."""
        waiting = self._publishing.setdefault(object, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._carry(lambda store: self._fetch(store, object))

    def _fetch(self, store: Store, object: Object) -> None:
        assert object.live is not None
        problem: OSError | None = None
        descriptor: int | None = None
        try:
            descriptor = messages.written(store.read(object.live))
        except Missing:
            pass
        except OSError as error:
            problem = error
        self._inbox.post(lambda: self._fetched(object, descriptor, problem))

    def _fetched(self, object: Object, descriptor: int | None, problem: OSError | None) -> None:
        if descriptor is not None:
            self._shelf.settle_in(object, descriptor)
        elif problem is None:
            self._lost([object])
        for then in self._publishing.pop(object):
            then(problem)

    def bring(
        self, content: bytes | Place | Live, held: object, then: Callable[[Store, bytes | Live, object], None]
    ) -> None:
        """Has `then` called in another thread, when the content is in Ray's store, with it and with what has to be held
        for that."""
        object = self.object_at(content) if isinstance(content, Place) else held

        def bring(store: Store) -> None:
            if isinstance(content, Place):
                assert isinstance(object, Object)
                if object.live is None:
                    live = store.put_bytes(object.map())
                    self._inbox.post(lambda: self._shelf.lend(object, live))
                    then(store, live, object)
                else:
                    then(store, object.live, object)
            else:
                then(store, content, object)

        self._carry(bring)

    def watch(self, actor: str, ended: Callable[[], None]) -> None:
        """Has `ended` called when an actor is gone."""

        def watch(store: Store) -> None:
            try:
                found = store.find_actor(actor)
            except (*LOST, LookupError):
                found = None
            if found is None:
                self._inbox.post(ended)
            else:
                found.watch.remote().future().add_done_callback(lambda _: self._inbox.post(ended))

        self._carry(watch)

    def _carry(self, what: Callable[[Store], None]) -> None:
        def carry() -> None:
            store = self._store()
            assert store is not None
            what(store)

        self._threads.submit(carry)
