"""Task variables: when what a task wrote counts, and who sees it (design 2.11)."""

from __future__ import annotations

import pytest

from onceflow.core.checks.check import check
from onceflow.core.model import events
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node
from onceflow.errors import BrokenPromise, InvalidGraph, UnsafeGraph
from tests.core.building import Drive, graph


def test_what_a_task_wrote_is_committed_with_the_save_of_its_last_part() -> None:
    run = Drive(graph("w writer,parts=2; z kept w"))
    assert run.begin() == ["start w"]
    assert run.finish("w") == ["save w", "save w.1"]
    assert run.save("w.1") == ["+saved w.1"]
    assert run.save("w") == ["+saved w", "+wrote w", "start! z"]


def test_a_writer_starts_when_nothing_above_it_can_change_any_more() -> None:
    run = Drive(graph("a kept; w writer a; p pure a; z kept w p"))
    run.begin()
    assert run.finish("a") == ["save a", "start p"]
    assert run.save("a") == ["+saved a", "start w"]


def test_a_writer_that_could_never_start_is_found_before_the_run() -> None:
    with pytest.raises(UnsafeGraph) as caught:
        check(graph("a loose; w writer a"))
    assert caught.value.proposals == {"w": ("a",)}


def test_what_comes_after_a_writer_waits_until_its_writes_are_durable() -> None:
    run = Drive(graph("w writer; p pure w; z kept p"))
    run.begin()
    assert run.finish("w") == ["save w"]
    assert run.save("w") == ["+saved w", "+wrote w", "start! p"]


def test_a_writer_is_not_settled_by_those_who_read_it() -> None:
    run = Drive(graph("w writer,deterministic; z kept w"))
    run.begin()
    run.finish("w")
    row = run.run.rows["w"]
    assert row.quiet
    assert not row.settled
    run.save("w")
    assert row.settled


def test_what_an_unsaved_writer_wrote_is_lost_with_it_and_written_again() -> None:
    run = Drive(graph("w writer; z kept w"))
    run.begin()
    run.finish("w")
    assert run.lose("w") == ["drop w", "start w"]
    run.finish("w")
    assert run.save("w") == ["+saved w", "+wrote w", "start! z"]


def test_a_saga_keeps_what_a_committed_writer_stands_on() -> None:
    run = Drive(graph("u undoable; w writer u; f kept w"), on_failure="undo")
    run.begin()
    run.finish("u")
    run.save("u")
    run.finish("w")
    run.save("w")
    assert run.raises("f", permanent=True)[-1] == "finish failed failed=f kept=u"


def test_a_saga_takes_back_what_is_above_a_writer_that_has_not_committed() -> None:
    run = Drive(graph("u undoable; w writer u; z kept w"), on_failure="undo")
    run.begin()
    run.finish("u")
    run.save("u")
    assert "undo u with output" in run.raises("w", permanent=True)
    assert run.undone("u")[-1] == "finish undone failed=w"


def test_after_a_crash_committed_writes_are_seen_and_others_are_made_again() -> None:
    run = Drive(graph("a writer; b writer; z kept a b"))
    run.begin()
    run.finish("a")
    run.save("a")
    run.finish("b")
    again = run.reload()
    assert again.begin() == ["start b"]
    again.finish("b")
    assert again.save("b") == ["+saved b", "+wrote b", "start! z"]


def test_a_committed_writer_below_a_task_whose_code_changed_is_a_broken_promise() -> None:
    run = Drive(graph("p pure; q pure p; w writer p; z kept w q"))
    run.begin()
    run.finish("p")
    run.finish("w")
    run.save("w")
    with pytest.raises(BrokenPromise):
        run.reload(changed=["p"]).begin()


def test_the_result_of_a_returned_graph_may_be_a_writer() -> None:
    run = Drive(graph("e kept; z kept e"))
    run.begin()
    run.finish("e", graph=graph("w writer"))
    run.save("e")
    run.finish("e/w")
    assert run.save("e/w") == ["+saved e/w", "+wrote e/w", "release e", "start! z"]


@pytest.mark.parametrize("options", [Options(effect="undoable", writes=True), Options(checkpoint=False, writes=True)])
def test_a_writer_is_saved_and_cannot_be_undone(options: Options) -> None:
    with pytest.raises(InvalidGraph, match="must be saved and cannot be undone"):
        Graph([Node(id="w", task="w", options=options)])


def test_outside_a_part_of_a_graph_quiet_means_committed() -> None:
    run = Drive(graph("w writer; p pure w; z kept p"), members=["p", "z"])
    run.begin()
    assert run.tell(events.Given("w")) == []
    assert run.tell(events.Given("w", quiet=True)) == ["start! p"]
