"""The training example under the failures that ExoFlow's evaluation names (Figure 6R): each is recovered to the same
weights, and no more is repeated than the law requires."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.driver.actors import Version
from onceflow.driver.driver import Driver
from tests.engine.acting import through_door
from tests.helpers.doors import Door
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.py"
EPOCHS, IMAGES, GATE = 8, 120, 7
"""The accident happens before the last epoch: the workers were last saved after epoch 4."""


@pytest.fixture(scope="module")
def example():
    """The example as a module that workers find."""
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        yield importlib.import_module("training")
    finally:
        sys.path.remove(str(EXAMPLE.parent))


@pytest.fixture(scope="module")
def weights(engine: Engine, example) -> str:
    """Those of a run to which nothing happens."""
    return engine.run(example.training.bind(EPOCHS, IMAGES))


def repeated(engine: Engine, run: str) -> dict[str, int]:
    """Task → how many attempts more than one it took, of those that took more."""
    tasks = Counter(attempt.id for attempt in engine.list_attempts(run))
    return {task: count - 1 for task, count in tasks.items() if count > 1 and task != "through_door"}


def play(engine: Engine, example, door: Door, name: str, accident: Callable[[Driver], Any]) -> str:
    """A run to which something happens while its last epoch waits. The accident may tell how it is seen that it was
    noticed."""
    gate = through_door.bind(door.path)
    handle = engine.run_async(example.training.bind(EPOCHS, IMAGES, gates={GATE: gate}), name=name)
    door.wait()
    driver = engine._hub.runs.active[handle.id][0]
    last, prepared = f"train_{GATE - 1}", [f"augment_{n}" for n in range(4 * GATE, 4 * GATE + 4)]
    until(lambda: engine._hub.ask(lambda: all(node in driver.outputs for node in (last, *prepared))))
    noticed = engine._hub.ask(lambda: accident(driver))
    if noticed is not None:
        until(noticed)
    door.open()
    return handle.result()


def lose_output(driver: Driver, node: str) -> None:
    assert driver.forget(node)


def kill_actor(driver: Driver, node: str) -> Callable[[], bool]:
    version = driver.outputs.get(node, 1)
    assert isinstance(version, Version)
    assert version.instance is not None
    pool = driver.host._runs.workers.pool  # type: ignore[attr-defined]
    (worker,) = [worker for worker in pool._workers.values() if worker.host == version.instance.id]
    os.kill(worker.pid, signal.SIGKILL)
    instance = version.instance
    return lambda: instance.dead


def test_nothing_is_repeated_if_nothing_happens(engine: Engine, example, door: Door, weights: str):
    assert play(engine, example, door, "calm", lambda driver: None) == weights
    assert repeated(engine, "calm") == {}


def test_ingested_images_that_are_lost_are_read_from_what_was_saved(engine: Engine, example, door: Door, weights: str):
    assert play(engine, example, door, "ingest", lambda driver: lose_output(driver, "ingest")) == weights
    assert repeated(engine, "ingest") == {}


def test_prepared_images_that_are_lost_are_prepared_again(engine: Engine, example, door: Door, weights: str):
    lost = f"augment_{4 * GATE}"
    assert play(engine, example, door, "data", lambda driver: lose_output(driver, lost)) == weights
    assert repeated(engine, "data") == {lost: 1}


def test_a_worker_that_dies_is_restored_and_the_epochs_since_then_are_repeated(
    engine: Engine, example, door: Door, weights: str
):
    assert play(engine, example, door, "actor", lambda driver: kill_actor(driver, f"train_{GATE - 1}")) == weights
    assert repeated(engine, "actor") == {"train_5": 1, "train_6": 1}


def test_a_preparation_that_is_killed_is_repeated_and_nothing_else(
    engine: Engine, example, weights: str, tmp_path: Path
):
    accident = tmp_path / "accident"
    accident.touch()
    node = example.training.bind(EPOCHS, IMAGES, accidents={3: str(accident)})
    assert engine.run(node, name="preparation") == weights
    assert not accident.exists()
    assert set(repeated(engine, "preparation")) <= {f"augment_{n}" for n in range(12, 24)}


def test_if_everything_is_killed_the_run_goes_on_from_the_last_saved_workers(weights: str, tmp_path: Path):
    body = f"""
        import sys, time
        sys.path.insert(0, {str(EXAMPLE.parent)!r})
        import os
        from onceflow import run, task
        from onceflow.runs import list_attempts
        from training import training

        @task.pure
        def gate():
            if os.path.exists("wait"):
                print("here", flush=True)
                time.sleep(100)

        print(run(training.bind({EPOCHS}, {IMAGES}, gates={{{GATE}: gate.bind()}}), name="n"))
        done = [attempt for attempt in list_attempts("n") if attempt.attempt.startswith("2.")]
        print(*sorted({{attempt.id for attempt in done if attempt.id != "gate"}}))
    """
    (tmp_path / "wait").touch()
    with started(tmp_path, body) as process:
        assert "here" in process.stdout.readline()
        saved = tmp_path / "home"
        until(lambda: _is_saved(saved, "train_4"))
        kill(process)
    (tmp_path / "wait").unlink()
    found, again = run_script(tmp_path, body).splitlines()
    assert found == weights
    trained = [task for task in again.split() if task.startswith("train")]
    assert trained[0] == "train_5"
    assert "ingest" not in again.split()


def _is_saved(home: Path, task: str) -> bool:
    from onceflow.errors import OnceflowError

    with Engine(home, workers=1) as engine:
        try:
            engine.get_output("n", task=task)
        except OnceflowError:
            return False
    return True
