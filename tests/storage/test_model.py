"""The journal against the simplest model of it: any batches, in any groups, through two connections."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceflow.storage.journal import (
    AppendEntries,
    Claim,
    CreateRun,
    DeleteQueue,
    DeleteRun,
    DeleteSchedule,
    DeleteStanding,
    Done,
    Fenced,
    Journal,
    Missing,
    Outcome,
    Outdated,
    Request,
    SetStatus,
    Skipped,
    Taken,
    WriteQueue,
    WriteSchedule,
    WriteStanding,
)
from onceflow.storage.memory import MemoryJournal
from onceflow.storage.postgres.journal import PostgresJournal
from onceflow.storage.statements import STANDING
from tests.storage.common import append, bodies, commit_all, create, quick

IDS = st.sampled_from(["a", "b", "c"])
EPOCHS = st.sampled_from([1, 1, 1, 2, 2, 3])
REQUESTS = st.one_of(
    st.builds(create, IDS, st.sampled_from([None, "x", "y"])),
    st.builds(lambda run, epoch, body: append(run, body, body, epoch=epoch), IDS, EPOCHS, st.binary(max_size=3)),
    st.builds(SetStatus, IDS, EPOCHS, st.sampled_from(["running", "failed"])),
    st.builds(Claim, IDS, st.sampled_from(["me", "you"]), EPOCHS),
    st.builds(DeleteRun, IDS, EPOCHS),
    *[
        st.builds(
            write,
            st.just("the row"),
            st.integers(0, 3),
            st.binary(max_size=3),
            st.sampled_from([None, 1.5]),
            st.sampled_from([None, b"every second", b"every hour"]),
        )
        for write in (WriteSchedule, WriteQueue)
    ],
    *[st.builds(delete, st.just("the row"), st.integers(0, 3)) for delete in (DeleteSchedule, DeleteQueue)],
)
GROUPS = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.lists(REQUESTS, max_size=3), min_size=1, max_size=5)), max_size=8
)
"""Which connection, and the batches that are submitted to it at once."""

Runs = dict[str, dict[str, object]]


def carry_out(runs: Runs, request: Request) -> type:
    if isinstance(request, (WriteStanding, DeleteStanding)):
        return change_standing(runs, request)
    if isinstance(request, CreateRun):
        names = [run["name"] for run in runs.values() if run.get("name") is not None]
        if request.id in runs or request.name in names:
            return Taken
        runs[request.id] = {"name": request.name, "epoch": 1, "owner": None, "status": "pending", "bodies": []}
        return Done
    run = runs.get(request.run)
    if run is None:
        return Missing
    if run["epoch"] != (request.epoch if isinstance(request, (AppendEntries, SetStatus)) else request.expected_epoch):
        return Fenced
    match request:
        case AppendEntries():
            run["bodies"] += [entry.body for entry in request.entries]  # type: ignore[operator]
        case SetStatus():
            run["status"] = request.status
        case Claim():
            run |= {"epoch": request.expected_epoch + 1, "owner": request.owner}
        case DeleteRun():
            del runs[request.run]
    return Done


def change_standing(runs: Runs, request: WriteStanding | DeleteStanding) -> type:
    """It stands among the runs, none of which has an id like that."""
    found = runs.pop(f"the {request.table}", None)
    version = 0 if found is None else found["version"]
    if isinstance(request, DeleteStanding) and version == request.expected != 0:
        return Done
    if isinstance(request, WriteStanding) and version == request.expected:
        definition = request.definition if found is None else request.definition or found["definition"]
        if definition is not None:
            runs[f"the {request.table}"] = {
                "version": request.expected + 1,
                "due": request.due,
                "state": request.state,
                "definition": definition,
            }
            return Done
    return Outdated


def expect(runs: Runs, batch: list[Request]) -> tuple[Runs, list[type]]:
    draft = deepcopy(runs)
    kinds: list[type] = []
    for request in batch:
        kind = carry_out(draft, request)
        if kind is not Done:
            refused: list[type] = [Skipped] * len(batch)
            refused[len(kinds)] = kind
            return runs, refused
        kinds.append(kind)
    return draft, kinds


@given(GROUPS)
@settings(max_examples=30)
def test_any_batches_do_what_the_model_says(groups: list[tuple[int, list[list[Request]]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compare([quick(Path(folder)), quick(Path(folder))], groups)


@given(GROUPS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batches_do_the_same_in_postgres(postgres_url: str, groups: list[tuple[int, list[list[Request]]]]) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS onceflow CASCADE")

    compare([PostgresJournal(postgres_url), PostgresJournal(postgres_url)], groups)


def compare(stores: Sequence[Journal], groups: list[tuple[int, list[list[Request]]]]) -> None:
    runs: Runs = {}
    for index, batches in groups:
        outcomes: list[Outcome] = commit_all(stores[index], batches)
        for batch, outcome in zip(batches, outcomes, strict=True):
            runs, kinds = expect(runs, batch)
            assert [type(result) for result in outcome.results] == kinds

    for store in stores:
        assert content(store) == runs
        store.close()


@given(GROUPS)
@settings(max_examples=100)
def test_a_journal_in_memory_does_what_the_model_says(groups: list[tuple[int, list[list[Request]]]]) -> None:
    runs: Runs = {}
    store = MemoryJournal()
    for _, batches in groups:
        for batch, outcome in zip(batches, commit_all(store, batches), strict=True):
            runs, kinds = expect(runs, batch)
            assert [type(result) for result in outcome.results] == kinds
    assert content(store) == runs


def content(store: Journal) -> Runs:
    standing: Runs = {
        f"the {table}": {
            "version": row.version,
            "due": row.due,
            "state": row.state,
            "definition": row.definition,
        }
        for table in STANDING
        for row in store.list_standing(table)
    }
    return standing | {
        row.id: {
            "name": row.name,
            "epoch": row.epoch,
            "owner": row.owner,
            "status": row.status,
            "bodies": bodies(store, row.id),
        }
        for row in store.list_runs()
    }
