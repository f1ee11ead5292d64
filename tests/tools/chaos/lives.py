"""The life of an engine: a process that opens the home, starts or resumes the run, and writes down how it came out.

Most engines are forked by a *nursery*, a process that has everything imported, because a new interpreter takes longer
than what is to be seen. Some are started as a script (`program.py`), whose functions no worker can import.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from onceflow import Engine, TaskFailed
from onceflow.errors import NoSuchRun
from onceflow.storage.fair_lock import Turns
from onceflow.storage.journal import Durability
from onceflow.storage.writer import Writer
from tests.tools.chaos import kills, steps
from tests.tools.chaos.kills import Delay, Fuse
from tests.tools.chaos.ledger import Ledger
from tests.tools.chaos.plans import Plan

MARK = "ONCEFLOW_CHAOS"
"""The environment variable by which all processes of an iteration are known. Its value is the folder."""
NAME = "chaos"
"""Of the run."""
HOME = "home"
PLAN = "plan"
OUTPUT = "output"
"""The file for what engines and workers print."""

How = Literal["run", "resume", "async", "recover"]


class Life(msgspec.Struct, frozen=True):
    """What one engine does, and what is done to it."""

    number: int
    how: How
    durability: Durability
    script: bool = False
    """Whether it is started as one."""
    preload: bool = False
    """Whether workers begin with the tasks imported."""
    rival: bool = False
    """Whether another engine, which nobody kills, is started at the same moment."""
    slow: float = 0.0
    """Seconds that its disk takes longer for each commit."""
    fuse: Fuse | None = None
    delay: Delay | None = None

    def __str__(self) -> str:
        told = [f"engine {self.number}: {self.how}{' as a script' if self.script else ''}"]
        told += ["with a rival"] * self.rival
        told += [f"{self.slow:.3f} s for a commit"] * bool(self.slow)
        told += [str(kill) for kill in (self.fuse, self.delay) if kill is not None]
        return ", ".join(told)


class Outcome(msgspec.Struct, frozen=True):
    """What an engine told its caller."""

    status: Literal["succeeded", "failed", "undone", "error"]
    result: tuple[str, str] | None = None
    """(node, token) of the value."""
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    written: tuple[tuple[str, str], ...] = ()
    """What tasks have written to the task variable."""
    cause: str = ""
    """Class of the exception behind a failure; the traceback of an error."""


def live(folder: Path, life: Life, functions: steps.Functions) -> None:
    """In the engine's process."""
    faulthandler.register(signal.SIGUSR1)
    ledger = Ledger(str(folder))
    plan = msgspec.msgpack.decode((folder / PLAN).read_bytes(), type=Plan)
    if life.fuse is not None:
        kills.light(life.fuse)
    if life.slow:
        _slow_down(life.slow)
    node = steps.bind(plan, str(folder), functions)
    try:
        with Engine(
            folder / HOME,
            workers=2,
            durability=life.durability,
            preload=[steps.__name__] if life.preload else None,
            recover=life.how == "recover",
        ) as engine:
            if plan.queue is not None:
                engine.queue(plan.queue, concurrency=1)
            outcome = _outcome(engine, node, plan, life.how)
            ledger.write("outcome", detail=msgspec.json.encode(outcome).decode())
    except Exception:
        outcome = Outcome("error", cause=traceback.format_exc())
        ledger.write("outcome", detail=msgspec.json.encode(outcome).decode())


def _slow_down(seconds: float) -> None:
    """As long as a commit takes, what it must wait for can go wrong."""
    acquire = Turns.acquire

    def acquire_slowly(self: Turns, blocked: Callable[[], None]) -> None:
        acquire(self, blocked)
        time.sleep(seconds)

    setattr(Turns, "acquire", acquire_slowly)  # noqa: B010
    setattr(Writer, "commit_at_once", lambda self, requests: None)  # noqa: B010


def _outcome(engine: Engine, node: object, plan: Plan, how: How) -> Outcome:
    try:
        value = _value(engine, node, plan, how)
    except TaskFailed as error:
        return Outcome(
            "undone" if error.undone else "failed",
            failed=error.failed,
            kept=error.kept,
            uncertain=error.uncertain,
            written=_written(engine),
            cause=type(error.__cause__).__name__,
        )
    assert isinstance(value, steps.Value)
    steps.tokens([value])  # it is as its makers made it, and so is what the refs in it refer to
    return Outcome("succeeded", (value.node, value.token), written=_written(engine))


def _written(engine: Engine) -> tuple[tuple[str, str], ...]:
    return tuple(engine.variables(NAME).get(steps.written.name, ()))


def _value(engine: Engine, node: object, plan: Plan, how: How) -> object:
    try:
        match how:
            case "resume":
                return engine.resume(NAME)
            case "async":
                return engine.run_async(node, name=NAME, on_failure=plan.on_failure).result()
    except NoSuchRun:
        pass  # it had not come into being
    return engine.run(node, name=NAME, on_failure=plan.on_failure)


class Started(msgspec.Struct, frozen=True):
    """An engine's process, by a descriptor that stays its own."""

    pid: int
    pidfd: int

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self.pidfd, number)


class Nursery:
    """Starts engines. A context manager; its end is the end of the process that forks them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._scripts: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path, life: Life) -> Started:
        if life.script:
            with (folder / OUTPUT).open("ab") as output:
                script = subprocess.Popen(
                    [sys.executable, Path(__file__).with_name("program.py"), folder, msgspec.json.encode(life)],
                    env={**_environment(), MARK: str(folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            self._scripts[script.pid] = script
            pid = script.pid
        else:
            pid = self._ask(msgspec.json.encode(("start", str(folder), life)))
        # Nobody has reaped it, so the id is its own.
        return Started(pid, os.pidfd_open(pid))

    def reap(self, started: Started) -> int:
        """The exit code of an engine that has ended; negative if it was killed."""
        os.close(started.pidfd)
        script = self._scripts.pop(started.pid, None)
        return script.wait() if script is not None else self._ask(msgspec.json.encode(("reap", started.pid)))

    def _ask(self, request: bytes) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._process:
            pass


def _environment() -> dict[str, str]:
    """In which a process finds these modules: they are not installed, and it may lie elsewhere."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def main() -> None:
    """The nursery's process: forks and reaps engines as it is told, until nobody tells it anything more."""
    for line in sys.stdin.buffer:
        match msgspec.json.decode(line):
            case ["start", folder, life]:
                pid = os.fork()
                if pid == 0:
                    _become_engine(Path(folder), msgspec.convert(life, Life))
                answer = pid
            case ["reap", pid]:
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            case request:
                raise AssertionError(request)
        sys.stdout.buffer.write(b"%d\n" % answer)
        sys.stdout.buffer.flush()


def _become_engine(folder: Path, life: Life) -> None:
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for mine, usual in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(mine, usual)
        os.close(nothing)
        os.close(output)
        os.environ[MARK] = str(folder)
        live(folder, life, steps.OWN)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
