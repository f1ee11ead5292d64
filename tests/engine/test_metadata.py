"""Metadata of runs and tasks: given, kept, found by, and never part of what makes two runs the same."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, TaskFailed, current, task
from onceflow.errors import InvalidOption
from tests.engine.common import add, fail_while, keep, pass_door
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script


@task
def tell_metadata() -> dict[str, Any]:
    return current().metadata


@task(metadata={"team": "sales", "rows": 0})
def load(rows: int) -> int:
    current().annotate(rows=rows, source="first")
    current().annotate(source="last")
    return rows


@task.pure
def look(rows: int) -> int:
    current().annotate(seen=rows)
    return rows


@task
def spread(count: int) -> int:
    return load.bind(look.bind(count))


def metadata(engine: Engine, run: str) -> dict[str, Any]:
    return {info.id: info.metadata for info in engine.list_tasks(run)}


def test_a_run_keeps_its_metadata_and_tells_its_tasks(engine: Engine, home: Path) -> None:
    given = {"team": "sales", "ticket": 17, "tags": ["a", {"deep": None}], "ratio": 0.5, "urgent": True}
    handle = engine.run_async(tell_metadata.bind(), metadata=given)
    assert handle.result() == given
    assert engine.info(handle.id).metadata == given
    with Engine(home) as other:
        assert other.info(handle.id).metadata == given


def test_a_run_without_metadata_has_none(engine: Engine) -> None:
    handle = engine.run_async(tell_metadata.bind())
    assert handle.result() == {}
    assert engine.info(handle.id).metadata == {}


def test_a_resumed_run_still_has_its_metadata(engine: Engine, tmp_path: Path) -> None:
    # given
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    with pytest.raises(TaskFailed) as caught:
        engine.run(keep.bind([fail_while.bind(str(obstacle)), tell_metadata.bind()]), metadata={"ticket": 18})
    # when
    obstacle.unlink()
    # then
    assert engine.resume(caught.value.run) == ["mended", {"ticket": 18}]


def test_metadata_does_not_make_another_run(engine: Engine) -> None:
    engine.run(keep.bind(1), name="told-twice", metadata={"by": "ann"})
    assert engine.run(keep.bind(1), name="told-twice", metadata={"by": "bob"}) == 1
    assert engine.info("told-twice").metadata == {"by": "ann"}
    engine.run(load.bind(3), name="options")
    assert engine.run(load.options(metadata={}).bind(3), name="options") == 3


def test_runs_are_found_by_their_metadata(engine: Engine) -> None:
    # given
    told: list[dict[str, Any]] = [
        {"kind": "x", "number": 1},
        {"kind": "x", "number": 2.0},
        {"kind": "y", "number": True},
        {"kind": "x", "number": [1, {"a": 2, "b": None}]},
        {},
    ]
    names = [f"found-{number}" for number in range(5)]
    engine.run_many([keep.bind(number) for number in range(5)], names=names, metadata=told)

    def found(**wanted: Any) -> list[str]:
        return [str(info.name) for info in engine.list_runs(metadata=wanted, name="found-")][::-1]

    # then
    assert found(kind="x") == ["found-0", "found-1", "found-3"]
    assert found(kind="x", number=2) == ["found-1"]
    assert found(number=True) == ["found-2"]
    assert found(number=1) == ["found-0"]
    assert found(number=[1, {"b": None, "a": 2}]) == ["found-3"]
    assert found(kind="z") == found(nobody=None) == []
    assert found() == names


def test_metadata_filters_go_with_the_others(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path), metadata={"at": "the door"})
    door.wait()
    assert [info.id for info in engine.list_runs(status="running", metadata={"at": "the door"})] == [handle.id]
    assert engine.list_runs(status="succeeded", metadata={"at": "the door"}) == []
    door.open()
    handle.result()


def test_one_mapping_is_for_all_of_many(engine: Engine) -> None:
    assert engine.run_many([tell_metadata.bind(), tell_metadata.bind()], metadata={"all": 1}) == [{"all": 1}] * 2
    with pytest.raises(InvalidOption, match="there are 1 for 2 graphs"):
        engine.run_many([add.bind(1, 1), add.bind(2, 2)], metadata=[{}])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("team", "metadata is a dictionary, not 'team'"),
        ({1: 2}, "a key of metadata is 1, and keys are texts"),
        ({"a": [{"b": datetime.date(2026, 1, 1)}]}, "metadata['a'][0]['b'] is of type date"),
        ({"a": float("nan")}, "metadata['a'] is nan"),
        ({"a": b"bytes"}, "metadata['a'] is of type bytes"),
        ({"a": 2**70}, "metadata['a'] is 1180591620717411303424"),
        ({"a": "x" * 20_000}, "takes 20008 bytes, and 16384 are the most"),
        ({"a": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_what_is_no_metadata_is_refused(engine: Engine, given: Any, problem: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        engine.run(keep.bind(1), metadata=given)
    assert problem in str(caught.value)
    with pytest.raises(InvalidOption) as caught:
        task(metadata=given)(len)
    assert problem in str(caught.value)


def test_a_task_has_metadata_of_its_own_and_what_it_told(engine: Engine, home: Path) -> None:
    # when
    handle = engine.run_async(load.bind(look.bind(7)))
    handle.result()
    # then
    told = {"team": "sales", "rows": 7, "source": "last"}
    assert metadata(engine, handle.id) == {"look": {}, "load": told}  # what is not saved is not kept
    with Engine(home) as other:
        assert metadata(other, handle.id)["load"] == told


def test_while_a_run_goes_on_what_its_tasks_told_is_known_even_if_it_is_not_saved(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path, [look.bind(7), load.bind(2)]))
    door.wait()
    assert metadata(engine, handle.id) == {
        "look": {"seen": 7},
        "load": {"team": "sales", "rows": 2, "source": "last"},
        "pass_door": {},
    }
    door.open()
    handle.result()


def test_tasks_of_a_returned_graph_tell_too(engine: Engine) -> None:
    handle = engine.run_async(spread.bind(4))
    handle.result()
    assert metadata(engine, handle.id)["spread/load"] == {"team": "sales", "rows": 4, "source": "last"}


def test_options_given_to_a_call_take_the_place_of_the_tasks_metadata(engine: Engine) -> None:
    handle = engine.run_async(add.options(metadata={"call": 1}).bind(1, 1))
    handle.result()
    assert metadata(engine, handle.id) == {"add": {"call": 1}}


@task(retry=1)
def annotate_badly(first: str) -> str:
    if Path(first).exists():
        current().annotate(good=1)
        return "told"
    Path(first).touch()
    current().annotate(bad=1)
    raise ValueError("once")


def test_what_an_attempt_that_failed_told_does_not_count(engine: Engine, tmp_path: Path) -> None:
    handle = engine.run_async(annotate_badly.bind(str(tmp_path / "first")))
    assert handle.result() == "told"
    assert metadata(engine, handle.id) == {"annotate_badly": {"good": 1}}


@task
def annotate(value: Any) -> None:
    current().annotate(value=value)


def test_an_annotation_that_json_has_no_form_for_fails_the_task(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(annotate.bind({1, 2}))
    assert isinstance(caught.value.__cause__, InvalidOption)
    assert "metadata['value'] is of type set" in str(caught.value)


def test_metadata_can_be_read_when_the_code_is_gone(tmp_path: Path) -> None:
    module = """
        from onceflow import current, task

        @task(metadata={"team": "sales"})
        def work():
            current().annotate(rows=3)
            return 1
    """
    run_script(tmp_path, module, file="gone.py")
    run_script(tmp_path, "import gone, onceflow; onceflow.run(gone.work.bind(), name='w', metadata={'ticket': 5})")
    (tmp_path / "gone.py").unlink()
    output = run_script(
        tmp_path, "import onceflow; print(onceflow.runs.info('w').metadata, onceflow.runs.list_tasks('w')[0].metadata)"
    )
    assert output == "{'ticket': 5} {'rows': 3, 'team': 'sales'}\n"
