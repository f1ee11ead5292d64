"""Packages: the docstring of each lists its modules, so the way to a file is found by reading docstrings alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import onceflow

ROOT = Path(onceflow.__file__).parent
PROJECT = ROOT.parents[1]
PACKAGES = sorted(
    path.parent
    for folder in (ROOT, PROJECT / "tests" / "tools")
    for path in folder.rglob("__init__.py")
    if path.parent != ROOT
)
ENTRY = re.compile(r"^- `(\w+)`: \S", re.MULTILINE)


def modules_of(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py")}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    return (files | folders) - {"__init__", "__main__"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(PROJECT).as_posix())
def test_a_package_lists_its_modules(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""

    listed = ENTRY.findall(text)

    assert sorted(listed) == sorted(modules_of(package))


def test_the_architecture_names_files_that_exist() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text("utf-8")

    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page)

    assert len(named) > 60
    assert [path for path in named if not (ROOT / path).exists()] == []
