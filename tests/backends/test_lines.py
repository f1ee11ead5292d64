"""Runs take turns in a line."""

from __future__ import annotations

from onceflow.backends.local.fair_queue import Line, Shares
from onceflow.backends.local.messages import Job


def job(token: int, run: str, priority: int = 0) -> Job:
    return Job(token, "", "", b"", context={"run": run}, priority=priority)


def line_of(*jobs: Job) -> Line:
    line = Line()
    for each in jobs:
        line.add(each)
    return line


def taken(line: Line, count: int) -> list[str]:
    """The runs of the next ones, taken one by one."""
    runs = []
    for _ in range(count):
        first = next(iter(line))
        line.take(first)
        runs.append(str(first.context["run"]))
    return runs


def test_of_one_run_first_come_is_first_served() -> None:
    line = line_of(*[job(token, "a") for token in (1, 2, 3)])
    assert [each.token for each in line] == [1, 2, 3]


def test_a_run_that_comes_late_has_the_next_turn() -> None:
    line = line_of(*[job(token, "many") for token in range(1, 1000)])
    assert taken(line, 3) == ["many"] * 3
    line.add(job(1000, "one"))
    assert taken(line, 3) == ["one", "many", "many"]


def test_runs_take_turns_within_a_look_and_from_look_to_look() -> None:
    jobs = [job(1, "a"), job(2, "a"), job(3, "b"), job(4, "b"), job(5, "c")]
    assert [each.context["run"] for each in line_of(*jobs)] == ["b", "a", "c", "b", "a"]
    assert taken(line_of(*jobs), 5) == ["b", "a", "c", "b", "a"]


def test_a_higher_priority_has_more_of_the_turns_and_nobody_starves() -> None:
    line = line_of(*[job(token, "low", -1) for token in range(1, 100)])
    for token in range(100, 200):
        line.add(job(token, "high", 2))
    served = taken(line, 50)
    assert served.count("high") == 40
    assert served.count("low") == 10


def test_what_a_worker_gave_back_comes_before_all_others() -> None:
    line = line_of(job(1, "a"), job(2, "b"))
    line.returned[3] = job(3, "c")
    assert taken(line, 3) == ["c", "b", "a"]


def test_a_line_counts_what_is_in_it() -> None:
    young = job(3, "b")
    young.young = True
    line = line_of(job(1, "a"), job(2, "a"), young)
    assert (len(line), line.young) == (3, 1)
    assert line.remove(3)
    assert not line.remove(3)
    assert (len(line), line.young) == (2, 0)
    assert line.find(2) is not None
    assert line.find(3) is None


def test_in_different_lines_who_has_had_least_goes_first() -> None:
    shares, many, one = Shares(), job(1, "many"), job(9, "one")
    for _ in range(10):
        shares.note(many)
    assert shares.of(one) < shares.of(many)
    shares.note(one)
    assert shares.of(one) == shares.of(many)
