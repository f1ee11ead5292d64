"""Records as entries of the journal, and back."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.authoring.graph_builder import build_graph
from onceflow.core.model import records
from onceflow.core.model.refs import RefPart
from onceflow.driver import entries
from onceflow.driver.inputs import DESCRIPTION
from onceflow.storage.journal import Entry
from tests.driver.common import effect

names = st.text(min_size=1, max_size=5)
attempts = st.integers(1 << 32, 1 << 62)
keys = st.tuples(names, st.integers(0, 70))

plain = st.one_of(
    st.builds(records.Expanded, names),
    st.builds(records.Handled, names),
    st.builds(records.Trusted, names, st.text(max_size=5)),
    st.builds(records.Abandoned, names, attempts, st.text(max_size=5)),
    st.builds(records.Done, names),
    st.builds(records.Recovering, st.lists(names).map(tuple)),
    st.builds(records.Undone, names),
    st.builds(records.Dropped, st.lists(names).map(tuple)),
    st.builds(records.Parked, names),
    st.builds(records.Withdrawn, names),
    st.builds(records.Cancelled, st.booleans()),
    st.builds(records.Limited, names, st.integers(1, 1 << 40)),
    st.builds(records.Resumed),
)


def unreadable(reference: str) -> bytes:
    raise AssertionError("nothing to read")


@given(plain)
def test_a_record_without_a_value_comes_back(record):
    assert entries.record_of(entries.plain(record), unreadable) == record


def test_every_record_without_a_value_is_among_those():
    kinds = {records.Begun, records.Saved, records.Wrote, records.Failed, records.Again, records.Finished}
    made = {type(record) for record in (records.Expanded("n"), records.Done("n"), records.Resumed())}
    made |= {records.Recovering, records.Undone, records.Dropped, records.Parked, records.Cancelled, records.Limited}
    made |= {records.Handled, records.Trusted, records.Abandoned, records.Withdrawn}
    assert set(records.Record.__args__) == kinds | made


@given(names, attempts, st.lists(st.tuples(keys, st.binary()), unique_by=lambda item: item[0]))
def test_a_begun_record_comes_back_with_what_it_carries(node, attempt, carried):
    record = records.Begun(node, attempt, tuple(key for key, _ in carried))
    values = {**dict(carried), ("parent", DESCRIPTION): b"which refs are in it"}
    entry = entries.begun(record, values)
    assert entries.record_of(entry, unreadable) == record
    assert entries.carried(entry) == values


@given(names, attempts, attempts)
def test_an_entry_can_be_about_another_attempt(node, before, now):
    made = {
        records.Saved(node, 3, before): lambda record: entries.saved(record, b"", None),
        records.Wrote(node, before): lambda record: entries.wrote(record, {}),
        records.Abandoned(node, before, "e"): entries.plain,
    }
    for record, entry_of in made.items():
        entry = entry_of(record)
        assert entries.attempt_of(entry) == before
        moved = entries.with_attempt(entry, now)
        assert entries.record_of(moved, unreadable) == msgspec.structs.replace(record, attempt=now)


@given(names, st.integers(1, 99), st.binary())
def test_a_graph_that_is_tried_again_comes_back(node, failures, failure):
    record = records.Again(node, failures)
    assert entries.record_of(entries.again(record, failure, 1.0, (0.0, 0.0)), unreadable) == record


@given(names, st.integers(0, 70), attempts, st.binary())
def test_a_saved_record_comes_back_with_its_value(node, part, attempt, value):
    record = records.Saved(node, part, attempt)
    entry = entries.saved(record, value, None)
    assert entries.record_of(entry, unreadable) == record
    assert entries.value_of(entry, unreadable) == value
    assert entries.saved_part(entry) == (part, attempt)


refs = st.lists(st.builds(RefPart, st.integers(0, 1 << 90), st.none() | keys), max_size=4).map(tuple)


@given(refs, st.none() | st.text(max_size=5))
def test_a_saved_record_comes_back_with_the_refs_in_the_output(refs, annotations):
    record = records.Saved("n", 1, 7, None, refs)
    entry = entries.saved(record, b"", None, annotations)
    assert entries.record_of(entry, unreadable) == record
    assert entries.saved_part(entry) == (1, 7)
    assert entries.annotations_of(entry) == annotations


@pytest.mark.parametrize("body", [(1, 7, False), (1, 7, False, "told")])
def test_a_saved_entry_of_a_time_without_refs_has_none(body):
    entry = Entry("saved", "n", msgspec.msgpack.encode(body), b"", None)
    assert entries.record_of(entry, unreadable) == records.Saved("n", 1, 7)


@pytest.mark.parametrize("refs", [(), (RefPart(1),)])
def test_what_a_task_has_joined_stands_in_its_entry(refs):
    record = records.Saved("n", 1, 7, None, refs, ("a/child-1", "b/child-2"))
    assert entries.record_of(entries.saved(record, b"value", None), unreadable) == record


@given(names, st.integers(1, 9), st.booleans(), st.none() | st.binary())
def test_a_failed_record_comes_back(node, failures, final, failure):
    record = records.Failed(node, failures, final)
    entry = entries.failed(record, failure, 1234.5)
    assert entries.record_of(entry, unreadable) == record
    assert entry.value == failure
    assert entries.due(entry) == 1234.5


@pytest.mark.parametrize("inline", [True, False])
def test_a_graph_that_was_saved_comes_back_from_the_value(inline):
    graph = build_graph(effect.bind(1))
    value = pickle.dumps(graph)
    record = records.Saved("n", 0, 7, graph)
    entry = entries.saved(record, value if inline else None, None if inline else "blob")
    found = entries.record_of(entry, {"blob": value}.__getitem__)
    assert isinstance(found, records.Saved)
    assert found.graph.digest == graph.digest


@given(st.sampled_from(["succeeded", "failed", "undone", "cancelled"]), st.lists(names), st.lists(names))
def test_a_finished_record_comes_back_with_what_was_left_behind(status, kept, uncertain):
    record = records.Finished(status)
    entry = entries.finished(record, kept, uncertain)
    assert entries.record_of(entry, unreadable) == record
    assert entries.left_behind(entry) == (tuple(kept), tuple(uncertain))


def test_a_buffer_is_no_record():
    entry = entries.buffer("blob")
    assert isinstance(entry, Entry)
    assert entry.blob == "blob"
    assert entries.record_of(entry, unreadable) is None
