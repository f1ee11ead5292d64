"""Mailboxes of runs, in each kind of journal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceflow.storage.journal import NEVER, Claim, Fenced, Journal, MarkEvents, SendEvent, SetStatus, commit
from tests.storage.common import Opening, append, create


def send(journal: Journal, key: str, id: str, payload: bytes = b"") -> None:
    assert commit(journal, [SendEvent("r", key, id, payload)]).ok


def keys(journal: Journal, *wanted: str) -> list[tuple[str, bytes]]:
    return [(event.key, event.payload) for key in wanted for event in journal.mailbox("r", key)]


@pytest.fixture
def mailbox(opening: Opening) -> Iterator[Journal]:
    journal = opening()
    assert commit(journal, [create("r"), Claim("r", "me", 1)]).ok
    yield journal
    journal.close()


def test_events_are_found_in_the_order_in_which_they_were_sent_once_for_each_id(mailbox: Journal) -> None:
    send(mailbox, "paid", "1", b"a")
    send(mailbox, "shipped", "2", b"b")
    send(mailbox, "paid", "3", b"c")
    send(mailbox, "paid", "1", b"again")
    assert keys(mailbox, "paid", "shipped") == [("paid", b"a"), ("paid", b"c"), ("shipped", b"b")]
    *_, newest = sorted(event.number for key in ("paid", "shipped") for event in mailbox.mailbox("r", key))
    assert mailbox.runs_with_mail("me") == {"r": newest}
    assert mailbox.runs_with_mail("you") == {}


def test_what_is_taken_is_not_there_and_comes_back_to_its_place(mailbox: Journal) -> None:
    send(mailbox, "paid", "1", b"a")
    send(mailbox, "paid", "2", b"b")
    first, second = [event.number for event in mailbox.mailbox("r", "paid")]
    assert commit(mailbox, [MarkEvents("r", 2, taken=(first, second))]).ok
    assert keys(mailbox, "paid") == []
    assert mailbox.runs_with_mail("me") == {}
    assert commit(mailbox, [MarkEvents("r", 2, returned=(first,))]).ok
    assert keys(mailbox, "paid") == [("paid", b"a")]


def test_what_has_come_since_is_found(mailbox: Journal) -> None:
    send(mailbox, "paid", "1")
    seen = mailbox.runs_with_mail("me")["r"]
    send(mailbox, "paid", "2")
    assert mailbox.runs_with_mail("me", seen)["r"] > seen


def test_short_runs_are_loaded_with_their_mail_and_long_ones_are_left_out(mailbox: Journal) -> None:
    assert commit(mailbox, [create("long"), create("short")]).ok
    assert commit(mailbox, [append("long", b"a", b"b", b"c"), append("short", b"a", b"b")]).ok
    send(mailbox, "paid", "1", b"x")
    send(mailbox, "paid", "2", b"y")
    first = mailbox.mailbox("r", "paid")[0].number
    assert commit(mailbox, [MarkEvents("r", 2, taken=(first,))]).ok
    found = mailbox.load_short(["r", "long", "short", "none"], 2)
    assert set(found) == {"r", "short"}
    assert [event.payload for event in found["r"].mail] == [b"y"]
    for run, short in found.items():
        with mailbox.load(run) as loaded:
            assert (short.run, short.graph, short.settings) == (loaded.run, loaded.graph, loaded.settings)
            assert short.entries == list(loaded.entries)
    assert [entry.body for entry in found["short"].entries] == [b"a", b"b"]


def test_many_runs_are_found_by_id_or_name_and_an_id_comes_first(mailbox: Journal) -> None:
    assert commit(mailbox, [create("one", "first"), create("two", "one"), create("three")]).ok
    found = mailbox.find_runs(["one", "first", "three", "nobody"])
    assert {asked: row.id for asked, row in found.items()} == {"one": "one", "first": "one", "three": "three"}
    assert found["three"] == mailbox.get_run("three")
    assert mailbox.find_runs([]) == {}


def test_who_has_lost_a_run_cannot_take_its_events(mailbox: Journal) -> None:
    send(mailbox, "paid", "1")
    outcome = commit(mailbox, [MarkEvents("r", 1, taken=(1,))])
    assert isinstance(outcome.refusal, Fenced)
    assert keys(mailbox, "paid") == [("paid", b"")]


def test_a_run_that_waits_tells_when_it_is_due(mailbox: Journal) -> None:
    assert commit(mailbox, [SetStatus("r", 2, "waiting", 17.5)]).ok
    assert [row.due for row in mailbox.list_runs(statuses=["waiting"])] == [17.5]
    assert commit(mailbox, [SetStatus("r", 2, "waiting", NEVER)]).ok
    assert commit(mailbox, [Claim("r", "you", 2)]).ok
    found = mailbox.get_run("r")
    assert found is not None
    assert found.due == NEVER
    assert commit(mailbox, [SetStatus("r", 3, "running")]).ok
    found = mailbox.get_run("r")
    assert found is not None
    assert found.due is None
