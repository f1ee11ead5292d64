"""Forgetting (design 2.10): outputs are released once, rows leave memory, and long runs stay small."""

from collections import Counter

from onceflow.core.model import commands, events
from tests.core.building import Drive, begun, graph

# -- releasing -------------------------------------------------------------------------------------------------------


def test_an_output_is_released_when_all_its_consumers_are_settled():
    drive = begun("a kept; b kept a; c kept a; z kept b c", "a", "b")
    drive.finish("c")
    assert drive.save("c") == ["+saved c", "release a"]


def test_an_output_that_is_still_being_saved_is_not_released():
    """1. `a` is to be saved, and its save is slow; its consumer `b` is saved and settles it.
    2. The save still reads it: only when it is answered is the output released."""
    drive = begun("a kept; b kept a; k kept; z kept b k")
    drive.finish("a", "b")
    assert drive.save("b") == ["+saved b"]
    assert drive.settled == {"a", "b"}
    assert drive.save("a") == ["+saved a", "release a"]


def test_a_settled_output_whose_save_failed_is_asked_for_again():
    drive = begun("a kept; b kept a; k kept; z kept b k")
    drive.finish("a", "b")
    drive.save("b")
    assert drive.save_fails("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "release a"]


def test_the_large_input_of_an_undoable_task_is_released_only_when_the_undo_cannot_happen_any_more():
    drive = begun("p pure; u undoable p; n default u; z kept n")
    drive.finish("p", small=False)
    assert "release p" not in drive.finish("u")
    assert "release p" not in drive.save("u"), "n has begun, and may turn out never to have started"
    assert "release p" in drive.finish("n")


def test_the_large_input_of_an_undoable_task_stays_while_the_undo_may_happen():
    drive = begun("p pure; u undoable p; k kept; z kept u k")
    drive.finish("p", small=False)
    drive.complete("u")
    assert drive.settled == {"p", "u"}
    assert "p" in drive.run.rows
    assert not drive.run.rows["p"].released


def test_every_output_is_released_at_most_once():
    releases: Counter[str] = Counter()
    text = "a loose; b kept a; c kept a; d undoable b; e pure c; n default d e; m kept n; z pure m"
    drive = Drive(graph(text))
    answer = drive.begin()
    while drive.running or drive.saves:
        releases.update(command for command in answer if command.startswith("release"))
        answer = drive.finish(next(iter(drive.running))) if drive.running else drive.save(next(iter(drive.saves))[0])
    releases.update(command for command in answer if command.startswith("release"))
    assert drive.status == "succeeded"
    assert set(releases.values()) == {1}
    assert set(releases) >= {"release a", "release b", "release c", "release d", "release e", "release n"}


def test_the_output_of_the_sink_is_never_released():
    drive = begun("a kept; z kept a", "a")
    drive.finish("z")
    assert drive.save("z") == ["+saved z", "release a", "+finished succeeded", "finish succeeded"]


# -- forgetting ------------------------------------------------------------------------------------------------------


def test_a_row_is_forgotten_when_it_and_its_consumers_are_settled():
    drive = begun("a kept; b kept a; c kept b; z kept c", "a", "b")
    assert set(drive.states()) == {"b", "c", "z"}
    drive.complete("c")
    assert set(drive.states()) == {"c", "z"}


def test_an_undoable_row_is_remembered_until_something_irrevocable_has_started_below_it():
    drive = begun("u undoable; a kept u; b kept a; n default b; z kept n", "u", "a")
    assert "u" in drive.run.rows
    drive.complete("b")
    assert "u" in drive.run.rows
    drive.finish("n")
    assert "u" not in drive.run.rows


def test_events_about_forgotten_rows_are_late():
    drive = begun("a kept; b kept a; c kept b; z kept c", "a", "b")
    attempt = drive.attempts["a"][0]
    assert "a" not in drive.run.rows
    for event in (
        events.Finished("a", attempt),
        events.Raised("a", attempt),
        events.Saved("a", 0, attempt),
        events.SaveFailed("a", 0, attempt, permanent=True),
        events.Ended("a", attempt),
        events.Elapsed("a", attempt),
        events.Undone("a", attempt),
        events.UndoFailed("a", attempt),
        events.Lost((("a", 0),), (("a", attempt),)),
    ):
        assert drive.tell(event) == []


def test_kept_effects_are_listed_even_if_their_rows_are_forgotten():
    drive = begun("u undoable; n default u; m kept n; f kept m; z kept f", "u", "n", "m", on_failure="undo")
    assert "u" not in drive.run.rows
    assert drive.raises("f")[-1] == "finish failed failed=f kept=u"


# -- long runs -------------------------------------------------------------------------------------------------------


def play_fast(run, expansions=lambda node: None):
    """Answer everything at once, without keeping a story. Returns the largest number of rows, and the last command."""
    largest = 0
    answer = run.begin()
    while True:
        follow_up = []
        for command in answer:
            if type(command) is commands.Start:
                follow_up.append(events.Finished(command.node, command.attempt, expansions(command.node)))
            elif type(command) is commands.Save:
                follow_up.append(events.Saved(command.node, command.part, command.attempt))
        if not follow_up:
            return largest, answer[-1]
        answer = [command for event in follow_up for command in run.handle(event)]
        largest = max(largest, len(run.rows))


def test_a_chain_of_ten_thousand_nested_graphs_stays_small():
    step = graph("work default; step kept work")
    depth = 0

    def grow(node):
        nonlocal depth
        if not node.endswith(("step", "loop")) or depth == 10_000:
            return None
        depth += 1
        return step

    drive = Drive(graph("loop kept; z kept loop"), validate=False)
    largest, last = play_fast(drive.run, grow)
    assert last == commands.Finish("succeeded")
    assert depth == 10_000
    assert largest < 20


def test_such_a_chain_stays_small_inside_another_graph():
    """`step` is not the sink of its graph: `g` waits for the end of the chain."""
    step = graph("work default; step kept work")
    depth = 0

    def grow(node):
        nonlocal depth
        if node == "loop":
            return graph("step kept; g pure step")
        if not node.endswith("step") or depth == 2_000:
            return None
        depth += 1
        return step

    drive = Drive(graph("loop kept; z kept loop"), validate=False)
    largest, last = play_fast(drive.run, grow)
    assert last == commands.Finish("succeeded")
    assert depth == 2_000
    assert largest < 20


def test_a_chain_of_undoable_nested_graphs_with_something_irrevocable_in_each_stays_small():
    step = graph("book undoable; pay default book; step kept pay")
    depth = 0

    def grow(node):
        nonlocal depth
        if not node.endswith(("step", "loop")) or depth == 2_000:
            return None
        depth += 1
        return step

    drive = Drive(graph("loop kept; z kept loop"), validate=False)
    largest, last = play_fast(drive.run, grow)
    assert last == commands.Finish("succeeded")
    assert largest < 20


def test_a_chain_of_a_hundred_thousand_nodes_needs_no_recursion():
    kinds = ["pure", "kept", "default", "undoable", "loose"]
    lines = ["t0 kept"] + [f"t{n} {kinds[n % 5]} t{n - 1}" for n in range(1, 100_000)]
    drive = Drive(graph("; ".join(lines)), validate=False)
    _, last = play_fast(drive.run)
    assert last == commands.Finish("succeeded")


def test_losing_the_head_of_a_long_unsaved_chain_needs_no_recursion():
    size = 30_000
    lines = ["t0 loose"] + [f"t{n} pure t{n - 1}" for n in range(1, size)]
    drive = Drive(graph("; ".join(lines) + f"; k kept; z kept t0 t{size - 1} k"), validate=False)
    drive.begin()
    drive.finish(*(f"t{n}" for n in range(size)))
    answer = drive.lose("t0")
    assert answer.count("start t0") == 1
    assert sum(command.startswith("drop") for command in answer) == size


def test_loading_a_long_chain_needs_no_recursion():
    size = 30_000
    lines = ["t0 kept"] + [f"t{n} {'kept' if n % 2 else 'pure'} t{n - 1}" for n in range(1, size)]
    drive = Drive(graph("; ".join(lines)), validate=False)
    drive.begin()
    for n in range(size - 1):
        drive.complete(f"t{n}")
    assert drive.reload().begin()[-1] in (f"start t{size - 1}", f"start t{size - 2}")
