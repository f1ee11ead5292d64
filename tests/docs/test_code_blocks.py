"""Every Python block and every console session of README.md and docs/ runs.

Each page runs in a new, empty folder, and so with a home directory of its own. There are three kinds of blocks:

    ```python                  The blocks of a page, one after the other, are one program: a plain script, as a reader
                               would type it. It runs as a process of its own.
    ```python file=trip.py     This block is a file, written into the folder.
    ```console                 Lines that begin with $ are commands for a shell in that folder; the lines below are
                               what they print, in which ... stands for any text, and a line ... for any lines.

A page has either a program or sessions. ```sh is for what a test must not do (install, make). A block that cannot run
is fenced as ```python no-run, which only docs/design.md may do: it also shows programs that are still to come.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAY_HOLD_BLOCKS_THAT_DO_NOT_RUN = {ROOT / "docs" / "design.md"}

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
FILE = re.compile(r"python file=([\w.-]+)")
PROGRESS = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .*\n", re.MULTILINE)
"""How a run gets on, which is told if it takes longer than a moment: on a busy machine, any of them may."""

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ONCEFLOW_")},
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONIOENCODING": "utf-8",
    "PYTHONWARNINGS": "error,ignore::ResourceWarning",
}


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
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    program = ""
    for block in blocks_of(page.read_text("utf-8")):
        where = f"{name_of(page)}:{block.line}"
        file = FILE.fullmatch(block.info)
        if block.info == "python":
            # Empty lines in front: a traceback names the true line of the page.
            program += "\n" * (block.line - program.count("\n")) + block.source
        elif file:
            (tmp_path / file[1]).write_text(block.source, "utf-8")
        elif block.info == "console":
            assert not program, f"{where}: a page has either a program or sessions"
            for command, expected in commands_of(block.source):
                done = call(["bash", "-c", command], tmp_path)
                printed = [done.stdout, PROGRESS.sub("", done.stdout)]
                assert any(fits(expected, each) for each in printed), f"{where}: {command}\n{done.stdout}"
    if program:
        script = tmp_path / (page.stem.replace("-", "_").lower() + ".py")
        script.write_text(program, "utf-8")
        done = call([sys.executable, str(script)], tmp_path)
        if done.returncode:
            pytest.fail(f"a block of {name_of(page)} does not run\n{done.stdout}", pytrace=False)


def call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
    )


def commands_of(session: str) -> list[tuple[str, str]]:
    """The commands of a console session, each with what it should print."""
    commands: list[tuple[str, str]] = []
    for line in session.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].strip(), ""))
        else:
            command, expected = commands.pop()
            commands.append((command, expected + line))
    return commands


def fits(expected: str, printed: str) -> bool:
    """Whether this is what should be printed. A line `...` stands for any number of lines, `...` in a line for any
    text."""
    pattern = "".join(
        "(.*\n)*" if line == "...\n" else ".*".join(map(re.escape, line.split("...")))
        for line in expected.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_fenced_so_that_it_runs(page: Path) -> None:
    allowed = {"python", "python no-run"} if page in MAY_HOLD_BLOCKS_THAT_DO_NOT_RUN else {"python"}
    evading = [
        f"{name_of(page)}:{block.line}: {block.info}"
        for block in blocks_of(page.read_text("utf-8"))
        if re.match(r"\{?\.?py", block.info, re.IGNORECASE)
        and block.info not in allowed
        and not FILE.fullmatch(block.info)
    ]
    assert not evading


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]*))?\)", page.read_text("utf-8")):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them out of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_session_is_split_into_commands() -> None:
    assert commands_of("$ ls -l\na\nb\n$ true\n") == [("ls -l", "a\nb\n"), ("true", "")]


def test_what_is_printed_may_be_left_open() -> None:
    assert fits("a\n...\nb\n", "a\nb\n")
    assert fits("a\n...\nb\n", "a\n1\n2\nb\n")
    assert not fits("a\n...\nb\n", "a\n1\n")
    assert not fits("a.\n", "ab\n")
    assert fits("a ... z\n", "a b c z\n")
    assert not fits("a ... z\n", "a\nz\n")


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
