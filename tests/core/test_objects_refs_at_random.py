"""Tasks that return whatever refs they like each time they run, also those that promised to be deterministic: a run
never hangs and never breaks, and what it keeps agrees with its definition. (What such tasks return is nobody's fault
but theirs; that promises kept give the right values is shown by the simulation.)"""

import random

import pytest

from onceflow.core.model.refs import bits
from tests.core.building import Drive
from tests.core.random_graphs import random_graph
from tests.tools.simulation.scenarios import make_safe


class Liar:
    """Answers a drive at random, and loses parts of outputs now and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faults = self.random.randrange(8)
        self.drive = Drive(make_safe(random_graph(self.random, self.random.randint(2, 7))))
        self.drive.begin()

    def play(self) -> str:
        for _ in range(2_000):
            if not self._step():
                break
        return self.drive.status

    def _step(self) -> bool:
        drive = self.drive
        if self.faults and drive.status == "running" and self.random.random() < 0.25:
            self.faults -= 1
            self._fail()
            return True
        if drive.running and self.random.random() < 0.6:
            node = self.random.choice(sorted(drive.running))
            drive.finish(node, holding=self._refs(node), small=self.random.random() < 0.5)
            return True
        if drive.saves and self.random.random() < 0.8:
            node, part = self.random.choice(sorted(drive.saves))
            drive.save(f"{node}.{part}")
            return True
        return drive.answer_one({})

    def _refs(self, node: str) -> str:
        row = self.drive.run.rows.get(node)
        words = ["new"] * self.random.randrange(3)
        for parent, mask in row.parents if row is not None else ():
            words += [f"{parent.id}.{part}" for part in bits(mask) if self.random.random() < 0.5]
        self.random.shuffle(words)
        return " ".join(words)

    def _fail(self) -> None:
        drive = self.drive
        if self.random.random() < 0.2:
            self.drive = drive.reload(self.random.randint(0, len(drive.journal)))
            self.drive.begin()
            return
        parts = [f"{id}.{part}" for id, row in drive.run.rows.items() for part in bits(row.every_part)]
        lost = [part for part in parts if self.random.random() < 0.4]
        attempts = [node for node in drive.running if self.random.random() < 0.3]
        drive.lose(*lost, attempts=" ".join(attempts))


@pytest.mark.parametrize("block", range(4))
def test_a_run_of_liars_comes_to_its_end(block):
    for seed in range(block * 150, (block + 1) * 150):
        assert Liar(seed).play() == "succeeded", f"seed {seed}"
