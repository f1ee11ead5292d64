"""Tasks for what must be the same wherever they run, and wherever it is written down."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from onceflow import Ref, Variable, actor, current, fiber, put, task
from onceflow.actors import Exclusive, const, create
from tests.helpers.doors import knock
from tests.helpers.traces import note

LARGE = 300_000
"""Bytes of a value that does not travel in messages."""

total = Variable("total", 0)


def die_once(trap: str) -> None:
    """The first one who comes here dies."""
    try:
        os.close(os.open(trap, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@task.pure
def add(a: int, b: int) -> int:
    return a + b


@task.pure
def blank(size: int) -> bytes:
    return bytes(size)


@task.pure
def count(*values: bytes) -> int:
    return sum(map(len, values))


@task
def charge(user: str, ledger: str, trap: str) -> str:
    note(ledger, f"{current().key} charged {user}")
    die_once(trap)
    return user


def cancel(city: str, ledger: str) -> None:
    note(ledger, f"cancelled {city}")


@task(rollback=cancel)
def book(city: str, ledger: str) -> str:
    note(ledger, f"booked {city}")
    return city


@task(can_rollback=True)
def refuse(*_: Any) -> None:
    raise ValueError("no money")


@task.pure
def draw(ledger: str) -> tuple[int, bytes]:
    """A large value, and the process that has made it."""
    note(ledger, "drawn")
    return os.getpid(), bytes(LARGE)


@task(can_rollback=True)
def read_after_death(drawn: tuple[int, bytes], trap: str) -> int:
    """Kills the maker of what it reads, when it is there for the first time, and itself."""
    if not os.path.exists(trap):
        Path(trap).touch()
        if drawn[0] != os.getpid():
            os.kill(drawn[0], signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return len(drawn[1])


@task
def pages(number: int) -> list[Ref[bytes]]:
    return [put(bytes([page]) * LARGE) for page in range(number)]


@task.pure
def turn(book: list[Ref[bytes]]) -> list[Ref[bytes]]:
    return book[::-1]


@task.pure
def first_bytes(book: list[Ref[bytes]]) -> list[int]:
    return [page.get()[0] for page in book]


@task.pure
def size_of(value: Ref[bytes]) -> int:
    return len(value.get())


@actor
class Till:
    def __init__(self, cents: int) -> None:
        self.cents = cents
        self.ballast = bytes(LARGE)

    def put_in(self, cents: int) -> int:
        self.cents += cents
        return self.cents

    @const
    def look(self) -> int:
        return self.cents

    @const
    def process(self) -> int:
        return os.getpid()


@task(can_rollback=True)
def open_till(cents: int) -> Till:
    return create(Till, cents)


@actor
class Herald:
    """Says everything aloud: through Python, past it, and as a record."""

    @const
    def tell(self, news: str) -> None:
        print(f"hear: {news}")
        subprocess.run(["echo", f"echo: {news}"], check=True)
        logging.getLogger("herald").warning("told: %s", news)


@task(can_rollback=True)
def appoint() -> Herald:
    return create(Herald)


@task(can_rollback=True)
def announce(herald: Herald, news: str) -> None:
    herald.tell(news)


@task(can_rollback=True, checkpoint=False)
def open_till_unsaved(cents: int, ledger: str) -> Till:
    note(ledger, "opened")
    return create(Till, cents)


@task(can_rollback=True)
def pay(till: Exclusive[Till], cents: int) -> Till:
    till.put_in(cents)
    return till


@task(can_rollback=True)
def pay_secretly(till: Till, cents: int) -> int:
    return till.put_in(cents)


@task(can_rollback=True)
def look_into(till: Till) -> int:
    return till.look()


@task(can_rollback=True)
def look_after_robbery(till: Till, trap: str) -> int:
    if not os.path.exists(trap):
        Path(trap).touch()
        os.kill(till.process(), signal.SIGKILL)
    return till.look()


@task(writes=[total], can_rollback=True)
def earn(cents: int, trap: str) -> int:
    total.update(lambda known: known + cents)
    die_once(trap)
    return cents


@task
def sum_up(*_: int) -> int:
    return total.get()


@task.pure
def square(x: int) -> int:
    return x * x


@task(can_rollback=True)
def sleep_with_child(door: str, file: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(file).write_text(str(child.pid))
    knock(door)
    time.sleep(600)


@task
def tell(line: str) -> tuple[str, str]:
    me = current()
    print(line)
    me.logger.info("said %s", line)
    me.progress(1, 2, "half way")
    me.annotate(line=line)
    return me.task, me.key


@task
async def wait_a_little(x: int) -> int:
    await asyncio.sleep(0.01)
    return x


@task(threads=True)
def in_a_thread(x: int) -> int:
    return x


@task(cpus=2)
def with_two_cpus(x: int) -> int:
    return x


@task(timeout=0.3)
def too_long() -> None:
    time.sleep(600)


@task
def expand(n: int) -> Any:
    return add_saved.bind(n, expand.bind(n - 1)) if n else 0


@task
def add_saved(a: int, b: int) -> int:
    return a + b


@task(can_rollback=True)
def wait_at(door: str, value: int) -> int:
    knock(door)
    return value


@task.pure
def count_two(a: int, b: int) -> int:
    return a + b


@task
def pair(a: str, b: int) -> tuple[str, int]:
    return a, b


@fiber
async def shop(prices: list[int], ledger: str, trap: str) -> int:
    """Pays for one thing after the other. Its worker dies on the way."""
    paid = 0
    for number, price in enumerate(prices):
        await charge.call(str(number), ledger, trap)
        paid += await add_saved.call(price, 0)
    return paid
