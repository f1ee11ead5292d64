"""What every journal does, whatever it is kept in: what is written is what is read.

`opening` opens a journal of each kind; `lasting` only those that outlive the process, may be opened more than once, and
have a thread of their own.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onceflow.errors import NoSuchRun, StorageClosed, StorageError
from onceflow.storage.journal import (
    MISSING,
    AppendEntries,
    Claim,
    DeleteRun,
    Entry,
    Failed,
    Fenced,
    ForgetCommands,
    SendCommand,
    SetStatus,
    Taken,
)
from tests.storage.common import Opening, append, bodies, commit, commit_all, create


def test_a_run_is_loaded_as_it_was_written(opening: Opening) -> None:
    store = opening()
    entries = [
        Entry("begun", "a", b"1"),
        Entry("saved", "a/b~2", b"", b"value"),
        Entry("saved", "c", b"2", None, "r/1.me.3-352441c2.c"),
    ]

    assert commit(store, create("r", "monday", owner="me"), AppendEntries("r", 1, entries)).ok
    assert commit(store, append("r", b"later")).ok

    with store.load("r") as loaded:
        assert (loaded.graph, loaded.settings) == (b"graph", b"settings")
        assert list(loaded.entries) == [*entries, Entry("saved", "node", b"later")]
        assert loaded.run == store.get_run("r")
    assert loaded.run.owner == "me"
    assert store.find_name("monday") == loaded.run
    store.close()


def test_everything_is_there_after_closing_and_lasting(lasting: Opening) -> None:
    with_times = iter([10.25, 20.5])
    store = lasting(clock=lambda: next(with_times))
    commit(store, create("r", "monday"))
    commit(store, Claim("r", "me", 1), SetStatus("r", 2, "running"), append("r", b"1", epoch=2))
    store.close()

    store = lasting()
    row = store.get_run("r")

    assert row is not None
    assert (row.epoch, row.owner, row.status, row.created, row.updated) == (2, "me", "running", 10.25, 20.5)
    assert commit(store, append("r", b"2", epoch=2)).ok
    assert bodies(store, "r") == [b"1", b"2"]
    store.close()


@pytest.mark.parametrize("known_by", ["r", "name"])
def test_a_run_that_is_created_just_after_it_was_looked_for_is_no_damage(opening: Opening, known_by: str) -> None:
    store = opening()
    assert store.find_runs([known_by]) == {}
    commit(store, create("r", "name"))

    store.check_absence(known_by)
    store.close()


def test_batches_submitted_together_share_commits_and_are_answered_in_order(lasting: Opening) -> None:
    store = lasting()
    commit(store, create("r"))
    hold, held = threading.Event(), threading.Event()
    store.submit([append("r", b"first")], lambda _: (held.set(), hold.wait()))  # the writer is busy answering
    held.wait()
    order: list[int] = []
    before = store.statistics()

    for number in range(1_500):
        store.submit([append("r", b"%d" % number)], lambda _, number=number: order.append(number))  # type: ignore[misc]
    hold.set()
    commit(store, append("r", b"last"))

    after = store.statistics()
    assert order == list(range(1_500))
    assert bodies(store, "r") == [b"first", *(b"%d" % number for number in range(1_500)), b"last"]
    assert after.commits - before.commits <= 3
    assert after.entries - before.entries == 1_501
    assert after.batches_per_commit > 100
    store.close()


def test_a_refused_batch_does_not_disturb_its_neighbours(opening: Opening) -> None:
    store = opening()
    commit(store, create("r", "monday"))

    outcomes = commit_all(
        store,
        [
            [append("r", b"1")],
            [append("r", b"lost"), append("r", b"fenced", epoch=7)],
            [create("other", "monday")],
            [append("r", b"2")],
        ],
    )

    row = store.get_run("r")
    assert row is not None
    assert [outcome.ok for outcome in outcomes] == [True, False, False, True]
    assert outcomes[1].refusal == Fenced(row)
    assert outcomes[2].refusal == Taken(row)
    assert bodies(store, "r") == [b"1", b"2"]
    assert store.get_run("other") is None
    store.close()


def test_a_claim_through_another_connection_fences_at_once(lasting: Opening) -> None:
    first, second = lasting(), lasting()
    commit(first, create("r", owner="first"), append("r", b"1"))

    assert commit(second, Claim("r", "second", 1)).ok
    refused = commit(first, append("r", b"late"))
    assert commit(second, append("r", b"2", epoch=2)).ok

    assert refused.refusal == Fenced(second.get_run("r"))  # type: ignore[arg-type]
    assert bodies(first, "r") == [b"1", b"2"]
    first.close()
    second.close()


def test_places_go_on_where_another_writer_of_the_run_ended(lasting: Opening) -> None:
    first, second = lasting(), lasting()
    commit(first, create("r"), append("r", b"1"))
    commit(second, append("r", b"2"))
    commit(first, append("r", b"3"))

    assert bodies(second, "r") == [b"1", b"2", b"3"]
    first.close()
    second.close()


def test_a_deleted_run_leaves_nothing_and_its_name_is_free(opening: Opening) -> None:
    store = opening()
    commit(store, create("a", "monday"), append("a", b"1", b"2"))
    commit(store, create("b"), append("b", b"3"))

    assert commit(store, DeleteRun("a", 1)).ok
    assert commit(store, create("c", "monday"), append("c", b"4")).ok

    assert store.get_run("a") is None
    with pytest.raises(NoSuchRun), store.load("a"):
        pass
    assert bodies(store, "b") == [b"3"]
    assert bodies(store, "c") == [b"4"]
    store.close()


def test_a_run_is_read_as_of_one_moment_while_others_write(opening: Opening) -> None:
    store = opening()
    commit(store, create("r"), append("r", *(b"%d" % number for number in range(1_000))))

    with store.load("r") as loaded:
        first = next(loaded.entries)
        commit(store, append("r", b"later"), SetStatus("r", 1, "failed"))
        rest = list(loaded.entries)

    assert first.body == b"0"
    assert len(rest) == 999
    assert loaded.run.status == "pending"
    assert len(bodies(store, "r")) == 1_001
    store.close()


def test_entries_cannot_be_read_after_their_moment_is_over(lasting: Opening) -> None:
    store = lasting()
    commit(store, create("r"), append("r", b"1"))

    with store.load("r") as loaded:
        pass

    with pytest.raises(StorageError):
        next(loaded.entries)
    store.close()


def test_an_error_of_the_reader_stays_what_it_is(opening: Opening) -> None:
    store = opening()
    commit(store, create("r"))

    with pytest.raises(FileNotFoundError), store.load("r"):
        raise FileNotFoundError

    assert store.get_run("r") is not None
    store.close()


def test_runs_are_listed_newest_first_by_status_name_and_workflow(opening: Opening) -> None:
    store = opening()
    for number in range(6):
        workflow = "trip" if number % 2 else "bill"
        commit(store, create(f"r{number}", f"day-{number}" if number else None, workflow=workflow))
    commit(store, SetStatus("r1", 1, "failed"))
    commit(store, SetStatus("r4", 1, "running"))

    def ids(**wanted: object) -> list[str]:
        return [row.id for row in store.list_runs(**wanted)]  # type: ignore[arg-type]

    assert ids() == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert ids(limit=2) == ["r5", "r4"]
    assert ids(statuses=["running", "failed"]) == ["r4", "r1"]
    assert ids(statuses=[]) == []
    assert ids(workflow="trip") == ["r5", "r3", "r1"]
    assert ids(name="day-") == ["r5", "r4", "r3", "r2", "r1"]
    assert ids(name="day-3", workflow="trip", statuses=["pending"]) == ["r3"]
    store.close()


def test_runs_are_listed_page_by_page_even_if_the_last_one_is_gone(opening: Opening) -> None:
    store = opening()
    commit(store, *[create(f"r{number}") for number in range(5)])

    def ids(before: str) -> list[str]:
        return [row.id for row in store.list_runs(before=before, limit=2)]

    assert ids("r3") == ["r2", "r1"]
    assert ids("r1") == ["r0"]
    assert ids("r0") == []
    commit(store, DeleteRun("r3", 1))
    assert ids("r3") == ["r2", "r1"]
    assert [row.id for row in store.list_runs(limit=None)] == ["r4", "r2", "r1", "r0"]
    store.close()


def test_the_size_of_a_run_is_that_of_its_definition_and_entries(opening: Opening) -> None:
    store = opening()
    commit(store, create("a"), create("b"))
    empty = store.size("a")

    commit(store, AppendEntries("a", 1, [Entry("saved", "n", b"12", b"345"), Entry("done", "n", b"6")]))

    assert store.size("a") == empty + 6
    assert store.size("b") == empty > 0
    assert store.size("c") == 0
    store.close()


def test_a_run_is_found_by_the_beginning_of_its_id(opening: Opening) -> None:
    store = opening()
    commit(store, create("abc"), create("abd"), create("b_"), create("ab"))

    assert [row.id for row in store.find_prefix("abc")] == ["abc"]
    assert [row.id for row in store.find_prefix("ab", limit=9)] == ["ab", "abd", "abc"]
    assert [row.id for row in store.find_prefix("_")] == []
    store.close()


def test_what_cannot_be_written_fails_alone(lasting: Opening) -> None:
    store = lasting()
    commit(store, create("r"))

    good, bad, also_good = commit_all(store, [[append("r", b"1")], [create("x", "\ud800")], [append("r", b"2")]])

    assert good.ok
    assert also_good.ok
    assert isinstance(bad.refusal, Failed)
    assert bodies(store, "r") == [b"1", b"2"]
    store.close()


def test_an_answer_that_raises_does_not_stop_the_journal(lasting: Opening, caplog: pytest.LogCaptureFixture) -> None:
    store = lasting()

    store.submit([create("r")], lambda _: 1 / 0)  # type: ignore[arg-type, return-value]

    assert commit(store, append("r", b"1")).ok
    assert "was not taken" in caplog.text
    store.close()


def test_closing_commits_what_was_submitted_and_takes_nothing_more(lasting: Opening) -> None:
    store = lasting()
    answers: list[bool] = []
    for number in range(20):
        store.submit([create(f"r{number}")], lambda outcome: answers.append(outcome.ok))

    store.close()
    store.close()

    assert answers == [True] * 20
    with pytest.raises(StorageClosed):
        store.submit([create("late")], answers.append)  # type: ignore[arg-type]
    with pytest.raises(StorageClosed):
        store.get_run("r1")


def test_many_threads_write_and_read_at_once(opening: Opening) -> None:
    store = opening()
    errors: list[BaseException] = []

    def work(run: str) -> None:
        try:
            assert commit(store, create(run)).ok
            for number in range(20):
                assert commit(store, append(run, b"%d" % number)).ok
                assert len(bodies(store, run)) == number + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"r{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert store.statistics().entries == 160
    store.close()


def test_commands_wait_for_the_engine_that_drives_the_run(opening: Opening) -> None:
    store = opening()
    commit(store, create("a", owner="ours"), create("b", owner="theirs"))

    assert commit(store, SendCommand("a", "cancel", b"1"), SendCommand("b", "cancel", b"2")).ok
    assert commit(store, SendCommand("a", "pause", b"3")).ok

    assert [(c.run, c.kind, c.body) for c in store.commands("ours")] == [("a", "cancel", b"1"), ("a", "pause", b"3")]
    commit(store, Claim("b", "ours", 1))
    assert [c.body for c in store.commands("ours")] == [b"1", b"2", b"3"]
    assert store.commands("theirs") == []
    store.close()


def test_a_command_is_forgotten_when_it_was_carried_out_or_its_run_is_deleted(opening: Opening) -> None:
    store = opening()
    commit(store, create("a", owner="ours"), create("b", owner="ours"))
    commit(store, SendCommand("a", "x"), SendCommand("a", "y"), SendCommand("b", "z"))
    first = store.commands("ours")[0]

    assert commit(store, ForgetCommands("a", (first.number,))).ok
    assert [command.kind for command in store.commands("ours")] == ["y", "z"]
    assert commit(store, ForgetCommands("b", (first.number + 1,))).ok
    assert [command.kind for command in store.commands("ours")] == ["y", "z"], "it is not a command of that run"
    assert commit(store, SendCommand("a", "late"), DeleteRun("a", 1)).ok
    assert [command.kind for command in store.commands("ours")] == ["z"]
    assert commit(store, SendCommand("a", "gone")).refusal == MISSING
    store.close()


def test_fresh_runs_get_numbers_of_their_own_although_others_write_too(lasting: Opening) -> None:
    ours, theirs = lasting(), lasting()
    for number in range(3):
        assert commit(ours, create(f"a{number}", fresh=True), append(f"a{number}", b"a")).ok
        assert commit(theirs, create(f"b{number}", fresh=True), append(f"b{number}", b"b")).ok
    assert commit(ours, create("a3", fresh=True), append("a3", b"a"), create("a4", fresh=True)).ok

    assert {run.id: bodies(theirs, run.id) for run in theirs.list_runs()} == {
        **{f"a{number}": [b"a"] for number in range(4)},
        **{f"b{number}": [b"b"] for number in range(3)},
        "a4": [],
    }
    ours.close()
    theirs.close()


def test_a_fresh_run_whose_name_is_taken_is_refused(lasting: Opening) -> None:
    store = lasting()
    commit(store, create("a", "monday", fresh=True))
    store.close()
    store = lasting()
    commit(store, create("b", fresh=True))

    assert isinstance(commit(store, create("c", "monday", fresh=True)).refusal, Taken)
    store.close()


def test_a_batch_can_be_committed_at_once_in_the_thread_of_the_caller(opening: Opening) -> None:
    store = opening()

    outcome = store.commit_at_once([create("r"), append("r", b"1")])

    assert outcome is not None
    assert outcome.ok
    assert bodies(store, "r") == [b"1"]
    refused = store.commit_at_once([append("r", b"2", epoch=7)])
    assert refused is not None
    assert isinstance(refused.refusal, Fenced)
    store.close()


def test_nothing_is_committed_at_once_before_what_was_submitted_earlier(lasting: Opening) -> None:
    store = lasting()
    commit(store, create("r"))
    answered = threading.Event()
    let_go = threading.Event()

    def hold(outcome: object) -> None:
        answered.set()
        let_go.wait(60)

    store.submit([append("r", b"1")], hold)
    assert answered.wait(60)
    store.submit([append("r", b"2")], lambda outcome: None)
    assert store.commit_at_once([append("r", b"3")]) is None
    let_go.set()
    commit(store, append("r", b"4"))
    assert bodies(store, "r") == [b"1", b"2", b"4"]
    store.close()


def test_the_last_entries_of_some_kinds_are_read_without_the_others(opening: Opening) -> None:
    store = opening()
    commit(store, create("other"), create("r"), create("next"))
    for run in ("other", "r", "next"):
        kinds = ["measured", "saved", "measured", "begun", "measured", "saved"]
        commit(store, AppendEntries(run, 1, [Entry(kind, run, b"%d" % place) for place, kind in enumerate(kinds)]))

    assert [entry.body for entry in store.last_entries("r", ["measured"], 100)] == [b"0", b"2", b"4"]
    assert [entry.body for entry in store.last_entries("r", ["measured"], 4)] == [b"2", b"4"]
    assert [entry.body for entry in store.last_entries("r", ["begun", "measured"], 4)] == [b"2", b"3", b"4"]
    assert {entry.node for entry in store.last_entries("r", ["measured"], 100)} == {"r"}
    assert store.last_entries("r", ["measured"], 1) == []
    assert store.last_entries("nobody", ["measured"], 100) == []
    store.close()


def test_a_run_without_entries_has_no_last_ones(opening: Opening) -> None:
    store = opening()
    commit(store, create("r"))

    assert store.last_entries("r", ["measured"], 100) == []
    store.close()


def test_runs_are_looked_for_among_the_newest_only(opening: Opening) -> None:
    store = opening()
    for number in range(6):
        workflow = "even" if number % 2 == 0 else "odd"
        commit(store, create(f"r{number}", workflow=workflow, status="failed" if number == 5 else "succeeded"))

    def found(*statuses: str, **others: Any) -> list[str]:
        return [row.id for row in store.last_runs(statuses, **others)]

    assert found("succeeded", workflow="even", among=4) == ["r4", "r2"]
    assert found("succeeded", "failed", among=3) == ["r5", "r4", "r3"]
    assert found("succeeded", among=3, limit=1) == ["r4"]
    assert found("failed", workflow="even", among=100) == []
    store.close()


def test_no_run_is_among_the_newest_of_an_empty_journal(opening: Opening) -> None:
    store = opening()

    assert store.last_runs(["succeeded"], among=10) == []
    store.close()


def test_a_journal_has_one_identity_for_all_who_open_it(lasting: Opening) -> None:
    one, other = lasting(), lasting()

    assert one.identity() == other.identity()
    assert len(one.identity()) == 16
    assert one.identity().isalnum()
    one.close()
    other.close()


def test_runs_are_found_by_their_metadata_as_json_sees_it(opening: Opening) -> None:
    store = opening()
    for number, told in enumerate(['{"n":1}', '{"n":true}', '{"n":[1,{"a":null}],"k":"\\u0000"}', '{"n":"1"}', None]):
        commit(store, create(f"r{number}", **({} if told is None else {"metadata": told})))

    def ids(wanted: str) -> list[str]:
        return [row.id for row in store.list_runs(metadata=wanted)]

    assert ids('{"n":1.0}') == ["r0"]
    assert ids('{"n":true}') == ["r1"]
    assert ids('{"n":[1,{"a":null}]}') == ["r2"]
    assert ids('{"k":"\\u0000"}') == ["r2"]
    assert ids("{}") == ["r4", "r3", "r2", "r1", "r0"]
    assert [row.id for row in store.list_runs(metadata='{"n":"1"}', limit=1)] == ["r3"]
    store.close()
