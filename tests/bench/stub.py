"""A program like those of bench/peers that measures nothing real: what it is asked stands in a file named by `LEDGER`.

`main("stubborn")` has also started a process that nobody ends but who looks for it, `main("wrong")` returns wrong
results, `main("dies")` ends at the first question, `main("hangs")` notes that it was asked and goes on for ever,
`main("busy")` uses the processor, in another process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from subprocess import PIPE

from bench.peers import _serving

BUSY = 0.2
"""Seconds."""
FOR_EVER = [sys.executable, "-I", "-S", "-c", "import threading; threading.Event().wait()"]
BUSY_WHEN_ASKED = [
    *(sys.executable, "-I", "-S", "-c"),
    f"""
import sys, time
for line in sys.stdin:
    until = time.process_time() + {BUSY}
    while time.process_time() < until:
        pass
    print("done", flush=True)
""",
]


class Stub:
    def __init__(self, name: str) -> None:
        self._name = name
        self._helper = subprocess.Popen(BUSY_WHEN_ASKED, stdin=PIPE, stdout=PIPE) if name == "busy" else None

    def run_one(self, number: int) -> int:
        self._note("one")
        self._be_busy()
        if self._name == "dies":
            sys.exit("there was nothing to live for")
        if self._name == "hangs":
            threading.Event().wait()
        return number + (self._name == "wrong")

    def run_chain(self, number: int) -> int:
        self._note("chain")
        return number

    def run_graphs(self, graphs: int) -> list[int]:
        self._note(f"{graphs} graphs")
        return [_serving.WIDTH] * graphs

    def run_many(self, runs: int) -> list[int]:
        self._note(f"{runs} runs")
        self._be_busy()
        return list(range(runs))

    def _be_busy(self) -> None:
        """In a process that goes on: the time of one that has ended is nobody's."""
        if self._helper:
            assert self._helper.stdin
            assert self._helper.stdout
            self._helper.stdin.write(b"go\n")
            self._helper.stdin.flush()
            self._helper.stdout.readline()

    def _note(self, what: str) -> None:
        with open(os.environ["LEDGER"], "a") as ledger:
            ledger.write(f"{self._name}: {what}\n")


@contextlib.contextmanager
def opened(name: str) -> Iterator[_serving.Kinds]:
    if name in ("stubborn", "hangs"):
        subprocess.Popen(FOR_EVER, process_group=0)
    print("a library that prints")
    yield {"": Stub(name)}


def main(name: str) -> None:
    _serving.serve(opened(name))
