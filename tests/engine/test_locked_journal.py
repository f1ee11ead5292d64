"""An engine whose journal another program keeps locked: it waits, says for what, and goes on; no run fails."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.errors import StorageBusy
from onceflow.storage import journal, lock_waits
from tests.engine.common import add, keep
from tests.storage.common import Child
from tests.storage.test_locked import IN_TURN, READING, Said


@pytest.mark.parametrize("script", [IN_TURN, READING])
def test_runs_wait_for_the_lock_and_go_on_while_other_calls_are_refused(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(lock_waits, "TELL_AFTER", 0.0)
    monkeypatch.setattr(journal, "AGAIN", 0.001)
    said = Said()
    lock_waits.logger.addHandler(said)
    found: queue.SimpleQueue[int] = queue.SimpleQueue()
    with Engine(tmp_path, workers=1, lock_timeout=0.001) as engine:
        engine.run(keep.bind(1), name="before")
        with Child(script, tmp_path / "journal.db") as reader:
            assert reader.read() == "held"
            # when
            thread = threading.Thread(target=lambda: found.put(engine.run(add.bind(keep.bind(2), 3), name="meanwhile")))
            thread.start()
            line = said.lines.get()
            # then
            assert f"locked by process {reader.process} (" in line
            with pytest.raises(StorageBusy) as caught:
                engine.delete("before")
            assert caught.value.processes == (reader.process,)
            reader.go_on()
            assert reader.read() == "released"
        assert found.get() == 5
        thread.join()
        # and
        assert not engine.broken
        assert [run.status for run in engine.list_runs()] == ["succeeded", "succeeded"]
        assert engine.run(keep.bind(4)) == 4
    lock_waits.logger.removeHandler(said)
