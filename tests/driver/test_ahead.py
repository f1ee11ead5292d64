"""What a driver foresees: a chain of tasks without effect behind the only attempt that is under way."""

from __future__ import annotations

import pickle
from typing import Any

from onceflow import task
from onceflow.driver.ahead import FARTHEST
from tests.driver.common import Drive, effect, loose, pair, pure


@task.pure(timeout=5)
def limited(*values: Any) -> Any: ...


@task.pure(cpus=2)
def needy(*values: Any) -> Any: ...


@task.pure
async def patient(*values: Any) -> Any: ...


def chain(*links: Any) -> Any:
    node = links[0].bind()
    for link in links[1:]:
        node = link.bind(node)
    return node


def test_a_chain_of_pure_tasks_is_foreseen_to_its_end() -> None:
    drive = Drive(chain(pure, pure, loose, pure))
    assert drive.started == ["pure"]
    assert drive.host.foreseen == ["pure_1", "loose", "pure_2"]


def test_what_is_foreseen_is_just_what_is_started_then() -> None:
    # given
    drive = Drive(chain(pure, pure, pure))
    foreseen = drive.host.ahead
    # when
    drive.finish("pure", 1)
    drive.finish("pure_1", 2)
    # then
    started = drive.host.started[1:]
    assert [(work.node, work.attempt, work.key) for work in started] == [
        (ahead.work.node, ahead.work.attempt, ahead.work.key) for ahead in foreseen
    ]
    assert [ahead.fed for ahead in foreseen] == [[(0, 0)], [(0, 0)]]


def test_other_inputs_are_there_already() -> None:
    first = pure.bind(1)
    second = pure.bind(2)
    drive = Drive(pure.bind(pure.bind(first, second), second))
    drive.finish("pure", "one")
    assert drive.host.foreseen == []
    drive.finish("pure_1", "two")
    # then the last one has one input from before
    assert drive.host.foreseen == ["pure_3"]
    (ahead,) = drive.host.ahead
    assert ahead.fed == [(0, 0)]
    assert ahead.work.inputs == [b"", pickle.dumps("two")]


def test_a_part_of_an_output_is_fed_alone() -> None:
    _, right = pair.bind()
    drive = Drive(pure.bind(right))
    assert [ahead.fed for ahead in drive.host.ahead] == [[(0, 1)]]


def test_a_whole_output_of_several_parts_is_not_foreseen() -> None:
    assert Drive(pure.bind(pair.bind())).host.foreseen == []


def test_nothing_with_an_effect_is_foreseen_and_nothing_behind_it() -> None:
    drive = Drive(chain(pure, pure, effect, pure))
    assert drive.host.foreseen == ["pure_1"]


def test_nothing_is_foreseen_behind_an_effect() -> None:
    drive = Drive(chain(effect, pure))
    drive.commit()
    assert drive.started == ["effect"]
    assert drive.host.foreseen == []


def test_what_has_limits_or_needs_is_not_foreseen() -> None:
    for link in (limited, needy, patient):
        assert Drive(chain(pure, link, pure)).host.foreseen == []
        assert Drive(chain(link, pure)).host.foreseen == []


def test_nothing_is_foreseen_while_something_else_is_under_way() -> None:
    drive = Drive(pure.bind(pure.bind(), pure.bind(1)))
    assert drive.started == ["pure", "pure_1"]
    assert drive.host.foreseen == []


def test_a_fork_in_the_road_is_not_foreseen() -> None:
    first = pure.bind()
    drive = Drive(pure.bind(pure.bind(first), loose.bind(first)))
    assert drive.host.foreseen == []


def test_foresight_does_not_reach_for_ever() -> None:
    drive = Drive(chain(*[pure] * 40))
    assert len(drive.host.foreseen) == FARTHEST


def test_after_the_death_of_a_worker_tasks_run_one_by_one() -> None:
    drive = Drive(chain(pure, pure))
    drive.host.foreseen = []
    drive.die("pure")
    assert drive.started == ["pure", "pure"]
    assert drive.host.foreseen == []
