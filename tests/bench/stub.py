"""A program like those of bench/peers that measures nothing real: what it is asked stands in a file named by `LEDGER`.

`main("stubborn")` has also started a process that nobody ends but who looks for it, `main("wrong")` returns wrong
results, `main("dies")` ends at the first question, `main("hangs")` notes that it was asked and goes on for ever.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from bench.peers import _serving

FOR_EVER = [sys.executable, "-I", "-S", "-c", "import threading; threading.Event().wait()"]


class Stub:
    def __init__(self, name: str) -> None:
        self._name = name

    def run_one(self, number: int) -> int:
        self._note("one")
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
        return list(range(runs))

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
