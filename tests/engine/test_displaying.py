"""Showing how runs get on while somebody waits for them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.engine.display import refresh
from onceflow.engine.display.progress_view import View
from onceflow.engine.display.refresh import Displaying, Lines
from onceflow.engine.inspect.overview import Overview
from tests.engine.common import keep, pass_door
from tests.engine.test_views import CHARGE, LOAD, SHAKY, info, overview
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script, started
from tests.helpers.waiting import LONG, until


class Stderr:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    @property
    def text(self) -> str:
        """All that was written."""
        self._text += self._capsys.readouterr().err
        return self._text


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stderr:
    """Where everything is shown at once."""
    monkeypatch.setattr(refresh, "DELAYS", {"live": 0.0, "lines": 0.0, "json": 0.0})
    monkeypatch.setattr(refresh, "INTERVALS", {"live": 0.01, "lines": 0.01, "json": 0.01})
    return Stderr(capsys)


def test_lines_tell_of_a_run_now_and_then_and_of_trouble_once() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    seen = overview(LOAD, SHAKY, CHARGE, done=3, running=1, waiting=1, retrying=1)
    for _ in range(3):
        lines.show([View(info(), seen, 2, 1.0)])
    lines.end(View(info(status="succeeded"), overview(done=6, live=False), 9))
    told = [line.split("  ", 2)[1:] for line in stream.getvalue().splitlines()]
    assert told == [
        ["order-7", "shaky: retrying, raised ValueError: no, is tried again in less than a second"],
        ["order-7", "running, 3 of 6 done, 1 running, 1 waiting, 1 retrying, 1.0/s, 0:02: load 35 %"],
        ["order-7", "succeeded after 9.0 s, 6 tasks"],
    ]


def test_lines_for_programs_are_objects() -> None:
    stream = io.StringIO()
    lines = Lines(stream, as_json=True)
    lines.show([View(info(), overview(LOAD, SHAKY, running=1, retrying=1), 2, 1.0), View(info("s"), None, 1)])
    trouble, one, two = map(json.loads, stream.getvalue().splitlines())
    assert (trouble["id"], trouble["task"], trouble["state"], trouble["error"]) == (
        "r",
        "shaky",
        "retrying",
        "ValueError: no",
    )
    assert one["counts"] == {"running": 1, "retrying": 1}
    assert one["running"] == [{"id": "load", "started": 0.0, "progress": {"done": 7, "total": 20, "note": "rows"}}]
    assert (two["status"], two["counts"], two["live"]) == ("running", None, False)


def test_a_run_that_ends_soon_is_not_mentioned(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(refresh.DELAYS, "lines", LONG)
    with Displaying(engine, lambda: engine.active):
        engine.run(keep.bind(1))
    assert capsys.readouterr() == ("", "")


def test_who_waits_is_shown_how_the_run_gets_on(tmp_path: Path, door: Door, stderr: Stderr) -> None:
    with Engine(tmp_path / "home", workers=1, progress=True) as engine:
        handle = engine.run_async(keep.bind(pass_door.bind(door.path)), name="watched")
        door.wait()
        assert stderr.text == ""
        with engine.show_progress():
            until(lambda: "watched  running, 0 of 2 done, 1 running, 1 waiting" in stderr.text)
            door.open()
            handle.result(60)
    assert "watched  succeeded after " in stderr.text.splitlines()[-1]


@pytest.mark.parametrize("wait", ["result", "wait"])
def test_waiting_for_a_handle_shows_its_run(tmp_path: Path, stderr: Stderr, wait: str) -> None:
    entered = []

    class Counting:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None:
            pass

    with Engine(tmp_path / "home", workers=1) as engine:
        engine._display = Counting()
        getattr(engine.run_async(keep.bind(1)), wait)()
        assert len(entered) <= 1  # it may have been too quick
        engine.run(keep.bind(1))
        engine.run_many([keep.bind(1), keep.bind(2)])
        assert len(entered) >= 4


def test_several_threads_that_wait_share_one_display(engine: Engine, door: Door, stderr: Stderr) -> None:
    display = Displaying(engine, lambda: engine.active)
    handle = engine.run_async(pass_door.bind(door.path), name="shared")
    with display:
        first = display._thread
        with display:
            assert display._thread is first
        until(lambda: "shared" in stderr.text)
        door.open()
        handle.result(60)
    assert display._thread is None
    with display:
        assert display._thread not in (first, None)


def test_trouble_with_showing_concerns_nobody_else(
    engine: Engine, door: Door, stderr: Stderr, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down() -> list[str]:
        raise RuntimeError("broken")

    handle = engine.run_async(pass_door.bind(door.path))
    with Displaying(engine, break_down):
        until(lambda: "progress cannot be shown: RuntimeError: broken" in caplog.text)
        door.open()
        assert handle.result(60) == "through"


def test_the_setting_is_found_in_the_environment(tmp_path: Path, door: Door) -> None:
    # given
    script = """
    import sys

    from onceflow import run
    from onceflow.engine.display import refresh
    from tests.engine.common import pass_door

    refresh.DELAYS["lines"] = 0.0
    refresh.INTERVALS["lines"] = 0.01
    print(run(pass_door.bind(sys.argv[1]), name="s"))
    """
    # when
    with started(tmp_path, script, door.path, ONCEFLOW_PROGRESS="1") as process:
        assert process.stderr is not None
        assert any("  s  running, 0 of 1 done" in line for line in process.stderr)
        door.open()
        output, errors = process.communicate(timeout=LONG)
    # then
    assert output == "through\n"
    assert "  s  succeeded after " in errors
    assert run_script(tmp_path, script, door.path, ONCEFLOW_PROGRESS="0") == "through\n"


def test_a_line_about_nothing_known() -> None:
    stream = io.StringIO()
    Lines(stream).show([View(info(), Overview({}, [], []), 0)], hidden=1)
    first, second = stream.getvalue().splitlines()
    assert "0 of 0 done" in first
    assert second.endswith("  and 1 more run")
