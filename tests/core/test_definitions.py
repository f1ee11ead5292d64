"""The definitions of the law on graphs small enough to judge by hand."""

import pytest

from onceflow.core.checks import definitions
from onceflow.core.checks.definitions import Facts, Member, Shape
from onceflow.core.model.refs import RefPart


def member(id, *reads, effect="none", deterministic=False, checkpoint=False, after=(), parts=1, expander=None):
    parents = {**dict.fromkeys(reads, 1), **dict.fromkeys(after, 0)}
    return Member(id, parents, effect, deterministic, checkpoint, parts, expander)


def facts(*members, done="", saved="", begun="", memory=None, recorded=""):
    """Facts in which `done` nodes are visible and, unless `memory` says otherwise, in memory."""
    shape = Shape(members)
    in_memory = done if memory is None else memory
    return Facts(
        shape,
        done=shape.set_of(done),
        visible=shape.set_of(done),
        begun=shape.set_of(begun),
        recorded=shape.set_of(recorded),
        memory=[shape.every_part[x] if m.id in in_memory else 0 for x, m in enumerate(shape.members)],
        saved=[shape.every_part[x] if m.id in saved else 0 for x, m in enumerate(shape.members)],
    )


def names(known, members):
    return set(known.shape.names(members))


def settled(known):
    return names(known, definitions.settled(known))


# -- the shape -------------------------------------------------------------------------------------------------------


def test_members_may_be_given_in_any_order():
    shape = Shape([member("c", "b"), member("b", "a"), member("a")])
    assert [m.id for m in shape.members] == ["a", "b", "c"]
    assert shape.names(shape.ancestors[2]) == ("a", "b")
    assert shape.names(shape.descendants[0]) == ("b", "c")


def test_a_long_chain_needs_no_recursion():
    chain = [member("0")] + [member(str(n), str(n - 1)) for n in range(1, 3000)]
    shape = Shape(reversed(chain))
    assert [m.id for m in shape.members] == [m.id for m in chain]


# -- 2.2 states of an output -----------------------------------------------------------------------------------------


def test_a_saved_node_without_ancestors_is_settled():
    assert settled(facts(member("a"), member("z", "a"), done="a", saved="a")) == {"a"}


def test_an_unsaved_node_is_settled_when_all_its_consumers_are():
    members = member("a"), member("b", "a"), member("c", "a")
    assert settled(facts(*members, done="abc", saved="b")) == set()
    assert settled(facts(*members, done="abc", saved="bc")) == {"a", "b", "c"}


def test_an_unsaved_node_without_consumers_is_not_settled():
    assert settled(facts(member("a"), done="a")) == set()


def test_a_saved_node_is_not_settled_while_a_nondeterministic_ancestor_is_not():
    members = member("a"), member("s", "a"), member("m", "a")
    assert settled(facts(*members, done="as", saved="s")) == set()


def test_an_unsettled_repeatable_ancestor_does_not_keep_a_node_from_being_settled():
    members = member("a", deterministic=True), member("s", "a"), member("m", "a")
    assert settled(facts(*members, done="as", saved="s")) == {"s"}


def test_a_deterministic_undoable_ancestor_is_not_repeatable():
    members = member("a", effect="undoable", deterministic=True), member("s", "a"), member("m", "a")
    assert settled(facts(*members, done="as", saved="s")) == set()


def test_settled_is_the_greatest_set_and_not_what_can_be_built_up_from_below():
    # s is settled only if a is, and a only if s is: both are.
    assert settled(facts(member("a"), member("s", "a"), done="as", saved="s")) == {"a", "s"}


def test_a_done_record_counts_as_a_save():
    members = member("a", effect="irrevocable"), member("z", after="a")
    assert settled(facts(*members, done="a", recorded="a")) == {"a"}


def test_a_node_is_saved_only_with_all_its_parts():
    known = facts(member("a", parts=2), member("z", "a"), done="a")
    known.saved[0] = 0b01
    assert settled(known) == set()
    known.saved[0] = 0b11
    assert settled(known) == {"a"}


