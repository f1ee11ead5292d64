"""Fibers that fail because of their own code, and people who mend it."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.scripts import run_script

SHOP = """
from onceflow import fiber, task

@task
def add(number):
    return number + 1

@fiber
async def inner(number):
    total = await add.call(number)
    return total / 0

@fiber
async def outer(number):
    return await inner(number)
"""
RUN = """
    import sys, traceback
    import onceflow, shop
    if __name__ == "__main__":
        try:
            print(onceflow.run(shop.outer.bind(1), name="order"))
        except onceflow.TaskFailed as failed:
            print(failed)
            traceback.print_exception(failed.__cause__, file=sys.stdout)
"""
RESUME = """
    import onceflow
    if __name__ == "__main__":
        try:
            onceflow.resume("order")
        except onceflow.errors.CodeMissing as missing:
            print(missing)
"""
TOLD = "had begun in code that has changed since, and went on in it"


def test_who_has_mended_a_fiber_learns_that_it_went_on_in_the_old_code_and_how_to_move_it(tmp_path: Path) -> None:
    # given a fiber that has failed
    (tmp_path / "shop.py").write_text(SHOP)
    assert TOLD not in run_script(tmp_path, RUN)
    # when its code is mended
    mended = SHOP.replace("total / 0", "total / 2")
    (tmp_path / "shop.py").write_text(mended)
    seen = run_script(tmp_path, RUN)
    # then it fails as before, and that shows the code which has failed, and says what to do
    assert "return total / 0" in seen
    assert "total / 2" not in seen
    failed = seen.splitlines()[0]
    assert f"inner {TOLD}" in failed
    assert 'write @fiber(on_change="move") and resume' in failed
    # and when that is done, it goes on
    (tmp_path / "shop.py").write_text(mended.replace("@fiber", '@fiber(on_change="move")'))
    assert run_script(tmp_path, RUN) == "1.0\n"


def test_a_module_that_cannot_be_imported_is_told_when_its_fibers_are_resumed(tmp_path: Path) -> None:
    # given a fiber that has failed, and a slip in its module
    (tmp_path / "shop.py").write_text(SHOP)
    run_script(tmp_path, RUN)
    (tmp_path / "shop.py").write_text(SHOP + "def (:\n")
    # when its run is resumed
    seen = run_script(tmp_path, RESUME)
    # then
    assert seen.startswith("task 'outer' of module 'shop' was not found: that module cannot be imported, SyntaxError:")
    assert "(shop.py, line 16)" in seen
