"""Snapshots of every released ABI, written by every Python we have: they can be loaded for ever."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from onceflow.authoring.fibers import ABI, Fiber, Version, header_of, register_version
from tests.authoring.fibers import comparing, world

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.zlib"))

pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")


def test_every_abi_has_its_snapshots() -> None:
    assert {path.name.partition("-")[0] for path in FILES} == {f"abi{number}" for number in range(1, ABI + 1)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_golden_snapshot_goes_on(path: Path) -> None:
    content = json.loads(zlib.decompress(path.read_bytes()))
    for plain in content["versions"]:
        register_version(Version.from_plain(plain))
    assert len(content["parked"]) > 80

    for parked in content["parked"]:
        world.entries.clear()
        fiber = Fiber.loads(bytes.fromhex(parked["data"]))
        while not fiber.done:
            world.answer(fiber)
        outcome = comparing.outcome_of(lambda fiber=fiber: comparing.ended(fiber), "")  # type: ignore[misc]

        native = comparing.expected(parked["module"], parked["case"])
        assert outcome.result == native.result, parked["case"]
        assert kinds(outcome.error) == kinds(native.error), parked["case"]
        assert outcome.log == native.log[parked["logged"] :], parked["case"]


def kinds(error: Any) -> Any:
    """An exception without the lines of its traceback: those name the folder in which it was raised."""
    if not isinstance(error, dict):
        return error
    chain = {name: kinds(error[name]) for name in ("cause", "context")}
    return {"type": error["type"], "args": error["args"], **chain}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_versions_are_equal_on_all_pythons(path: Path) -> None:
    """Whatever did not change since has the same version on the Python that runs this test."""
    content = json.loads(zlib.decompress(path.read_bytes()))
    ours = json.loads(zlib.decompress(FILES[0].read_bytes()))

    theirs = {plain["ref"]: plain["version"] for plain in content["versions"]}
    assert theirs == {plain["ref"]: plain["version"] for plain in ours["versions"]}
    for parked in content["parked"]:
        header = header_of(bytes.fromhex(parked["data"]))
        assert all(frame["version"] == theirs[frame["ref"]] for frame in header["frames"])