def test_quiet_means_repeatable_or_settled_all_the_way_up():
    members = member("a"), member("d", "a", deterministic=True), member("z", "d")
    assert names(facts(*members), definitions.quiet(facts(*members, done="ad"))) == set()
    known = facts(*members, done="ad", saved="a")
    assert names(known, definitions.quiet(known)) == {"a", "d"}


def test_reproducible_means_saved_or_computable_from_what_is():
    members = member("a"), member("d", "a", deterministic=True), member("u", effect="undoable", deterministic=True)
    known = facts(*members, done="adu")
    assert names(known, definitions.reproducible(known)) == set()
    known = facts(*members, done="adu", saved="a")
    assert names(known, definitions.reproducible(known)) == {"a", "d"}


# -- 2.3 when may a ready task start? --------------------------------------------------------------------------------


def test_a_task_without_effect_starts_as_soon_as_its_inputs_are_available():
    members = member("a"), member("b", "a")
    assert definitions.why_not_start(facts(*members), "b") == "the output of a is not available"
    assert definitions.may_start(facts(*members, done="a"), "b")


def test_a_task_waits_for_parents_it_does_not_read():
    members = member("a"), member("b", after="a")
    assert definitions.why_not_start(facts(*members), "b") == "a is not done"
    assert definitions.may_start(facts(*members, done="a", memory=""), "b")


def test_an_undoable_task_starts_when_its_parents_are_reproducible():
    members = member("a"), member("u", "a", effect="undoable")
    assert definitions.why_not_start(facts(*members, done="a"), "u") == "a is not reproducible"
    assert definitions.may_start(facts(*members, done="a", saved="a"), "u")


def test_an_irrevocable_task_starts_when_its_parents_are_quiet():
    members = member("a"), member("n", "a", effect="irrevocable")
    assert definitions.why_not_start(facts(*members, done="a"), "n") == "a is not quiet"
    assert definitions.may_start(facts(*members, done="a", saved="a"), "n")


def test_an_effectful_nested_task_waits_for_the_save_of_its_graph():
    members = member("e", deterministic=True), member("n", "e", effect="irrevocable", expander="e")
    assert definitions.why_not_start(facts(*members, done="e"), "n") == "the graph that e returned is not saved"
    assert definitions.may_start(facts(*members, done="e", saved="e"), "n")


# -- 2.4 check before the run ----------------------------------------------------------------------------------------


def test_a_graph_is_blocked_where_an_irrevocable_task_stands_on_something_that_is_never_saved():
    shape = Shape(
        [member("a"), member("n", "a", effect="irrevocable", checkpoint=True), member("z", "n", checkpoint=True)]
    )
    assert shape.names(definitions.blocked(shape)) == ("n", "z")


def test_the_default_options_are_safe():
    shape = Shape(
        [member("a", effect="irrevocable", checkpoint=True), member("b", "a", effect="irrevocable", checkpoint=True)]
    )
    assert definitions.blocked(shape) == 0


def test_an_unsaved_effectful_task_that_others_only_wait_for_writes_a_done_record():
    waited_for = Shape(
        [member("a", effect="irrevocable"), member("b", after="a", effect="irrevocable", checkpoint=True)]
    )
    assert waited_for.writes_done_record(0)
    assert not waited_for.writes_done_record(1)
    assert definitions.blocked(waited_for) == 0
    read = Shape([member("a", effect="irrevocable"), member("b", "a", effect="irrevocable", checkpoint=True)])
    assert not read.writes_done_record(0)
    assert read.names(definitions.blocked(read)) == ("b",)


# -- 2.5 recovery ----------------------------------------------------------------------------------------------------


def rerun(known, failed=""):
    return names(known, definitions.rerun(known, known.shape.set_of(failed)))


def test_a_failed_task_needs_the_producer_of_every_unavailable_input():
    members = (
        member("a", deterministic=True),
        member("b", "a", deterministic=True),
        member("c", "b", deterministic=True),
    )
    assert rerun(facts(*members, done="ab", memory=""), failed="c") == {"a", "b", "c"}
    assert rerun(facts(*members, done="ab", memory="a"), failed="c") == {"b", "c"}


