"""Found by reading: what was joined in a transaction whose result is taken back with the one around it."""

import pytest

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
@pytest.mark.parametrize(("outside", "saved"), [("z pure t", ""), ("z kept t", "save z.0")])
def test_a_join_goes_with_the_result_of_the_transaction_in_which_it_has_joined_something(
    outside, saved, crash, validate
):
    """run n (irrevocable) starts, but z is not quiet. `m` joined `f` when `x` had its result; that is taken back with
    `t`, `m` is not; so `f`, `m` and what is built on them outside of `t` are settled no more when `x` fails later."""
    inner = graph("r loose; u undoable; g kept r u; k kept u; f kept,aside r; xs kept g k", sink="xs")
    around = graph(
        "x kept,transaction; fx kept,aside x; m kept; v kept; s pure m v", sink="s", returning={"x": [inner]}
    )
    status = play_script(
        graph(f"t kept,transaction; {outside}; w kept; n default z w; q kept n", returning={"t": [around]}),
        f"""
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/r
        finish t/x/f
        save t/x/f.0
        finish t/x/u
        save t/x/u.0
        finish t/x/g
        save t/x/g.0
        finish t/x/k
        save t/x/k.0
        finish t/x/xs
        save t/x/xs.0
        finish t/m joining t/x/f
        save t/m.0
        answer t/v for 1 again
        undone t/x/u!undo
        elapse t
        finish t/x/u
        save t/x/u.0
        finish t/x/g
        save t/x/g.0
        finish t/v
        save t/v.0
        finish t/s
        finish z
        {saved}
        {crash}
        answer t/x/k for 2 again
        finish w
        save w.0
        lose t/x/r.0
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_a_graph_that_has_joined_something_in_a_transaction_whose_result_was_taken_back_ends_with_that(validate):
    """run n (irrevocable) starts, but z is not quiet. What `e` ended with joined `f` while `x` had no result, and might
    have failed."""
    inner = graph("r loose; u undoable; g kept r u; k kept u; f kept,aside r; xs kept g k", sink="xs")
    ending = graph("j kept; i default; w kept j; s kept w i")
    around = graph(
        "x kept,transaction; fx kept,aside x; e kept; v kept; s pure e v",
        sink="s",
        returning={"x": [inner], "e": [ending]},
    )
    status = play_script(
        graph("t kept,transaction; z pure t; w kept; n default z w; q kept n", returning={"t": [around]}),
        """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/r
        finish t/x/f
        save t/x/f.0
        finish t/x/u
        save t/x/u.0
        finish t/x/g
        save t/x/g.0
        finish t/x/k
        save t/x/k.0
        finish t/x/xs
        save t/x/xs.0
        finish t/e
        save t/e.0
        land t/e/i
        finish t/e/j joining t/x/f
        save t/e/j.0
        answer t/e/w for 2
        answer t/v for 1 again
        finish t/e/i
        undone t/x/u!undo
        elapse t
        save t/e/i.0
        save t/e/s.0
        save t/e/s.0
        finish t/x/u
        save t/x/u.0
        finish t/x/g
        save t/x/g.0
        finish t/v
        save t/v.0
        finish t/s
        finish z
        answer t/x/k for 2 again
        finish w
        save w.0
        """,
        validate=validate,
    )
    assert status == "succeeded"
