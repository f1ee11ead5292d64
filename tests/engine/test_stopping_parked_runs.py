"""Ctrl-C while a program waits for a run that is parked."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from onceflow import Engine
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


def test_one_ctrl_c_is_enough_to_stop_waiting_for_a_parked_run(tmp_path: Path) -> None:
    pressed: list[int] = []
    over = threading.Event()

    def press(engine: Engine) -> None:
        until(lambda: len(engine._hub.parked.parking))  # type: ignore[attr-defined]
        while not over.is_set() and len(pressed) < 4:
            pressed.append(1)
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(LONG / 20)

    with Engine(tmp_path / "home", workers=1) as engine:
        presser = threading.Thread(target=press, args=(engine,), daemon=True)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            engine.run(waiting.bind(), name="stopped")
        over.set()
        presser.join()
        assert len(pressed) == 1
        assert engine.status("stopped") == "interrupted"
