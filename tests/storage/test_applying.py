"""The rules of epochs and names, without a database."""

from __future__ import annotations

from msgspec.structs import replace

from onceflow.storage.journal import (
    Claim,
    DeleteRun,
    Done,
    Fenced,
    Missing,
    Outcome,
    Request,
    SetStatus,
    Skipped,
    Taken,
)
from onceflow.storage.rules import Application, Rows
from tests.storage.common import append, create


def decide(rows: Rows, *batches: list[Request]) -> tuple[Application, list[Outcome]]:
    application = Application(rows, 5.0)
    outcomes = [application.apply(batch) for batch in batches]
    application.finish()
    return application, outcomes


def test_a_new_run_is_pending_in_epoch_one() -> None:
    rows = Rows()

    _, outcomes = decide(rows, [create("r", "monday")])

    row = rows.by_id["r"].row
    assert outcomes[0].ok
    assert (row.status, row.epoch, row.owner, row.created, row.updated) == ("pending", 1, None, 5.0, 5.0)
    assert rows.by_name["monday"].row is row


def test_a_name_belongs_to_the_first_run_that_takes_it_even_within_a_transaction() -> None:
    rows = Rows()

    _, outcomes = decide(rows, [create("a", "monday")], [create("b", "monday"), append("b", b"1")])

    assert outcomes[1] == Outcome((Taken(rows.by_id["a"].row), Skipped()), ok=False)
    assert "b" not in rows.by_id


def test_an_id_is_taken_as_well() -> None:
    rows = Rows()

    _, outcomes = decide(rows, [create("a")], [create("a")])

    assert outcomes[1].results == (Taken(rows.by_id["a"].row),)


def test_a_claim_grows_the_epoch_and_fences_the_one_before() -> None:
    rows = Rows()
    decide(rows, [create("r", owner="first")])

    _, outcomes = decide(rows, [Claim("r", "second", 1)], [append("r", b"late")], [SetStatus("r", 1, "failed")])

    row = rows.by_id["r"].row
    assert (row.epoch, row.owner, row.status) == (2, "second", "pending")
    assert [outcome.results for outcome in outcomes] == [(Done(),), (Fenced(row),), (Fenced(row),)]


def test_of_two_claims_the_first_wins() -> None:
    rows = Rows()
    decide(rows, [create("r")])

    _, outcomes = decide(rows, [Claim("r", "a", 1)], [Claim("r", "b", 1)])

    assert [outcome.ok for outcome in outcomes] == [True, False]
    assert rows.by_id["r"].row.owner == "a"


def test_a_claim_and_what_is_done_with_it_fit_in_one_batch() -> None:
    rows = Rows()
    decide(rows, [create("r")])

    _, outcomes = decide(rows, [Claim("r", "a", 1), SetStatus("r", 2, "running"), append("r", b"1", epoch=2)])

    assert outcomes[0].ok
    assert rows.by_id["r"].row.status == "running"
    assert rows.by_id["r"].entries == 1


def test_nothing_of_a_refused_batch_is_left() -> None:
    rows = Rows()
    decide(rows, [create("r")])

    application, outcomes = decide(
        rows, [append("r", b"1"), create("other"), Claim("r", "a", 1), append("r", b"2")], [append("r", b"3")]
    )

    row = rows.by_id["r"].row
    claimed = replace(row, owner="a", epoch=2)
    assert outcomes[0].results == (Skipped(), Skipped(), Skipped(), Fenced(claimed))
    assert outcomes[0].refusal == Fenced(claimed)
    assert row.epoch == 1
    assert [(place, entry.body) for _, place, entry, _ in application.changes.entries] == [(0, b"3")]
    assert "other" not in rows.by_id


def test_a_run_that_does_not_exist_is_missing() -> None:
    _, outcomes = decide(Rows(), [append("r", b"1")], [Claim("r", "a", 1)], [DeleteRun("r", 1)])

    assert [outcome.results for outcome in outcomes] == [(Missing(),)] * 3


def test_a_deleted_run_frees_its_name_within_the_same_batch() -> None:
    rows = Rows()
    decide(rows, [create("a", "monday"), append("a", b"1")])
    number = rows.by_id["a"].number

    application, outcomes = decide(rows, [append("a", b"2"), DeleteRun("a", 1), create("b", "monday")])

    assert outcomes[0].ok
    assert set(application.changes.deleted) == {number}
    assert application.changes.entries == []
    assert "a" not in rows.by_id
    assert rows.by_name["monday"].row.id == "b"


def test_a_run_made_and_deleted_in_one_transaction_leaves_nothing_to_write() -> None:
    rows = Rows()

    application, _ = decide(rows, [create("a", "monday"), append("a", b"1")], [DeleteRun("a", 1)])

    assert (application.changes.runs, application.changes.definitions, application.changes.entries) == ({}, {}, [])
    assert rows.by_id == rows.by_name == {}


def test_a_claimed_run_cannot_be_deleted_by_whoever_did_not_notice() -> None:
    rows = Rows()
    decide(rows, [create("r")], [Claim("r", "a", 1)])

    _, outcomes = decide(rows, [DeleteRun("r", 1)])

    assert outcomes[0].results == (Fenced(rows.by_id["r"].row),)


def test_only_what_is_not_known_is_looked_up() -> None:
    rows = Rows()
    decide(rows, [create("known")])

    needed = rows.needed([[append("known", b"1"), append("other", b"1")], [create("new", "monday")]])

    assert (needed.ids, needed.names) == ({"other", "new"}, {"monday"})
