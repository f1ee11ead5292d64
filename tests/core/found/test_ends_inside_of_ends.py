"""Found by reading: answers and deadlines for graphs inside of others that are about to end, and then do not."""

import pytest

from onceflow.core.model import records
from onceflow.core.run import Run
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story

TRANSACTION = graph("u undoable; x default; y kept u x")


def whole(outer):
    return graph("e kept; z kept e", returning={"e": [outer]})


def forking(inner):
    """Something stands aside in a graph whose result may be quicker than its end."""
    return graph("k default; c kept; f kept,aside c", sink="k", returning={"c": [inner]})


def steps(text):
    return text.replace(" / ", "\n")


@pytest.mark.parametrize("validate", [True, False])
def test_an_answer_inside_of_two_graphs_whose_time_is_over_counts_if_both_have_results(validate):
    """run e/c/c/x starts in a graph that a handler has answered for"""
    play_script(
        whole(forking(forking(graph("x default; y kept x")))),
        steps(
            "finish e / save e.0 / finish e/c / save e/c.0 / finish e/c/c / save e/c/c.0 / land e/k / land e/c/k / "
            "expire e/k at 1 / expire e/c/k at 2 / answer e/c/c/x!late for 3 / finish e/c/k!late / finish e/k!late"
        ),
        validate=validate,
    )


def test_so_does_a_deadline():
    driver = Driver(whole(forking(forking(graph("x kept; y kept x")))), Run, "keep", True, Checker(), Story())
    script = steps(
        "finish e / save e.0 / finish e/c / save e/c.0 / finish e/c/c / save e/c/c.0 / land e/k / land e/c/k / "
        "expire e/k at 1 / expire e/c/k at 2 / expire e/c/c/x at 3 / finish e/c/k!late / finish e/k!late"
    )
    Player(driver).play(script.splitlines())
    assert "e/c/c" in [entry[0].expander for entry in driver.journal if isinstance(entry[0], records.Abandoned)]


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("first", ["finish e/c/t1/u / save e/c/t1/u.0 / ", ""])
def test_each_transaction_in_which_something_failed_is_taken_back(first, validate):
    """Abandoned(node='e/c/s', …), but ('e/c/t2/u',) was not undone"""
    both = graph(
        "t1 kept,transaction; t2 kept,transaction; s kept t1 t2", returning={"t1": [TRANSACTION], "t2": [TRANSACTION]}
    )
    play_script(
        whole(forking(both)),
        steps(
            "finish e / save e.0 / finish e/c / save e/c.0 / finish e/c/t1 / save e/c/t1.0 / finish e/c/t2 / "
            f"save e/c/t2.0 / {first}finish e/c/t2/u / save e/c/t2/u.0 / land e/k / land e/c/t1/x / land e/c/t2/x / "
            "expire e/k at 1 / answer e/c/t1/x!late for 2 failing 3 / answer e/c/t2/x!late for 2 failing 3 / "
            "finish e/k!late"
        ),
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_a_deadline_inside_of_a_graph_whose_time_is_over_counts(validate):
    """the recovery takes ('e/c/t1/u',), which nothing requires (an error of the judge)"""
    inner = graph("t1 kept,transaction; s kept t1", returning={"t1": [graph("u undoable; x kept; y kept u x")]})
    play_script(
        whole(forking(inner)),
        steps(
            "finish e / save e.0 / finish e/c / save e/c.0 / finish e/c/t1 / save e/c/t1.0 / finish e/c/t1/u / "
            "land e/k / expire e/k at 1 / expire e/c/s at 2 / finish e/k!late"
        ),
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_a_deadline_takes_nothing_back_of_a_graph_that_was_quicker_although_one_around_it_ends(validate):
    """the recovery takes ('e/c/t/u',), which nothing requires"""
    inner = graph(
        "k default; t kept,transaction; f kept,aside t",
        sink="k",
        returning={"t": [graph("u undoable; x kept; y kept u x")]},
    )
    play_script(
        whole(graph("c kept; x default; b kept c x", returning={"c": [inner]})),
        steps(
            "finish e / save e.0 / finish e/c / save e/c.0 / finish e/c/t / save e/c/t.0 / finish e/c/t/u / "
            "land e/c/k / expire e/c/k at 2 / answer e/x for 1 / finish e/c/k!late"
        ),
        validate=validate,
    )


@pytest.mark.parametrize("last", ["finish e/n!late", "fail e/n!late", "end e/n!late"])
def test_an_attempt_that_was_lost_and_answers_after_all_has_started(last):
    """Else what it stands on is remembered for ever."""
    inner = graph("u undoable; n default u; x default; k kept n x")
    driver = Driver(
        graph("e kept; z kept e; y kept z; w kept y", returning={"e": [inner]}), Run, "keep", True, Checker(), Story()
    )
    player = Player(driver)
    driver.begin()
    script = (
        "finish e / save e.0 / finish e/u / save e/u.0 / land e/n / land e/x / answer e/x for 1 / lose running e/n / "
        f"save e/k.0 / {last} / finish z / save z.0 / finish y / save y.0"
    )
    for line in steps(script).splitlines():
        player._step(line)
    assert "e/u" not in driver.run.rows


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    "answers",
    [
        "answer e/t/n for 1 again\nanswer e/k for 1\nanswer e/x for 1",
        "answer e/k for 1\nanswer e/t/n for 1 again\nanswer e/x for 1",
    ],
)
def test_an_answer_to_end_a_graph_does_not_forget_what_is_taken_back_for_one_to_try_it_again(answers, validate):
    """Abandoned(node='e/s', …), but ('e/t/u',) was not undone"""
    transaction = graph("u undoable; n default; y kept u n")
    around = graph("t kept,transaction; x default; k default; s kept t x k", returning={"t": [transaction]})
    status = play_script(
        graph("e kept; z kept e", returning={"e": [around]}),
        f"""
        finish e
        save e.0
        finish e/t
        save e/t.0
        finish e/t/u
        save e/t/u.0
        land e/t/n
        land e/x
        land e/k
        {answers}
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("second", ["answer e/c/x!late for 2", "expire e/c/x at 2"])
def test_nor_inside_of_a_graph_whose_time_is_over_and_that_is_quicker(second, validate):
    """Abandoned(node='e/c/s', …), but ('e/c/t/u',) was not undone"""
    transaction = graph("u undoable; n default; y kept u n")
    inner = graph("t kept,transaction; x default; s kept t x", returning={"t": [transaction]})
    forking = graph("k default; c kept; f kept,aside c", sink="k", returning={"c": [inner]})
    play_script(
        graph("e kept; z kept e", returning={"e": [forking]}),
        f"""
        finish e
        save e.0
        finish e/c
        save e/c.0
        finish e/c/t
        save e/c/t.0
        finish e/c/t/u
        save e/c/t/u.0
        land e/k
        land e/c/x
        land e/c/t/n
        expire e/k at 1
        answer e/c/t/n!late for 2 again
        {second}
        finish e/k!late
        """,
        validate=validate,
    )
