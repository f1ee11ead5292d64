"""Durable functions in a script: found again by another process, if the script can be imported."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
    import sys
    from pathlib import Path
    from onceflow import fiber
    from onceflow.fibers import Fiber, Op

    class Order:
        def __init__(self, items):
            self.items = items

    def double(n):
        return 2 * n

    @fiber
    async def fulfil(order):
        total = 0
        twice = double
        for item in order.items:
            total += twice(await Op("price", item))
        return total, type(order).__name__, type(order) is Order

    if __name__ == "__main__":
        if sys.argv[1] == "save":
            Path("saved").write_bytes(Fiber.start(fulfil(Order([1, 2]))).dumps())
        else:
            going = Fiber.loads(Path("saved").read_bytes())
            while not going.done:
                going.send(5)
            print(going.result)
    """


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_script_goes_on_with_its_own_fibers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(textwrap.dedent(SCRIPT))

    saved = run(tmp_path, "shop.py", "save")
    loaded = run(tmp_path, "shop.py", "load")

    assert saved.stderr == ""
    assert (loaded.stdout, loaded.stderr) == ("(20, 'Order', True)\n", "")


def test_another_program_imports_the_script(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "worker.py").write_text(
        textwrap.dedent("""
            from pathlib import Path
            from onceflow.fibers import Fiber

            going = Fiber.loads(Path("saved").read_bytes())
            while not going.done:
                going.send(5)
            print(going.result)
        """)
    )

    run(tmp_path, "-m", "shop", "save")
    loaded = run(tmp_path, "worker.py")

    assert (loaded.stdout, loaded.stderr) == ("(20, 'Order', True)\n", "")


@pytest.mark.parametrize("how", [("bare.py",), ("-m", "bare")])
def test_a_script_without_a_guard_is_refused(how: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        "from onceflow import fiber\nfrom onceflow.fibers import Op\n\n"
        "@fiber\nasync def f():\n    await Op('x')\n\nprint('runs')\n"
    )

    done = run(tmp_path, *how)

    assert done.returncode == 1
    assert done.stderr.endswith(
        f"onceflow.errors.DurableSyntaxError: {tmp_path / 'bare.py'}:4: durable function f: its script would run again "
        'when another process imports it; put what the script does under `if __name__ == "__main__":`, or the function '
        "into a module\n"
    )


def test_what_is_typed_in_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", "from onceflow import fiber\n@fiber\nasync def f(): pass")

    assert done.returncode == 1
    assert (
        "durable function f: it is defined in __main__, which is no file that another process could import; put it "
        "into a module"
    ) in done.stderr
