"""`kill -9` of a writer at any moment: what was acknowledged is there, in order, and nothing is there by half."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.storage.common import Child, bodies, commit, create, quick

WRITE = """
import os, sys, threading
from pathlib import Path
from onceflow.storage.sqlite import SqliteJournal
from onceflow.storage import writer
from tests.storage.common import append, bodies
writer.CHECKPOINT_BYTES = 300_000  # so that some are killed in a checkpoint
store = SqliteJournal(Path(sys.argv[1]))
number = len(bodies(store, "r")) // 3
slots = threading.Semaphore(8)

def submit(number):
    def answer(outcome):
        os.write(1, b"%d\\n" % number if outcome.ok else b"refused\\n")
        slots.release()
    parts = [b"%d.%d." % (number, part) + b"x" * (number * 37 % 3000) for part in range(3)]
    store.submit([append("r", parts[0]), append("r", *parts[1:])], answer)

while True:
    slots.acquire()
    submit(number)
    number += 1
"""


def kill_and_check(path: Path, rounds: int, seed: int) -> None:
    choose = random.Random(seed)
    store = quick(path)
    commit(store, create("r"))
    store.close()
    there = 0
    for _ in range(rounds):
        with Child(WRITE, path / "journal.db") as writer:
            acknowledged = there - 1
            for _ in range(choose.randrange(1, 40)):
                said = writer.read()
                assert int(said) == acknowledged + 1
                acknowledged += 1
            writer.kill()
            while said := writer.read():
                acknowledged = int(said)

        store = quick(path)
        found = [tuple(map(int, body.split(b".")[:2])) for body in bodies(store, "r")]
        store.close()
        there = len(found) // 3
        assert found == [(number, part) for number in range(there) for part in range(3)]
        assert there > acknowledged


def test_acknowledged_batches_survive_kill_in_order_and_whole(tmp_path: Path) -> None:
    kill_and_check(tmp_path, rounds=30, seed=17)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_batches_survive_many_kills(tmp_path: Path, seed: int) -> None:
    kill_and_check(tmp_path, rounds=100, seed=seed)
