"""A program of bench/peers while it runs: it is asked, and it is ended with everything that it has started.

It leads a session of its own. So Ctrl-C in the terminal reaches the harness alone, which ends the program; and whatever
the program has started (schedulers, nodes, workers, also those whose parent has ended) is found by that session. Ended
means: its input ends, which tells it to close; what is left after a while is killed. Should the harness itself be
killed, the input ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import processes

PATIENCE = 300.0
"""Seconds for an answer."""
GRACE = 20.0
"""Seconds to close by itself."""
LOG = "log.txt"


class Failed(Exception):
    """Raised when a program does not start, does not answer, or answers that it failed."""


class Program:
    """Its folder is where it runs and writes, and where its log is."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        with open(folder / LOG, "wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            self._answer()
        except BaseException:
            self.close(grace=0)
            raise

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.close(grace=GRACE / 10 if interrupted else GRACE)

    def ask(self, workload: str, count: int, kind: str = "") -> list[float]:
        """Seconds."""
        assert self._process.stdin
        question = json.dumps({"workload": workload, "count": count, "kind": kind})
        try:
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._ended()) from None
        seconds: list[float] = self._answer()["seconds"]
        return seconds

    def processor_seconds(self) -> float:
        """What all that it consists of has used so far."""
        return processes.processor_seconds(self._process.pid)

    def processes(self) -> set[int]:
        """All that it consists of."""
        return processes.of_session(self._process.pid)

    def close(self, grace: float = GRACE) -> None:
        """Nothing of it runs any more afterwards."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            processes.end_session(self._process.pid)
            self._process.stdout.close()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            processes.end_session(self._process.pid)

        impatient = threading.Timer(PATIENCE, give_up)
        impatient.daemon = True  # a harness that is ended between two lines here does not wait for it
        try:
            impatient.start()
            line = self._process.stdout.readline()
        finally:
            impatient.cancel()
        if given_up.is_set():
            raise Failed(f"its program did not answer within {PATIENCE:g} s")
        if not line:
            raise Failed(self._ended())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        log = (self._folder / LOG).read_text("utf-8", errors="replace").strip()
        return f"its program ended: {log.splitlines()[-1] if log else 'without a word'}"


def environment(path: str) -> dict[str, str]:
    """For a program that finds on this path what it imports beside what is installed where it runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONCEFLOW_", "PYTHON"))}
    return {**kept, "PYTHONPATH": path}
