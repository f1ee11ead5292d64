"""What is seen of code that is not on disk any more."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

from onceflow.authoring.fibers import Fiber, register_version, version_of
from tests.authoring.fibers.writing import write

BEFORE = """
    class Shop:
        @fiber
        async def share(self, count):
            total = await Op("price")
            return total / count
    """
AFTER = BEFORE.replace("total / count", "total / max(count, 1)")


def test_a_traceback_shows_the_lines_of_the_old_code(tmp_path: Path) -> None:
    # given a fiber that is parked in code that was changed, and moved in its file
    shop = write(tmp_path / "sharing.py", BEFORE)
    register_version(version_of(shop.Shop.share))
    parked = Fiber.start(shop.Shop().share(0)).dumps()
    write(tmp_path / "sharing.py", AFTER.replace("class", "MORE = 1\n    class", 1))
    # when it raises something there
    fiber = Fiber.loads(parked)
    fiber.send(8)
    linecache.checkcache()
    # then
    assert fiber.error is not None
    told = traceback.extract_tb(fiber.error.__traceback__)[-1]
    assert (told.line, told.lineno) == ("return total / count", 6)
    assert told.filename.startswith(f"{tmp_path / 'sharing.py'}, as it was (")


def test_where_a_fiber_stands_is_told_of_the_file_that_it_began_in(tmp_path: Path) -> None:
    shop = write(tmp_path / "standing.py", BEFORE)
    register_version(version_of(shop.Shop.share))
    parked = Fiber.start(shop.Shop().share(0)).dumps()
    write(tmp_path / "standing.py", AFTER)
    (frame,) = Fiber.loads(parked).describe()
    assert (frame.file, frame.line) == (str(tmp_path / "standing.py"), 5)
