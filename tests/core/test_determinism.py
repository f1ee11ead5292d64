"""Any schedule, any loss, any crash: the same events give the same commands, and every effect is there once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.core.checks import definitions
from onceflow.core.model import events
from onceflow.core.run import Run
from tests.core.building import Drive, graph
from tests.core.random_graphs import random_graph, shape_of
from tests.core.replaying import Replay


def safe_graph(source, most):
    nodes = source.randint(3, most)
    while True:
        candidate = random_graph(source, nodes)
        if not definitions.blocked(shape_of(candidate)):
            return candidate


def disturb(drive, source, steps):
    """Answer in any order; now and then lose something."""
    for _ in range(steps):
        if drive.run.final is not None:
            return
        choices = [("lose", output) for output, row in drive.run.rows.items() if row.available & ~row.saved]
        choices += [("lose attempt", node) for node in drive.running]
        answers = [("finish", node) for node in drive.running] * 6 + [("save", part) for part in drive.saves] * 4
        answers += [("end", node) for node in drive.stopped] * 2 + [("undone", node) for node in drive.undos] * 3
        answers += [("rebuilt", node) for node in drive.rebuilding] * 2
        if not choices and not answers:
            return
        what, about = source.choice(choices + answers * 2)
        match what:
            case "lose":
                drive.lose(about)
            case "lose attempt":
                drive.lose(attempts=about)
            case "finish":
                drive.finish(about, small=source.random() < 0.6)
            case "save":
                drive.save(f"{about[0]}.{about[1]}")
            case "end":
                drive.end(about)
            case "undone":
                drive.undone(about)
            case "rebuilt":
                drive.finish_rebuilding(about)


class Recorded(Drive):
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.story = []

    def tell(self, event):
        answer = self.run.handle(event)
        self.story.append((event, answer))
        return self._note(answer)


@given(st.integers(0, 2**32))
def test_the_same_events_give_the_same_commands(seed):
    source = random.Random(seed)
    drive = Recorded(safe_graph(source, 10))
    first = drive.run.begin()
    drive._note(first)
    disturb(drive, source, 40)
    again = Run(drive.graph)
    assert again.begin() == first
    for event, answer in drive.story:
        assert again.handle(event) == answer


@given(st.integers(0, 2**32))
def test_telling_an_event_twice_changes_nothing_the_second_time(seed):
    source = random.Random(seed)
    drive = Recorded(safe_graph(source, 10))
    drive.begin()
    for _ in range(25):
        disturb(drive, source, 1)
        event = drive.story[-1][0] if drive.story else events.Lost()
        again = drive.run.handle(event)
        assert again == [] or isinstance(event, events.Lost | events.Ended), (event, again)
        drive._note(again)
    assert drive.play().status == "succeeded"


@given(st.integers(0, 2**32))
def test_after_any_losses_the_run_ends_with_every_effect_once(seed):
    source = random.Random(seed)
    replay = Replay(safe_graph(source, 10))
    replay.begin()
    disturb(replay, source, 60)
    assert replay.play().status == "succeeded"
    replay.check()


@given(st.integers(0, 2**32), st.booleans())
def test_after_any_losses_and_two_crashes_the_run_ends_with_every_effect_once(seed, late):
    source = random.Random(seed)
    replay = Replay(safe_graph(source, 9))
    replay.begin()
    for _ in range(2):
        disturb(replay, source, 40)
        replay = replay.crash(source.randint(0, len(replay.journal)), late=late)
    disturb(replay, source, 20)
    assert replay.play().status == "succeeded"
    replay.check()


def resumed(replay):
    """The run after a crash, resumed if it had ended."""
    replay = replay.crash(len(replay.journal), late=True)
    if replay.status in ("failed", "undone", "cancelled"):
        if not replay.run.dormant:  # it came to its end just now
            return resumed(replay)
        replay.tell(events.Resume())
    return replay


@given(st.integers(0, 2**32), st.sampled_from(["keep", "undo"]))
def test_a_run_that_failed_or_was_cancelled_ends_with_every_effect_once_when_it_is_resumed(seed, on_failure):
    source = random.Random(seed)
    replay = Replay(safe_graph(source, 9), on_failure=on_failure)
    replay.begin()
    for _ in range(2):
        disturb(replay, source, source.randint(0, 50))
        if replay.run.final is None:
            if replay.running and source.random() < 0.6:
                replay.raises(source.choice(list(replay.running)), permanent=True)
            else:
                replay.cancel(undo=source.random() < 0.5)
            disturb(replay, source, source.randint(0, 20))
        if source.random() < 0.5:
            replay.play()
        replay = resumed(replay)
    while replay.play().status != "succeeded":
        replay = resumed(replay)
    replay.check()


@pytest.mark.parametrize("order", [0, 1])
def test_one_loss_of_two_outputs_is_the_same_in_either_order(order):
    drive = Drive(graph("a loose; b loose; s kept a b; k kept; z kept a b s k"))
    drive.begin()
    drive.complete("a", "b", "s")
    answer = drive.lose(*["ab", "ba"][order])
    assert answer[:2] == ["+recovering a b s", "+dropped a b s"]
    assert sorted(answer[2:]) == ["drop a", "drop b", "drop s", "start a", "start b"]
