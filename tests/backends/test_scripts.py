"""Scripts: a plain file without a `__main__` guard, whose functions and classes go to workers and come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import dataclasses, enum, os, pickle, sys, tempfile
from pathlib import Path
from tests.backends.common import running_pool

with open(sys.argv[1], "a") as trace:
    trace.write("executed\\n")
"""


def run_script(tmp_path: Path, body: str) -> None:
    """Runs it as a user would. It has to succeed, and to be executed only once: never in a worker."""
    script = tmp_path / "script.py"
    script.write_text(PRELUDE + body)
    trace = tmp_path / "trace"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(script), str(trace)], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert trace.read_text() == "executed\n"


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
LIMIT = 3

def double(number):
    return helper(number) * 2

def helper(number):
    return min(number, LIMIT)

with running_pool(Path(tempfile.mkdtemp(dir="."))) as loop:
    assert loop.call(double, 10) == 6
    assert loop.call(lambda: LIMIT) == 3
""",
    )


def test_classes_of_a_script_are_the_same_in_arguments_outputs_and_exceptions(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
@dataclasses.dataclass
class Point:
    x: int

class Colour(enum.Enum):
    RED = 1

class Outer:
    class Inner:
        pass

class Refused(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")
        self.code = code

def move(point):
    assert isinstance(point, Point)
    return Point(point.x + 1)

def refuse():
    raise Refused(7, "no")

with running_pool(Path(tempfile.mkdtemp(dir="."))) as loop:
    moved = loop.call(move, Point(1))
    assert type(moved) is Point and moved == Point(2)
    assert loop.call(lambda: Colour.RED) is Colour.RED
    assert type(loop.call(lambda: Outer.Inner())) is Outer.Inner
    assert loop.call(lambda: Point) is Point
    try:
        loop.call(refuse)
    except Refused as error:
        assert error.code == 7 and str(error) == "no (7)"
    else:
        raise AssertionError
""",
    )


def test_an_output_goes_by_the_name_of_its_class_so_that_it_can_be_loaded_after_a_restart(tmp_path: Path) -> None:
    body = """
class Point:
    def __init__(self, x):
        self.x = x

saved = Path("saved")
if saved.exists():
    assert isinstance(pickle.loads(saved.read_bytes()), Point)
else:
    with running_pool(Path(tempfile.mkdtemp(dir="."))) as loop:
        token = loop.start(lambda: Point(1))
        saved.write_bytes(loop.report(token).parts[0])
"""
    run_script(tmp_path, body)
    (tmp_path / "trace").unlink()
    run_script(tmp_path, body)


def test_an_output_reaches_a_worker_that_has_never_seen_its_class(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
class Point:
    def __init__(self, x):
        self.x = x

    def read(self):
        return self.x

def read(point):
    return point.read()

with running_pool(Path(tempfile.mkdtemp(dir=".")), workers=1) as loop:
    output = loop.report(loop.start(lambda: Point(5))).parts[0]
with running_pool(Path(tempfile.mkdtemp(dir=".")), workers=1) as loop:
    assert loop.call(read, None, inputs=[output], holes=[(0, 0)]) == 5
""",
    )


def test_a_class_that_was_defined_anew_is_the_new_one(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
with running_pool(Path(tempfile.mkdtemp(dir=".")), workers=1) as loop:
    for version in range(3):
        exec(f"class Cell:\\n    version = {version}\\ndef make():\\n    return Cell()", globals())
        made = loop.call(make)
        assert type(made) is Cell and made.version == version
""",
    )


def test_a_class_made_inside_a_task_goes_by_value(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
def make():
    class Local:
        number = 3
    return Local()

with running_pool(Path(tempfile.mkdtemp(dir="."))) as loop:
    assert loop.call(make).number == 3
""",
    )


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def triple(number):\n    return number * 3\n")
    run_script(
        tmp_path,
        """
import beside
with running_pool(Path(tempfile.mkdtemp(dir="."))) as loop:
    assert loop.call(beside.triple, 2) == 6
    assert loop.call(lambda: beside.triple(3)) == 9
    Path("later").mkdir()
    Path("later/added.py").write_text("def four(): return 4")
    sys.path.append(str(Path("later").resolve()))
    import added
    assert loop.call(added.four) == 4
""",
    )


def test_what_tasks_print_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import tempfile\nfrom pathlib import Path\nfrom tests.backends.common import running_pool\n"
        "with running_pool(Path(tempfile.mkdtemp(dir='.'))) as loop:\n    loop.call(lambda: print('hello'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout == "hello\n"
    assert done.stderr == ""


@pytest.mark.parametrize("preload", [(), ("changing",)], ids=["imported", "preloaded"])
def test_a_worker_with_an_older_state_of_a_module_is_replaced(tmp_path: Path, preload: tuple[str, ...]) -> None:
    run_script(
        tmp_path,
        f"""
import importlib
sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = True
Path("changing.py").write_text("def version(): return os.getpid(), 1\\nimport os")
import changing
with running_pool(Path(tempfile.mkdtemp(dir=".")), workers=1, preload={preload!r}) as loop:
    first, version = loop.call(changing.version)
    assert version == 1
    Path("changing.py").write_text("def version(): return os.getpid(), 22\\nimport os")
    importlib.reload(changing)
    second, version = loop.call(changing.version)
    assert version == 22 and second != first
    assert loop.call(changing.version) == (second, 22)
    assert loop.pool.statistics().deaths == 0
    if {preload!r}:
        loop.until(lambda: len(loop.pool._servers.all) == 1)
""",
    )


def test_a_worker_with_an_older_state_of_a_module_that_a_task_only_uses_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NUMBER = 1\n")
    run_script(
        tmp_path,
        """
import helper
sys.dont_write_bytecode = True
with running_pool(Path(tempfile.mkdtemp(dir=".")), workers=1) as loop:
    assert loop.call(lambda: helper.NUMBER) == 1
    Path("helper.py").write_text("NUMBER = 22")
    assert loop.call(lambda: helper.NUMBER + 0) == 22
    assert loop.pool.statistics().deaths == 0
""",
    )
