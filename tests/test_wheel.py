"""What is packed: the wheel has only what users use, and from the source distribution everything can be made again."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = "_onceflow_pytest.py"
"""What pytest loads."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    """The files in the wheel."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_wheel_has_the_package_and_nothing_else(wheel: set[str]) -> None:
    package = {file for file in wheel if not file.split("/")[0].endswith(".dist-info")}

    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "onceflow").rglob("*.py")}
    assert package == {*sources, "onceflow/py.typed", PLUGIN}


def test_of_what_tests_need_the_wheel_has_only_what_users_test_with(wheel: set[str]) -> None:
    packages = {Path(file).parts[2] for file in wheel if file.startswith("onceflow/testing/")}

    assert packages == {"__init__.py", "demo", "kit", "servers"}
    assert [file for file in wheel if {"tests", "tools", "simulation", "chaos"} & set(Path(file).parts)] == []


def test_the_source_distribution_has_the_tests_and_their_tools(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}

    assert {"pyproject.toml", "LICENSE", "tests/test_wheel.py", "tests/tools/simulation/checker.py"} <= files
    assert {file.split("/")[0] for file in files if "/" in file} == {
        *("bench", "docs", "examples", "src", "tests", "tools")
    }
