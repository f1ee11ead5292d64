"""Joining a run that exists: take its result, wait for it, or go on with it.

    succeeded                               its result is read
    driven by this engine                   wait together with whoever waits already
    driven by another engine                listen to it, look again now and then, and tell how it ends there
    failed, cancelled, undone, paused       go on with it
    its engine is dead                      go on with it, once its workers are proved dead as well

Going on means: load the journal, let core say what to do, and drive that in the next epoch. The claim is part of the
driver's first batch, so nothing is decided twice: if somebody else was quicker, the batch is refused, nothing of it
happened, and we look again. Loading needs no claim, because a run without a driver does not change.

All of this happens in the thread of whoever asks.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Sequence

from onceflow.authoring import graph_storage
from onceflow.core.model import commands, events
from onceflow.core.model.graph import Graph
from onceflow.core.rules import loading
from onceflow.core.run import Run
from onceflow.driver import entries, fiber_cancellation
from onceflow.driver.driver import Driver
from onceflow.driver.fiber_failures import awaited_below, let_through
from onceflow.driver.history import History, load_values
from onceflow.driver.inputs import Key
from onceflow.driver.outputs import Outputs
from onceflow.engine import proof_of_death
from onceflow.engine.handles import Completion, Redirected
from onceflow.engine.inspect.journal_view import Reading
from onceflow.engine.peers.follow import Following
from onceflow.engine.polling import StoppedDriver, looks
from onceflow.engine.run_commands import cancel_without_code
from onceflow.engine.runtime.host import Adopted, Hub, Store, interrupted
from onceflow.engine.runtime.local_host import LocalHub
from onceflow.engine.runtime.parking import Waking
from onceflow.engine.statuses import ACTIVE, AT_REST, ENDED
from onceflow.engine.submission import Settings, Submission, decode_settings
from onceflow.errors import CodeMissing, InvalidOption, NoSuchRun, OnceflowError, StorageDamaged, StorageError
from onceflow.storage.journal import Claim, Loaded, RunRow, Short
from onceflow.storage.run_stores import Place
from onceflow.values import sealed_bytes

MOST_RUNS = 2**31

FEW_ENTRIES = 100
"""Entries that are kept while a run is loaded, so that they need not be read twice."""

logger = logging.getLogger(__name__)


class Attaching:
    def __init__(self, home: Place, hub: Hub, reading: Reading) -> None:
        self._home = home
        self._hub = hub
        self._reading = reading
        self._woken_before: list[Completion] = []
        """Those of `wake`, the last time that it was called."""

    def attach(
        self,
        run: str,
        completion: Completion,
        again: Submission | None = None,
        cancel: events.Cancel | None = None,
    ) -> None:
        """Returns as soon as the run is driven here, or has ended; `completion` then tells, or will tell, how it comes
        out. `again`, if given, is the same submission with the code as it is now. With `cancel`, a run that nobody
        drives is cancelled instead of going on."""
        with contextlib.closing(Following(self._home, completion)) as following:
            self._attach(run, completion, again, cancel, following)

    def _attach(
        self,
        run: str,
        completion: Completion,
        again: Submission | None,
        cancel: events.Cancel | None,
        following: Following,
    ) -> None:
        waited = False
        stopped = StoppedDriver(self._home)
        for _ in looks(following.rest):
            row = self._home.journal.get_run(run)
            if row is None:
                raise NoSuchRun(run)
            driven = self._hub.find(run)
            over = row.status in ENDED if cancel is not None else row.status == "succeeded"
            if over or (waited and row.status in AT_REST):
                following.finish()
                completion.end(self._reading.ending(row))
                return
            if driven is not None:
                driven.wait_until_accepted()
                if isinstance(driven.error, Redirected):  # another engine was quicker
                    continue
                completion.follow(driven)
                return
            if self.can_be_driven(row):
                self._wait_for_workers(row)
                if self._go_on(row, completion, again, cancel):
                    return
            elif not self._hub.is_busy_with(run):
                waited = True
                following.begin(row)
                stopped.look(row)

    def take(self, row: RunRow, completion: Completion) -> bool:
        """Goes on with a run that has not come to rest, if nobody drives it and nobody is quicker. Does not wait."""
        if not self.can_be_driven(row):
            return False
        self._wait_for_workers(row)
        return self._go_on(row, completion, None, None)

    def wait_for(self, run: str, completion: Completion) -> None:
        """Returns when the run has come to rest, whoever drives it; `completion` then tells how."""
        stopped = StoppedDriver(self._home)
        with contextlib.closing(Following(self._home, completion)) as following:
            for _ in looks(following.rest):
                row = self._home.journal.get_run(run)
                if row is None:
                    raise NoSuchRun(run)
                if row.status in AT_REST:
                    following.finish()
                    completion.end(self._reading.ending(row))
                    return
                driven = self._hub.find(run)
                if driven is not None:
                    driven.wait_until_accepted()
                    if not isinstance(driven.error, Redirected):
                        completion.follow(driven)
                        return
                elif not self.can_be_driven(row):
                    following.begin(row)
                    stopped.look(row)

    def _wait_for_workers(self, row: RunRow) -> None:
        if row.status not in AT_REST and row.owner is not None and row.owner != self._home.engine:
            proof_of_death.wait_for_workers(self._home.path, row.owner)

    def wake(self, hub: LocalHub, runs: Sequence[Waking]) -> None:
        """Goes on with runs that were parked by this hub, or has workers do that. The completion of each, if somebody
        waits, tells how it comes out. Does not wait until that is durable, but until the workers are not too far
        behind, and those are driven that were woken before: what only waits takes memory, and the garbage collector's
        time."""
        hub.wait_for_room()
        short = self._home.journal.load_short([run for run, _, _ in runs], FEW_ENTRIES - 1)
        delegated: list[Short] = []
        adopted: list[tuple[Callable[[Hub], Adopted], Completion]] = []
        for run, completion, here in runs:
            found = short.get(run)
            alone = completion is None and not here and found is not None and self._is_parked(found.run)
            if alone and found is not None and hub.may_delegate(found):
                delegated.append(found)
                continue
            try:
                one = self._wake(run, completion, found)
            except StorageError as error:
                hub.wake_later(Waking(run, completion, here), error)
                continue
            if one is None:
                hub.not_driven(run)
            else:
                adopted.append(one)
        if delegated:
            hub.delegate(delegated)
        if adopted:
            hub.adopt(*adopted)
        for driven in self._woken_before:
            driven.wait_until_accepted()
        self._woken_before = [driven for _, driven in adopted]

    def _is_parked(self, row: RunRow) -> bool:
        """Whether nobody else has driven meanwhile what was parked here."""
        return row.due is not None and row.owner == self._home.engine

    def _wake(
        self, run: str, completion: Completion | None, short: Short | None
    ) -> tuple[Callable[[Hub], Adopted], Completion] | None:
        """None if another thread has driven it meanwhile. Raises `StorageError` if it is worth another try."""
        row = self._home.journal.get_run(run) if short is None else short.run
        if row is None or not self._is_parked(row):
            if completion is not None:
                self._wait_aside(completion)
            return None
        try:
            make = self._load(row, None, None, short)
        except Exception as error:  # whatever it is, it concerns this run only
            if isinstance(error, StorageError) and not isinstance(error, StorageDamaged):
                raise
            told: OnceflowError = interrupted(run, f"{type(error).__name__}: {error}", error)
            if isinstance(error, OnceflowError):
                told = error
            if completion is None:
                logger.warning("run %s waits, and cannot be woken: %s", run, told)
            elif isinstance(told, Redirected):
                self._wait_aside(completion)
            else:
                completion.end(None, told)
            return None
        if completion is None:
            completion = self._hub.expect(row.id, row.name)
        else:
            completion.elsewhere = self._wait_aside
        return make, completion

    def _wait_aside(self, completion: Completion) -> None:
        """Somebody else has driven a run that was parked here: whoever waits for it waits for that."""

        def wait() -> None:
            try:
                self.wait_for(completion.run, completion)
            except OnceflowError as error:
                completion.end(None, error)

        threading.Thread(target=wait, name=f"onceflow wait {completion.run}", daemon=True).start()

    def adopt_parked(self, owner: str) -> None:
        """Runs that only wait, which a dead engine has left, are woken here from now on. They are not loaded: there may
        be very many."""
        rows = self._home.journal.owned(owner, sorted(ACTIVE), MOST_RUNS, parked=True)
        if rows:
            proof_of_death.wait_for_workers(self._home.path, owner)
            self._hub.adopt_parked(rows)

    def rests_here(self, row: RunRow) -> bool:
        """Whether it waits, and this engine drives it again when it is time."""
        return row.due is not None and self._hub.is_parked(row.id)

    def can_be_driven(self, row: RunRow) -> bool:
        """Whether nobody drives it."""
        if self._hub.is_busy_with(row.id):
            return False
        return (
            row.status in AT_REST
            or row.owner is None
            or row.owner == self._home.engine
            or not self._home.engines.is_alive(row.owner)
        )

    def _go_on(
        self, row: RunRow, completion: Completion, again: Submission | None, cancel: events.Cancel | None
    ) -> bool:
        """False if somebody else was quicker."""
        try:
            make = self._load(row, again, cancel)
        except Redirected:
            return False
        except OnceflowError as error:
            completion.end(None, error)
            return True
        driven = self._hub.expect(row.id, row.name, completion.feeds)

        def pass_on() -> None:
            if not isinstance(driven.error, Redirected):
                completion.end(driven.ending, driven.error)

        driven.when_done(pass_on)  # before it can be parked: then it is known that somebody depends on it
        self._hub.adopt((make, driven))
        driven.wait_until_accepted()
        return not isinstance(driven.error, Redirected)

    def _load(
        self, row: RunRow, again: Submission | None, cancel: events.Cancel | None, short: Short | None = None
    ) -> Callable[[Hub], Adopted]:
        journal, store = self._home.journal, Store(self._home, row.id)
        missing: CodeMissing | None = None
        with sealed_bytes.using(self._home.path), journal.load(row.id) if short is None else _opened(short) as loaded:
            if (loaded.run.epoch, loaded.run.status) != (row.epoch, row.status):  # somebody has driven it meanwhile
                raise Redirected
            try:
                stored = graph_storage.decode(loaded.graph, store.read, None if again is None else again.graph)
                graph: Graph = stored.graph
                changed = stored.changed
            except CodeMissing as error:
                if cancel is None:
                    raise
                missing = error
                graph, changed = graph_storage.decode_structure(loaded.graph), {}
            settings = decode_settings(loaded.settings)
            few = list(itertools.islice(loaded.entries, FEW_ENTRIES))
            past = History.read(itertools.chain(few, loaded.entries), store.read)
        if again is not None and again.settings.on_failure != settings.on_failure:
            raise InvalidOption(
                "on_failure",
                f"run {row.name} was started with {settings.on_failure!r}, which holds until its end, and is now asked "
                f"for with {again.settings.on_failure!r}",
                kind="setting",
            )
        if graphs := past.graphs():
            graph_storage.renew(loaded.graph, graphs)
        run = Run.load(
            graph,
            past.records,
            epoch=row.epoch + 1,
            on_failure=settings.on_failure,
            changed=changed,
            asleep=cancel is not None,
        )
        if cancel is not None and missing is None and fiber_cancellation.has_fibers(run):
            run = Run.load(graph, past.records, epoch=row.epoch + 1, on_failure=settings.on_failure, changed=changed)
            past.cancelling, cancel = cancel.undo, None
        run.has_place = _nowhere  # before there is a driver
        returned = [found for found in run.rows.values() if found.expander is not None]
        loading.note_changed(
            run, {found.id: found.node.call.version_now for found in returned if found.node.call.has_changed}
        )
        decided = run.begin()
        if cancel is not None:
            decided += run.handle(cancel)
            if missing is not None:
                decided = cancel_without_code.cancel(run, decided, missing)
        elif past.parked is not None:
            decided += run.handle(events.RetryUndo(past.parked))
        elif past.finished is not None:
            decided += run.handle(events.Resume(_tried_again(run, past, store)))
        if len(few) < FEW_ENTRIES:
            outputs, carried = load_values(few, run)
        else:
            with journal.load(row.id) as loaded:
                outputs, carried = load_values(loaded.entries, run)

        goes_on = (
            past.finished is None and past.parked is None
        )  # else somebody resumes it, and it has all its time again
        if not goes_on:
            past.since.clear()
            past.ended_fibers.clear()
        since: float | None = row.created if past.timed is None else past.timed
        if not goes_on or row.status == "pending" or (past.resumed and past.timed is None):
            since = None  # its time begins to run now
        return functools.partial(self._make, row, run, store, past, outputs, carried, short, decided, settings, since)

    def _make(
        self,
        row: RunRow,
        run: Run,
        store: Store,
        past: History,
        outputs: Outputs,
        carried: dict[str, dict[Key, bytes]],
        short: Short | None,
        decided: Sequence[commands.Command],
        settings: Settings,
        since: float | None,
        hub: Hub,
    ) -> Adopted:
        driver = Driver(
            row.id,
            run,
            hub,
            store,
            opening=[Claim(row.id, self._home.engine, row.epoch)],
            past=past,
            outputs=outputs,
            carried=carried,
            mail=() if short is None else short.mail,
            woken=short is not None,
            metadata=row.metadata,
            status=row.status,
        )
        driver.queue, driver.priority = settings.queue, settings.priority
        left = settings.timeout
        if left is not None and since is not None:
            left -= hub.now() - since
        elif left is not None:
            driver.note(entries.timed(hub.now()))
        return Adopted(driver, decided, settings.timeout, left)


def _tried_again(run: Run, past: History, store: Store) -> tuple[str, ...]:
    """Of a run that failed because fibers let through what others had raised: the outcomes of those, on which nothing
    else is built."""
    found: dict[str, None] = {}
    for node in past.failed:
        if node in past.supplied:  # somebody has given its result: nothing has to be tried for that
            continue
        row, failure = run.rows.get(node), past.failures.get(node)
        awaited = [] if row is None else awaited_below(row)
        if awaited and failure is not None:
            outcomes = store.values({one.outcome for one in awaited})
            known = [(one, outcomes[one.outcome]) for one in awaited]
            found |= dict.fromkeys([one.outcome[0] for one in let_through(failure, known, store.read)])
    return tuple([row.id for row in loading.droppable(run, found)])


def _nowhere(node: str) -> bool:
    return False


def _opened(short: Short) -> contextlib.AbstractContextManager[Loaded]:
    return contextlib.nullcontext(Loaded(short.run, short.graph, short.settings, iter(short.entries)))
