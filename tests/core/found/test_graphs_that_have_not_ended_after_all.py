"""Found by reading: graphs whose end is taken back, what they are about to end with, and what else is found anew."""

import pytest

from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def in_a_transaction(tasks):
    return graph("t kept,transaction; z kept t", returning={"t": [graph(tasks)]})


def in_a_graph(tasks, ending):
    return graph("t kept; z kept t", returning={"t": [graph(tasks, returning={"e": [ending]})]})


FORK = "r loose; u undoable; g kept r u; c kept,aside r"
"""`c` is settled thanks to `g`, and is not any more when `u` and `g` are taken back, which it does not descend from."""
FORK_IS_SETTLED = """
    finish t
    save t.0
    finish t/r
    finish t/u
    save t/u.0
    finish t/g
    save t/g.0
    finish t/c
    save t/c.0
"""


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("first", ["it is edited first", "it is edited last"])
def test_what_was_edited_and_must_not_run_again_does_not_keep_others_from_running(first, validate):
    """stuck n: waits for d w. Something irrevocable was built on `p`, which nobody needs again; `x` is needed."""
    tasks = ["p pure; c kept p; i default c", "x pure; w kept; d kept x; n default d w; q kept after:x n"]
    if first == "it is edited last":
        tasks.reverse()
    drive = Drive(graph("; ".join([*tasks, "k kept after:p n; z kept q k i"])), validate=validate)
    drive.begin()
    drive.complete("p", "c", "i", "x", "d")
    loaded = drive.reload(changed=["p", "x"])
    loaded.begin()
    assert loaded.play().status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("again", ["again", ""])
def test_what_nothing_stands_on_any_more_when_others_were_undone_is_undone_as_well(again, validate):
    """Again(node='t', …), but ('t/u',) was not undone. `k` stands on `u`, because `b` could not be made again without
    `g`, until `p` is saved, from which `b` can be made."""
    play_script(
        in_a_transaction(
            "p kept; b pure p; f kept b; u undoable; g kept b u; k default f; v undoable; w kept; s kept g k v w"
        ),
        f"""
        finish t
        save t.0
        finish t/p
        finish t/b
        finish t/f
        save t/f.0
        finish t/u
        save t/u.0
        finish t/g
        save t/g.0
        finish t/k
        save t/k.0
        finish t/v
        save t/v.0
        answer t/w for 1 {again}
        save t/p.0
        undone t/v!undo
        """,
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("more", ["", "commit\ncrash"])
def test_a_graph_whose_end_is_taken_back_with_what_was_joined_in_it_opens_again(more, validate):
    """run t/y is to start, but not all its inputs are available: what `e` had ended with was abandoned"""
    status = play_script(
        in_a_graph(f"{FORK}; e kept; v kept; y kept g e v", graph("j kept; w kept j; s kept w")),
        f"""
        {FORK_IS_SETTLED}
        finish t/e
        save t/e.0
        finish t/e/j joining t/c
        save t/e/j.0
        answer t/e/w for 2
        save t/e/s.0
        cancel with undo
        end t/v!late
        undone t/u!undo
        carry out finish
        resume
        {more}
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_what_was_joined_outside_of_a_graph_whose_end_is_taken_back_is_settled_no_more(validate):
    """run t/q (irrevocable) starts, but t/j2 is not quiet. It has joined `f`, which was settled because `h` was
    abandoned; but `h` is to run now."""
    status = play_script(
        in_a_graph(
            f"{FORK}; e kept; j2 kept; v kept; q default j2 v; y kept g e q",
            graph("r loose; f kept,aside r; j kept; w kept j; k kept; h kept r k; s kept w h"),
        ),
        f"""
        {FORK_IS_SETTLED}
        finish t/e
        save t/e.0
        finish t/e/r
        finish t/e/f
        save t/e/f.0
        finish t/e/j joining t/c
        save t/e/j.0
        answer t/e/w for 2
        save t/e/s.0
        finish t/j2 joining t/e/f
        save t/j2.0
        cancel with undo
        end t/v!late
        end t/e/k!late
        undone t/u!undo
        carry out finish
        resume
        finish t/v
        save t/v.0
        """,
        validate=validate,
    )
    assert status == "succeeded"


IN_T = (
    "finish {0}\nsave {0}.0\nfinish {0}/p\nfinish {0}/b\nfinish {0}/f\nsave {0}/f.0\n"
    "finish {0}/u\nsave {0}/u.0\nfinish {0}/g\nsave {0}/g.0\n"
)


@pytest.mark.parametrize("validate", [True, False])
def test_who_has_read_a_quiet_result_is_counted_once_when_what_stands_aside_in_the_graph_is_taken_back(validate):
    """z: unquiet is kept as -1, by definition it is 0 (IndexError: list index out of range)"""
    inner = graph("u undoable; w kept; y kept u w")
    around = graph("s pure; x kept,transaction; f kept,aside x", sink="s", returning={"x": [inner]})
    play_script(
        graph("t kept; z kept t", returning={"t": [around]}),
        """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/u
        save t/x/u.0
        finish t/s
        answer t/x/w for 2 again
        """,
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("again", ["", "again"])
def test_it_is_asked_again_what_can_be_undone_when_a_graph_around_ends(again, validate):
    """Abandoned(node='d/y', …), but ('d/e/t/u',) was not undone"""
    inner = graph("p kept; b pure p; f kept b; u undoable; g kept b u; k default f; w kept; s kept g k w")
    e = graph("t kept,transaction; s kept t", returning={"t": [inner]})
    play_script(
        graph("d kept; z kept d", returning={"d": [graph("e kept; w kept; y kept e w", returning={"e": [e]})]}),
        "finish d\nsave d.0\nfinish d/e\nsave d/e.0\n"
        + IN_T.format("d/e/t")
        + "finish d/e/t/k\nsave d/e/t/k.0\nanswer d/e/t/w for 2 failing 3\nsave d/e/t/p.0\n"
        + f"answer d/w for 1 {again}\n",
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_it_is_asked_again_what_can_be_undone_when_a_graph_within_one_that_was_quicker_ends(validate):
    """Abandoned(node='d/c/s', …), but ('d/c/t/u',) was not undone"""
    inner = graph("p kept; b pure p; f kept b; u undoable; g kept b u; k default f; w kept; s kept g k w")
    c = graph("t kept,transaction; s kept t", returning={"t": [inner]})
    d = graph("k default; c kept; f kept,aside c", sink="k", returning={"c": [c]})
    play_script(
        graph("d kept; z kept d", returning={"d": [d]}),
        "finish d\nsave d.0\nland d/k\nfinish d/c\nsave d/c.0\n"
        + IN_T.format("d/c/t")
        + "finish d/c/t/k\nsave d/c/t/k.0\nanswer d/c/t/w for 2 failing 3\nsave d/c/t/p.0\n"
        + "expire d/k at 1\nfinish d/k!late\n",
        validate=validate,
    )
