"""`onceflow set-result`."""

import json

import pytest

from onceflow import Engine, TaskFailed
from tests.cli.flows import needy


@pytest.fixture
def failed(onceflow, tmp_path):
    """A run in which the task `need` has failed."""
    name = tmp_path.name
    with Engine(onceflow.home, workers=1) as engine, pytest.raises(TaskFailed):
        engine.run(needy.bind(str(tmp_path / "nothing")), name=name)
    return name


def test_the_result_is_given_and_the_run_goes_on(onceflow, failed):
    told = json.loads(onceflow("set-result", failed, "need", "by hand", "--json").stdout)
    assert (told["name"], told["task"]) == (failed, "need")
    assert onceflow("resume", failed).stdout == "by hand and done\n"


def test_both_at_once_and_not_twice(onceflow, failed):
    assert onceflow("set-result", failed, "need", "by hand", "--resume").stdout == "by hand and done\n"
    assert "the run is succeeded" in onceflow.error("set-result", failed, "need", "again", code=4)


def test_what_does_not_fit_is_refused(onceflow, failed):
    assert "it returns str" in onceflow.error("set-result", failed, "need", "17", code=4)
    assert "it has not failed" in onceflow.error("set-result", failed, "after", "17", code=4)
