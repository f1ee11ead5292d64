"""A fiber goes on in another process: every function of the corpus, from every await."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.authoring.fibers import comparing, world
from tests.authoring.fibers.resuming import Parked, Resumed

ROOT = Path(__file__).resolve().parents[3]

OF_ONE_PROCESS = {"case_globals", "case_global_in_a_branch"}
"""Cases that use what only their own process has."""

pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")


def parked(module: str, *, full: bool = True) -> list[Parked]:
    """All functions of a module at each of their awaits, saved."""
    found = []
    for case in set(comparing.cases(module)) - OF_ONE_PROCESS:
        for number, fiber in enumerate(comparing.steps(getattr(comparing.durable_module(module), case))):
            found.append(Parked(module, case, number, len(world.entries), fiber.dumps(full=full)))
    return found


def resume(all_parked: list[Parked], folder: Path, python: str = sys.executable) -> list[Resumed]:
    """Lets another process finish them."""
    (folder / "parked").write_bytes(pickle.dumps([tuple(each) for each in all_parked]))
    subprocess.run(
        [python, "-W", "ignore", "-m", "tests.authoring.fibers.resuming", str(folder / "parked"), str(folder / "done")],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=True,
        timeout=120,
    )
    return [Resumed(*each) for each in pickle.loads((folder / "done").read_bytes())]


@pytest.mark.parametrize("module", comparing.modules())
def test_every_await_can_be_resumed_in_a_fresh_process(module: str, tmp_path: Path) -> None:
    saved = parked(module)

    resumed = resume(saved, tmp_path)

    for before, after in zip(saved, resumed, strict=True):
        native = comparing.expected(module, before.case)
        assert (after.case, after.number) == (before.case, before.number)
        assert after.outcome == (native.result, native.error, native.log[before.logged :]), before.case
