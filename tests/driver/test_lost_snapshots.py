"""Snapshots of actors in shared memory that are no more."""

from __future__ import annotations

import pytest

from onceflow.data.objects import HeldRef, Object
from onceflow.driver.actors import Instance, Version
from onceflow.values import packed_outputs
from tests.driver.common import Drive, commit, large, loose, pure, undoable


def finish_with_actor(drive: Drive, node: str, snapshot: Object | None, actor: Instance | None = None) -> None:
    held = HeldRef([0], -1, snapshot, actor or Instance("actor", 1.0, lambda id: None))
    drive.driver.finished(drive.host.running(node), [packed_outputs.dump("an actor")], False, held=[held])
    commit(drive)


@pytest.mark.parametrize("is_known", [False, True])
def test_an_actor_that_lives_is_made_again_if_its_snapshot_is_lost_before_it_is_saved(is_known: bool) -> None:
    # given an actor that somebody reads while its large snapshot is being saved
    snapshot, again = large(), large()
    drive = Drive(loose.bind(loose.bind()))
    finish_with_actor(drive, "loose", snapshot)
    assert drive.started == ["loose", "loose_1"]

    # when the snapshot is lost
    if is_known:
        drive.lose(snapshot)
    drive.forget_save()
    drive.end("loose_1")
    commit(drive)

    # then there is another one, which is saved
    assert drive.started == ["loose", "loose_1", "loose"]
    finish_with_actor(drive, "loose", again)
    assert [content for _, content, _ in drive.host.saves] == [again]
    drive.save("snapshot")
    drive.finish("loose_1", 1)
    commit(drive)
    assert drive.driver.ending is not None
    assert drive.driver.ending.status == "succeeded"


def test_an_actor_that_was_rebuilt_for_an_undo_is_rebuilt_again_if_its_snapshot_is_lost() -> None:
    # given an undo of what has read an actor, for which the actor was rebuilt
    snapshot, again = large(), large()
    drive = Drive(undoable.bind(pure.bind()))
    actor = Instance("first", 1.0, lambda id: None)
    finish_with_actor(drive, "pure", None, actor)
    drive.driver.lost_actor(actor)
    drive.fail("undoable")
    commit(drive)
    assert drive.started == ["pure", "undoable", "pure"]
    finish_with_actor(drive, "pure", snapshot)
    assert drive.host.started[-1].undo

    # when the snapshot is lost
    drive.lose(snapshot)
    drive.end("undoable")
    commit(drive)

    # then the next undo has another one
    assert drive.host.started[-1].node == "pure"
    finish_with_actor(drive, "pure", again)
    work = drive.host.started[-1]
    assert work.undo
    assert work.refs is not None
    assert [version.snapshot for version in work.refs.contents if isinstance(version, Version)] == [again]