def test_a_control_only_parent_is_not_an_input():
    members = member("a"), member("b", after="a")
    assert rerun(facts(*members, done="a", memory=""), failed="b") == {"b"}


def test_only_the_parts_that_are_read_are_needed():
    known = facts(Member("a", {}, deterministic=True, parts=2), Member("b", {"a": 0b01}), done="a", memory="")
    known.memory[0] = 0b01
    assert rerun(known, failed="b") == {"b"}
    known.memory[0] = 0b10
    assert rerun(known, failed="b") == {"a", "b"}


def test_descendants_of_a_nondeterministic_member_that_was_visible_run_again():
    members = member("a"), member("b", "a"), member("c", "b"), member("d", "a")
    assert rerun(facts(*members, done="abc", saved="bc", memory=""), failed="d") == {"a", "b", "c", "d"}


def test_descendants_of_a_repeatable_member_stay():
    members = member("a", deterministic=True), member("b", "a"), member("d", "a")
    assert rerun(facts(*members, done="ab", saved="b", memory=""), failed="d") == {"a", "d"}


def test_a_checkpoint_that_was_lost_before_it_was_saved_runs_again_unless_it_is_settled():
    members = member("a", checkpoint=True), member("b", "a")
    assert rerun(facts(*members, done="ab", memory="b")) == {"a", "b"}
    assert rerun(facts(*members, done="ab", saved="b", memory="b")) == set()
    assert rerun(facts(*members, done="ab", memory="ab")) == set()


def test_begun_undoable_members_are_undone():
    members = member("a"), member("u", "a", effect="undoable"), member("v", "a", effect="undoable")
    known = facts(*members, done="a", begun="u")
    assert names(known, definitions.undone_by(known, known.shape.everyone)) == {"u"}


# -- 2.8 sagas -------------------------------------------------------------------------------------------------------


def test_a_saga_takes_back_what_nothing_irrevocable_builds_on():
    members = (
        member("u", effect="undoable"),
        member("n", "u", effect="irrevocable"),
        member("v", effect="undoable"),
        member("w", "v"),
        member("z", "n", "w"),
    )
    known = facts(*members, done="uvw", begun="uv")
    assert names(known, definitions.saga(known)) == {"u", "n", "v", "w", "z"}
    assert definitions.kept(known) == 0
    known = facts(*members, done="unvw", saved="u", begun="unv")
    assert names(known, definitions.saga(known)) == {"v", "w", "z"}
    assert names(known, definitions.kept(known)) == {"u"}


def test_a_saga_keeps_what_would_make_something_run_again_under_an_irrevocable_task():
    # dropping g would make b run again, and with it f and n
    members = (
        member("b"),
        member("f", "b"),
        member("n", "f", effect="irrevocable"),
        member("c", effect="undoable"),
        member("g", "b", "c"),
        member("z", "n", "g"),
    )
    known = facts(*members, done="bfcg", saved="fcg", begun="nc")
    assert names(known, definitions.stood_on(known)) == {"b", "f", "c", "g"}
    assert names(known, definitions.kept(known)) == {"c"}
    assert definitions.saga(known) == 0
    known = facts(*members, done="bfcg", saved="bfcg", begun="nc")
    assert names(known, definitions.stood_on(known)) == {"b", "f"}
    assert names(known, definitions.saga(known)) == {"c", "g", "z"}


# -- 2.7 references -------------------------------------------------------------------------------------------------


def with_refs(known, **held):
    """The same facts with these refs in the outputs of nodes with one declared part, all in memory."""
    for id, refs in held.items():
        x = known.shape.position[id]
        known.refs[x] = dict(enumerate(refs, 1))
        known.memory[x] |= known.every_part(x) & ~1
    return known


def lose(known, *parts):
    for id, part in parts:
        known.memory[known.shape.position[id]] &= ~(1 << part)


