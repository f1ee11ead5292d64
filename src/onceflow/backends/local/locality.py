"""Locality: where jobs that read live objects run.

A job whose input is in the memory of a worker runs there, if it can start there sooner than the input could be
published: it is *at home*. Otherwise what it reads is published, and it goes wherever there is room. So does one that
does not get on at home: when it is given back, or when other jobs have waited long enough while some stayed at home.

A job that shares a worker, or that says what it needs, has no home. Nor has any while such needs are weighed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.live_publishing import Publishing
from onceflow.backends.local.messages import Job, RefIn
from onceflow.backends.local.workers import Worker
from onceflow.data.objects import Object
from onceflow.data.places import Live, Place

STAY = True
"""Whether jobs stay at home at all. (Benchmarks look at what it costs if they do not.)"""

LATENCY = 0.0005
"""Seconds that it takes to ask for something to be published, and to hear of it."""

SPEED = 3e9
"""Bytes per second at which it is written, about."""

MOST = 8
"""Jobs in a row that stay at home with one worker although others wait for a worker."""


class Reader:
    """A job that reads live objects, or did when it was started."""

    __slots__ = ("inputs", "job", "missing", "returned")

    def __init__(self, job: Job, inputs: Mapping[int, Object]) -> None:
        self.job = job
        self.inputs = inputs
        """Number of what was live → object."""
        self.missing = 0
        """Objects that are being published for it."""
        self.returned = False
        """Whether a worker had it and gave it back."""

    @property
    def live(self) -> list[Object]:
        return [object for object in self.inputs.values() if object.place is None]

    def point(self) -> None:
        """Has the job say of what was published where it is."""
        job = self.job
        job.inputs = [self._where(part) for part in job.inputs]
        if job.refs:
            job.refs = [RefIn(ref.id, self._where(ref.content), ref.inner, ref.actor) for ref in job.refs]

    def _where(self, part: bytes | Place | Live) -> bytes | Place | Live:
        return self.inputs[part.number].where if isinstance(part, Live) else part


class Homes:
    """`fail` is called for a job whose input cannot be published, and `end` for one whose input is lost."""

    def __init__(
        self,
        publishing: Publishing,
        dispatcher: Dispatcher,
        workers: Mapping[int, Worker],
        *,
        fail: Callable[[Job, OSError], None],
        end: Callable[[Job], None],
    ) -> None:
        self._publishing = publishing
        self._dispatcher = dispatcher
        self._workers = workers
        self._fail = fail
        self._end = end
        self.readers: dict[int, Reader] = {}
        """Token → reader, until it is queued like any other, or reported."""
        self.staying: dict[int, Worker] = {}
        """Token → the worker that the job is to be given to, with the next turn."""
        self._stayed: Counter[int] = Counter()
        """Process id → jobs in a row that stayed with this worker while others waited."""

    def __len__(self) -> int:
        """Jobs that no worker has."""
        return sum(reader.missing > 0 for reader in self.readers.values()) + len(self.staying)

    def add(self, job: Job, inputs: Mapping[int, Object]) -> None:
        """A job some inputs of which are live."""
        reader = self.readers[job.token] = Reader(job, inputs)
        self._decide(reader)

    def remove(self, token: int) -> bool:
        """Whether the job was here, and with no worker."""
        reader = self.readers.get(token)
        if reader is None or not (reader.missing or token in self.staying):
            return False
        self.forget(token)
        return True

    def forget(self, token: int) -> None:
        """The job is about to be reported, or is gone."""
        self.readers.pop(token, None)
        self.staying.pop(token, None)

    def take_back(self, token: int) -> bool:
        """The job was given to its home, and given back. False if it never had one."""
        reader = self.readers.get(token)
        if reader is None:
            return False
        reader.returned = True
        self._decide(reader)
        return True

    def give(self, now: float) -> None:
        """Gives those that stay to their workers."""
        for token, worker in list(self.staying.items()):
            if worker.killed:
                continue  # its end is about to be proved
            if not worker.open:
                self._leave(token)
            else:
                job = self.readers[token].job
                try:
                    if self._dispatcher.give_at_once(worker, job, now):
                        del self.staying[token]
                except OSError as problem:  # there is no room for what it is to be sent
                    del self.staying[token]
                    self.forget(token)
                    self._fail(job, problem)

    def close(self, worker: Worker) -> None:
        """The worker is gone: no job can stay there."""
        for token in [token for token, home in self.staying.items() if home is worker]:
            self._leave(token)

    def _leave(self, token: int) -> None:
        del self.staying[token]
        self._decide(self.readers[token])

    def _decide(self, reader: Reader) -> None:
        live = reader.live
        if any(object.lost for object in live):
            self.forget(reader.job.token)
            self._end(reader.job)
            return
        home = self._home_of(reader, live) if live else None
        for object in live:
            if home is None or object.maker != home.pid:
                reader.missing += 1
                self._publishing.ask(object, lambda problem: self._published(reader, problem))
        if not reader.missing:
            self._settle(reader, home)

    def _settle(self, reader: Reader, home: Worker | None) -> None:
        """All that it reads is published, or at home."""
        job = reader.job
        reader.point()
        if home is not None:
            self.staying[job.token] = home
            return
        del self.readers[job.token]
        if reader.returned:
            self._dispatcher.put_back(job)
        else:
            self._dispatcher.add(job)

    def _home_of(self, reader: Reader, live: list[Object]) -> Worker | None:
        job, dispatcher = reader.job, self._dispatcher
        if not STAY or reader.returned or job.shares or job.needy or dispatcher.weighs:
            return None
        sizes = Counter[int]()
        for object in live:
            sizes[object.maker] += object.size
        pid, size = max(sizes.items(), key=lambda item: item[1])
        worker = self._workers.get(pid)
        if worker is None or not worker.open:
            return None
        ahead = [self.readers[token].job for token, other in self.staying.items() if other is worker]
        waits = worker.load.seconds + sum([dispatcher.estimates.expected(other.function) for other in ahead])
        if (worker.queue or ahead) and waits > LATENCY + size / SPEED:
            return None
        return worker if self._may_pass(worker) else None

    def _may_pass(self, worker: Worker) -> bool:
        """Whether one more job may stay there, and so pass those that wait."""
        pid, served = worker.pid, self._dispatcher.served
        if not len(self._dispatcher) or pid in served:
            served.discard(pid)
            self._stayed.pop(pid, None)
        self._stayed[pid] += bool(len(self._dispatcher))
        return self._stayed[pid] <= MOST

    def _published(self, reader: Reader, problem: OSError | None) -> None:
        if self.readers.get(reader.job.token) is not reader:
            return  # it was stopped meanwhile
        if problem is not None:
            self.forget(reader.job.token)
            self._fail(reader.job, problem)
            return
        reader.missing -= 1
        if not reader.missing:
            self._decide(reader)
