"""`python -m tests.tools.simulation`."""

import pytest

from tests.tools.simulation import __main__ as command


@pytest.fixture
def call(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["simulation", *arguments])
        code = command.main()
        return code, capsys.readouterr().out

    return call


def test_it_plays_schedules_and_says_what_they_came_to(call):
    code, out = call("--schedules", "300")
    assert code == 0
    assert "300 schedules" in out
    assert "No violation" in out


def test_it_plays_one_seed(call):
    code, out = call("--seed", "3")
    assert code == 0
    assert "seed 3:" in out


def test_it_tells_the_story_of_a_violation(call):
    code, out = call("--schedules", "5000", "--rule", "cut")
    assert code == 1
    assert "breaks the law" in out
    assert "replay: python -m tests.tools.simulation --seed" in out


def test_ctrl_c_ends_it_quietly(call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "hunt", interrupted)
    code, out = call("--schedules", "300")
    assert code == 130
    assert "stopped" in out
