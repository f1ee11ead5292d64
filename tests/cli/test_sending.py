"""`onceflow send`."""

import json

from onceflow import Engine
from tests.cli.flows import answered


def test_an_event_is_sent_and_taken(onceflow):
    with Engine(onceflow.home, workers=1) as engine:
        engine.run_async(answered.bind(), name="s-1")
    told = json.loads(onceflow("send", "s-1", "answer", "yes", "--json").stdout)
    assert (told["name"], told["key"]) == ("s-1", "answer")
    assert onceflow("resume", "s-1").stdout == "yes and done\n"


def test_what_does_not_fit_or_comes_too_late_is_refused(onceflow):
    with Engine(onceflow.home, workers=1) as engine:
        engine.run_async(answered.bind(), name="s-2")
    assert "it waits for str" in onceflow.error("send", "s-2", "answer", "17", code=4)
    onceflow("cancel", "s-2")
    assert "it has ended (cancelled)" in onceflow.error("send", "s-2", "answer", "yes", code=4)
