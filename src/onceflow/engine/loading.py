"""Loading a run that exists: reads the journal, rebuilds the state in core, and drives the run in the next epoch.

The claim is part of the driver's first batch, so nothing is decided twice: if another engine was quicker, the batch is
refused, and nothing of it happened. Loading needs no claim, because a run without a driver does not change. It happens
in the calling thread; only the driver is made in the loop's.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
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
from onceflow.engine.handles import Redirected
from onceflow.engine.run_commands import cancel_without_code
from onceflow.engine.runtime.facade import Loaded
from onceflow.engine.runtime.host import Host
from onceflow.engine.runtime.stores import Store
from onceflow.engine.submission import Settings, Submission, decode_settings
from onceflow.errors import CodeMissing, InvalidOption
from onceflow.storage.journal import Claim, RunRow, Short
from onceflow.storage.journal import Loaded as StoredRun
from onceflow.storage.run_stores import Place
from onceflow.values import sealed_bytes

FEW_ENTRIES = 100
"""Entries that are kept while a run is loaded, so that they need not be read twice."""


def load(
    home: Place,
    row: RunRow,
    again: Submission | None = None,
    cancel: events.Cancel | None = None,
    short: Short | None = None,
) -> Callable[[Host], Loaded]:
    """Returns what makes its driver, in the loop's thread. `again` is the same submission with the code as it is now;
    with `cancel`, the run is cancelled instead of going on; `short` is what the journal has of it, if that was read
    already. Raises `Redirected` if another engine has driven it meanwhile."""
    journal, store = home.journal, Store(home, row.id)
    missing: CodeMissing | None = None
    with sealed_bytes.using(home.path), journal.load(row.id) if short is None else _opened(short) as loaded:
        if (loaded.run.epoch, loaded.run.status) != (row.epoch, row.status):  # another engine has driven it meanwhile
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

    goes_on = past.finished is None and past.parked is None  # else it is being resumed, and it has all its time again
    if not goes_on:
        past.since.clear()
        past.ended_fibers.clear()
    since: float | None = row.created if past.timed is None else past.timed
    if not goes_on or row.status == "pending" or (past.resumed and past.timed is None):
        since = None  # its time begins to run now
    return functools.partial(
        _make, home.engine, row, run, store, past, outputs, carried, short, decided, settings, since
    )


def _make(
    engine: str,
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
    host: Host,
) -> Loaded:
    driver = Driver(
        row.id,
        run,
        host,
        store,
        opening=[Claim(row.id, engine, row.epoch)],
        past=past,
        outputs=outputs,
        carried=carried,
        mail=() if short is None else short.mail,
        woken=short is not None,
        metadata=row.metadata,
        status=row.status,
        queue=settings.queue,
        priority=settings.priority,
    )
    left = settings.timeout
    if left is not None and since is not None:
        left -= host.now() - since
    elif left is not None:
        driver.note(entries.timed(host.now()))
    return Loaded(driver, decided, settings.timeout, left)


def _tried_again(run: Run, past: History, store: Store) -> tuple[str, ...]:
    """Of a run that failed because fibers let through what others had raised: the outcomes of those, on which nothing
    else is built."""
    found: dict[str, None] = {}
    for node in past.failed:
        if node in past.supplied:  # a user has given its result: nothing has to be tried for that
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


def _opened(short: Short) -> contextlib.AbstractContextManager[StoredRun]:
    return contextlib.nullcontext(StoredRun(short.run, short.graph, short.settings, iter(short.entries)))
