"""`onceflow delete` and `onceflow prune`."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow import Engine
from onceflow.cli import delete
from onceflow.engine import retention
from onceflow.engine.retention import ENDED, Kept, Rules, condemned
from tests.cli.flows import nothing


@pytest.fixture
def three(onceflow):
    """Three new runs, and nothing else."""
    onceflow("delete", "--all", "--yes")
    with Engine(onceflow.home) as engine:
        for name in ("a-1", "a-2", "b-1"):
            engine.run(nothing.bind(), name=name)


def left(onceflow):
    return sorted(run["name"] for run in onceflow.json("ls"))


def test_runs_are_deleted_and_their_names_are_free(onceflow, three):
    assert onceflow("delete", "a-1", "b-1", "a-1").stdout == "a-1: deleted\nb-1: deleted\n"
    assert left(onceflow) == ["a-2"]
    assert onceflow.error("delete", "a-1", code=3) == "there is no run 'a-1'"
    assert onceflow.run("price", "--name", "a-1", "--arg", "city=Rome") == "400\n"


def test_nothing_is_deleted_if_one_of_the_runs_is_not_there(onceflow, three):
    onceflow("delete", "a-1", "nobody", code=3)
    assert left(onceflow) == ["a-1", "a-2", "b-1"]


def test_many_are_deleted_only_if_somebody_is_sure(onceflow, three):
    error = onceflow.error("delete", "--name", "a-", code=4)
    assert error == "Delete 2 runs for good? There is nobody to ask here: add --yes if you are sure."
    assert [run["name"] for run in onceflow.json("delete", "--name", "a-", "--yes")] == ["a-1", "a-2"]
    assert left(onceflow) == ["b-1"]


def test_young_runs_are_not_older_than(onceflow, three):
    assert onceflow.json("delete", "--older-than", "1h", "--yes") == []
    assert len(onceflow.json("delete", "--older-than", "0s", "--yes")) == 3


def test_quiet_says_nothing(onceflow, three):
    assert onceflow("delete", "-q", "a-1").output == ""


def test_somebody_at_a_terminal_is_asked(onceflow, three, monkeypatch):
    answers = iter([False, True])
    monkeypatch.setattr(delete.Session, "confirm", _confirm_with(answers))
    assert onceflow.error("delete", "--name", "a-", code=4) == "nothing was changed"
    onceflow("delete", "--name", "a-")
    assert left(onceflow) == ["b-1"]


def _confirm_with(answers):
    def confirm(session, question, yes):
        assert question == "Delete 2 runs for good?"
        if not next(answers):
            raise delete.exits.Refused("nothing was changed")

    return confirm


# -- runs whose own rows are damaged -----------------------------------------------------------------------------------


@pytest.fixture
def damaged(fresh):
    """A home with a run that can be read, and one that cannot: its id."""
    for name in ("whole", "broken"):
        fresh.run("nothing", "--name", name)
    (run,) = [run["id"] for run in fresh.json("ls") if run["name"] == "broken"]
    journal = sqlite3.connect(fresh.home / "journal.db")
    with journal:
        journal.execute("UPDATE run SET status = 'failee' WHERE name = 'broken'")
    journal.close()
    return run


@pytest.mark.parametrize(
    "verb", [["delete", "--all", "-y"], ["delete", "--status", "succeeded", "-y"], ["prune", "--keep", "0", "-y"]]
)
def test_a_damaged_run_is_named_and_the_others_are_deleted(fresh, damaged, verb):
    problem = fresh.error(*verb, code=5)
    assert f"1 run left out: the row of a run is not what was written (run {damaged})" in problem
    assert "onceflow doctor --forget-damaged" in problem
    assert fresh.json("ls") == []


def test_the_json_of_prune_names_damaged_runs(fresh, damaged):
    told = fresh.json("prune", "--keep", "0", "--yes", code=5)
    assert [run["name"] for run in told["runs"]] == ["whole"]
    assert told["damaged"] == [{"id": damaged, "reason": f"the row of a run is not what was written (run {damaged})"}]


def test_the_json_of_delete_has_what_is_gone(fresh, damaged):
    assert [run["name"] for run in fresh.json("delete", "--all", "--yes", code=5)] == ["whole"]


def test_the_doctor_forgets_damaged_runs_and_their_names_are_free(fresh, damaged):
    assert f"(run {damaged})" in fresh.error("doctor", code=5)
    assert "add --yes" in fresh.error("doctor", "--forget-damaged", code=4)
    assert f"(run {damaged}): forgotten" in fresh("doctor", "--forget-damaged", "--yes").stdout
    assert [run["name"] for run in fresh.json("ls")] == ["whole"]
    assert fresh.run("price", "--name", "broken", "--arg", "city=Rome") == "400\n"
    fresh("delete", "--all", "--yes")


def test_a_damaged_run_is_not_forgotten_while_another_engine_lives(fresh, damaged):
    with Engine(fresh.home) as engine:
        assert engine.id in fresh.error("doctor", "--forget-damaged", "--yes", code=4)
    assert [run["id"] for run in fresh.json("doctor", "--forget-damaged", "--yes")["forgotten"]] == [damaged]


def test_a_deep_look_says_how_a_damaged_run_is_forgotten(fresh, damaged):
    (told,) = fresh.json("doctor", "--deep", code=5)["damage"]
    assert told["run"] == damaged
    assert "onceflow doctor --forget-damaged" in told["advice"]


# -- prune -------------------------------------------------------------------------------------------------------------


def test_prune_needs_a_rule(onceflow):
    assert onceflow.error("prune", "--status", "failed", code=2).startswith("what may go?")
    assert "have not ended" in onceflow.error("prune", "--keep", "1", "--status", "running", code=2)
    assert "is no age" in onceflow.error("prune", "--older-than", "soon", code=2)
    assert "is no size" in onceflow.error("prune", "--max-bytes", "1XB", code=2)


def test_prune_keeps_the_newest(onceflow, three):
    planned = onceflow.json("prune", "--keep", "1", "--dry-run")
    assert [(run["name"], run["reason"]) for run in planned["runs"]] == [("a-1", "count"), ("a-2", "count")]
    assert planned["bytes"] == sum(run["bytes"] for run in planned["runs"]) > 0
    assert left(onceflow) == ["a-1", "a-2", "b-1"]
    assert "add --yes" in onceflow.error("prune", "--keep", "1", code=4)
    assert onceflow("prune", "--keep", "1", "--yes").stdout.splitlines()[-1].startswith("2 runs deleted, ")
    assert left(onceflow) == ["b-1"]


def test_prune_by_age_and_by_bytes(onceflow, three):
    assert onceflow.json("prune", "--older-than", "1d", "--yes")["runs"] == []
    assert onceflow.json("prune", "--max-bytes", "1GB", "--yes")["runs"] == []
    size = onceflow.json("prune", "--keep", "0", "--dry-run")["bytes"]
    gone = onceflow.json("prune", "--max-bytes", str(size - 1), "--yes")
    assert [(run["name"], run["reason"]) for run in gone["runs"]] == [("a-1", "bytes")]
    assert onceflow("prune", "--older-than", "0s", "--keep", "1", "--yes").exit_code == 0
    assert left(onceflow) == ["b-1"]


# -- which go ----------------------------------------------------------------------------------------------------------

STATUSES = [*sorted(ENDED), "running", "interrupted", "paused", "pending", "waiting", "undoing"]
RUNS = st.lists(
    st.builds(
        Kept,
        id=st.text("abcdef", min_size=8, max_size=8),
        status=st.sampled_from(STATUSES),
        updated=st.integers(0, 100).map(float),
        bytes=st.integers(0, 50),
    ),
    unique_by=lambda run: run.id,
    max_size=12,
)
RULES = st.builds(
    Rules,
    older_than=st.none() | st.integers(0, 100).map(float),
    keep=st.none() | st.integers(0, 8),
    max_bytes=st.none() | st.integers(0, 300),
    statuses=st.sets(st.sampled_from(STATUSES), min_size=1).map(frozenset),
)
NOW = 100.0


@given(RUNS, RULES)
def test_only_ended_runs_of_the_given_statuses_ever_go(runs, rules):
    for one in condemned(runs, rules, NOW):
        assert one.run.status in ENDED & rules.statuses


@given(RUNS, RULES)
def test_the_newest_are_kept(runs, rules):
    going = {one.run.id for one in condemned(runs, rules, NOW)}
    concerned = [run for run in runs if run.status in ENDED & rules.statuses]
    newest = sorted(concerned, key=lambda run: (run.updated, run.id), reverse=True)[: rules.keep or 0]
    assert not going & {run.id for run in newest}


@given(RUNS, RULES)
def test_none_goes_before_an_older_one(runs, rules):
    going = {one.run.id for one in condemned(runs, rules, NOW)}
    concerned = [run for run in runs if run.status in ENDED & rules.statuses]
    ordered = [run.id in going for run in sorted(concerned, key=lambda run: (run.updated, run.id))]
    assert ordered == sorted(ordered, reverse=True)


@given(RUNS, RULES)
def test_no_more_go_for_their_bytes_than_it_takes(runs, rules):
    going = condemned(runs, rules, NOW)
    for_bytes = [one.run for one in going if one.reason == "bytes"]
    if for_bytes:
        held = sum(run.bytes for run in runs) - sum(one.run.bytes for one in going)
        assert held + for_bytes[-1].bytes > rules.max_bytes


@given(RUNS, RULES)
def test_what_is_too_old_goes_unless_it_is_kept(runs, rules):
    gone = {one.run.id for one in condemned(runs, rules, NOW)}
    if rules.older_than is not None and not rules.keep:
        for run in runs:
            if run.status in ENDED & rules.statuses and run.updated < NOW - rules.older_than:
                assert run.id in gone


def test_rules_that_say_nothing_are_empty():
    assert Rules().empty
    assert not Rules(keep=0).empty
    assert retention.condemned([], Rules(keep=3), NOW) == []
