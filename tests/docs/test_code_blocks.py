"""Every Python block of README.md and docs/ runs.

The blocks of one file run in order and share one namespace, as a reader would type them. A block that cannot run is
fenced as ```python no-run, which only docs/design.md may do: it also shows programs that are still to come.
"""

from __future__ import annotations

import re
import sys
import textwrap
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAY_HOLD_BLOCKS_THAT_DO_NOT_RUN = {ROOT / "docs" / "design.md"}

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")


@dataclass(frozen=True)
class Block:
    info: str
    line: int
    """Of the opening fence, counted from 1."""
    source: str


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks, whatever their language. A fence that is never closed is an error, not a block."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    start = 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if opening is None:
            if fence:
                opening, start = fence, number
        elif fence and fence["ticks"].startswith(opening["ticks"]) and not fence["info"].strip():
            source = textwrap.dedent("\n".join(lines[start : number - 1])) + "\n"
            blocks.append(Block(opening["info"].strip(), start, source))
            opening = None
    if opening is not None:
        raise ValueError(f"the fence in line {start} is never closed")
    return blocks


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A real module, so that pickling, dataclasses and type hints work as in a user's file.
    module = types.ModuleType("page_" + re.sub(r"\W", "_", name_of(page)))
    module.__file__ = str(page)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page.read_text("utf-8")):
        if block.info == "python":
            # Empty lines in front: a traceback names the page and its true line.
            code = compile("\n" * block.line + block.source, str(page), "exec", dont_inherit=True)
            try:
                exec(code, module.__dict__)
                story = ""
            except Exception:
                story = traceback.format_exc()
            if story:
                # The plain traceback; pytest's own would print the page from its first line.
                pytest.fail(f"a block of {name_of(page)} does not run\n{story}", pytrace=False)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_fenced_so_that_it_runs(page: Path) -> None:
    allowed = {"python", "python no-run"} if page in MAY_HOLD_BLOCKS_THAT_DO_NOT_RUN else {"python"}
    evading = [
        f"{name_of(page)}:{block.line}: {block.info}"
        for block in blocks_of(page.read_text("utf-8"))
        if re.match(r"\{?\.?py", block.info, re.IGNORECASE) and block.info not in allowed
    ]
    assert not evading


def test_blocks_are_found_with_their_lines() -> None:
    text = "\n".join(
        [
            "text",
            "```python",
            "a = 1",
            "```",
            "- a list",
            "  ~~~python no-run",
            "  if a:",
            "      b = '```'",
            "  ~~~",
            "````",
            "```python",
            "````",
        ]
    )
    assert blocks_of(text) == [
        Block("python", 2, "a = 1\n"),
        Block("python no-run", 6, "if a:\n    b = '```'\n"),
        Block("", 10, "```python\n"),
    ]


def test_an_open_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2 is never closed"):
        blocks_of("text\n```python\na = 1\n")