def test_the_refs_in_an_output_are_parts_of_it_and_read_with_it():
    known = with_refs(
        facts(member("a"), member("b", "a"), member("c", after="a"), done="a"), a=[RefPart(1), RefPart(0)]
    )
    assert known.every_part(0) == 0b111
    assert list(known.reads(1)) == [(0, 0b11)]
    assert list(known.reads(2)) == [(0, 0)]


def test_an_output_is_saved_only_with_its_refs():
    known = with_refs(facts(member("a"), done="a", saved="a"), a=[RefPart(1)])
    assert not known.is_saved(0)
    known.saved[0] = 0b11
    assert known.is_saved(0)


def relay(**options):
    """`m` makes a ref, `r` and `s` pass it on, `w` reads it."""
    members = member("m", deterministic=True), member("r", "m"), member("s", "r", **options), member("w", "s")
    passed = {"m": [RefPart(1)], "r": [RefPart(1, ("m", 1))], "s": [RefPart(1, ("r", 1))]}
    return with_refs(facts(*members, done="mrs"), **passed)


def test_a_ref_is_available_where_its_origin_is():
    known = relay()
    lose(known, ("s", 1), ("r", 1))
    assert definitions.may_start(known, "w")
    lose(known, ("m", 1))
    assert not definitions.may_start(known, "w")


def test_a_lost_ref_is_made_again_by_the_task_that_made_it():
    known = relay()
    lose(known, ("m", 1), ("r", 1), ("s", 1))
    assert names(known, definitions.rerun(known, known.shape.set_of("w"))) == {"m", "w"}
    known.saved[known.shape.position["r"]] = 0b10
    assert names(known, definitions.rerun(known, known.shape.set_of("w"))) == {"w"}


def test_a_checkpoint_whose_ref_is_lost_lets_the_maker_of_the_ref_run_again():
    known = relay(checkpoint=True)
    lose(known, ("m", 1), ("r", 1), ("s", 1))
    assert names(known, definitions.rerun(known, 0)) == {"m"}


def test_a_ref_whose_origin_cannot_be_found_counts_as_made_where_the_chain_is_cut():
    known = relay()
    lose(known, ("m", 1), ("r", 1), ("s", 1))
    del known.refs[known.shape.position["m"]]
    assert names(known, definitions.rerun(known, known.shape.set_of("w"))) == {"r", "s", "w"}
    known.refs[known.shape.position["r"]] = {1: RefPart(1, ("gone", 1))}
    assert names(known, definitions.rerun(known, known.shape.set_of("w"))) == {"r", "s", "w"}


def test_an_output_that_is_passed_as_a_ref_is_made_again_by_its_node():
    members = member("m", deterministic=True), member("r", "m"), member("w", "r")
    known = with_refs(facts(*members, done="mr"), r=[RefPart(1, ("m", 0))])
    lose(known, ("m", 0), ("r", 1))
    assert names(known, definitions.rerun(known, known.shape.set_of("w"))) == {"m", "w"}


# -- 6.1 the worst case ----------------------------------------------------------------------------------------------


def test_the_worst_case_finds_an_irrevocable_task_that_would_run_again_with_other_inputs():
    members = member("a"), member("s", "a"), member("n", "s", effect="irrevocable"), member("m", "a")
    assert definitions.worst_case(facts(*members, done="as", saved="s", begun="n")) == (
        "n has begun and would run again after a, s"
    )
    assert definitions.worst_case(facts(*members, done="asm", saved="sm", begun="n")) is None


def test_the_worst_case_finds_an_undo_under_something_irrevocable():
    members = (
        member("T", effect="undoable", deterministic=True),
        member("n", after="T", effect="irrevocable"),
        member("m", "T"),
    )
    assert definitions.worst_case(facts(*members, done="Tn", saved="n", begun="Tn")) == (
        "n has begun and would run again after T"
    )


@pytest.mark.parametrize("done", ["", "a", "as"])
def test_nothing_begun_means_no_worst_case(done):
    members = member("a"), member("s", "a"), member("n", "s", effect="irrevocable"), member("m", "a")
    assert definitions.worst_case(facts(*members, done=done)) is None
