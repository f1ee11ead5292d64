"""Who is killed, and when.

Three kinds of moments, all chosen from the seed: a stage of an attempt (a *bomb*, planted in the ledger and set off by
the task itself), the n-th time that the engine comes to a point (a *fuse*, burnt by wrapping what connects driver and
host), and a time on the clock (a *delay*, waited for from outside). Whoever is killed is killed with SIGKILL, through
a pidfd that was opened before it was made sure that it is the right process.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from onceflow.backends.local.forkserver import ACTOR, PORTER, REAPER, WORKER
from tests.tools.chaos.ledger import Ledger

Target = Literal["worker", "actor", "porter", "server", "engine", "all"]
"""`server` is the fork server, with which its workers die."""
TARGETS: tuple[Target, ...] = get_args(Target)

Stage = Literal["begin", "apply", "return", "undo begin", "undo apply"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Point = Literal["commit", "committed", "told", "start", "finished", "handled", "save", "saved", "ended"]
POINTS: tuple[Point, ...] = get_args(Point)


class Bomb(msgspec.Struct, frozen=True):
    node: str
    stage: Stage
    target: Target

    def __str__(self) -> str:
        return f"a bomb for {self.target} at {self.stage!r} of {self.node}"


class Fuse(msgspec.Struct, frozen=True):
    point: Point
    count: int
    target: Target

    def __str__(self) -> str:
        return f"a fuse for {self.target} at {self.point!r} number {self.count}"


class Delay(msgspec.Struct, frozen=True):
    seconds: float
    target: Target

    def __str__(self) -> str:
        return f"{self.target} killed after {self.seconds:.3f} s"


def explode(ledger: Ledger, node: str, stage: Stage) -> None:
    """In a worker: sets off the bomb that is planted here, if there is one."""
    target = ledger.find_bomb(node, stage)
    if target is not None:
        server = os.getppid()
        ledger.write("bomb", node, detail=f"{target} at {stage}")
        if target in ("porter", "actor"):
            _kill_named(PORTER if target == "porter" else ACTOR, server, lambda: os.getppid() == server)
            return
        if target in ("engine", "all"):
            engine = _engine_of(server)
            if engine is not None:
                _kill(engine, lambda: os.getppid() == server and _engine_of(server) == engine)
        if target in ("server", "all"):
            _kill(server, lambda: os.getppid() == server)
        os.kill(os.getpid(), signal.SIGKILL)


def light(fuse: Fuse) -> None:
    """In an engine, before it is opened: lets the fuse burn."""
    from onceflow.driver.driver import Driver
    from onceflow.engine.runtime.host import Host
    from onceflow.engine.runtime.local_workers import LocalWorkers

    left = fuse.count

    def burn() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            assassinate(os.getpid(), fuse.target, lambda: True)

    match fuse.point:
        case "commit":
            _wrap(Host, "commit", before=burn)
        case "committed":
            _wrap(Driver, "committed", before=burn)
        case "told":
            _wrap(Driver, "committed", after=burn)
        case "start":
            _wrap(Host, "start", before=burn)
        case "finished":
            _wrap(Driver, "finished", before=burn)
        case "handled":
            _wrap(Driver, "finished", after=burn)
        case "save":
            _wrap(LocalWorkers, "save", after=burn)
        case "saved":
            _burn_when_saved(LocalWorkers, burn)
        case "ended":
            _wrap(Host, "ended", before=burn)


def _wrap(
    owner: Any, name: str, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> None:
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before()
        result = original(*args, **kwargs)
        if after is not None:
            after()
        return result

    setattr(owner, name, wrapped)


def _burn_when_saved(services: Any, burn: Callable[[], None]) -> None:
    """Between the writing of a blob and the record that names it."""
    original = services.save

    def save(self: Any, driver: Any, name: str, value: Any, then: Callable[[str | None], None]) -> None:
        def burn_then(reference: str | None) -> None:
            burn()
            then(reference)

        original(self, driver, name, value, burn_then)

    services.save = save


def assassinate(engine: int, target: Target, is_engine: Callable[[], bool]) -> None:
    """Kills `target` of the engine with this process id. `is_engine` says whether that is still its id."""
    servers = _servers_of(engine)
    if target in ("server", "all"):
        for server in servers:
            _kill(server, lambda: is_engine() and server in _servers_of(engine))  # noqa: B023
    if target in ("porter", "actor"):
        name = PORTER if target == "porter" else ACTOR
        for server in servers:
            _kill_named(name, server, lambda: is_engine() and server in _servers_of(engine))  # noqa: B023
    if target == "worker":
        workers = [(server, worker) for server in servers for worker in children(server) if name_of(worker) == WORKER]
        for parent, worker in workers[:1]:
            _kill(worker, lambda: is_engine() and parent in _servers_of(engine) and worker in children(parent))  # noqa: B023
    if target in ("engine", "all"):
        _kill(engine, is_engine)


def _kill_named(name: str, server: int, is_server: Callable[[], bool]) -> None:
    for child in children(server):
        if name_of(child) == name:
            _kill(child, lambda: is_server() and child in children(server))  # noqa: B023


def _kill(pid: int, is_right: Callable[[], bool]) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            if is_right():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/{pid}/task/{thread}/children") as file,
            ):
                found += [int(word) for word in file.read().split()]
    return sorted(found)


def name_of(pid: int) -> str:
    """What a process calls itself; empty if there is none."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _servers_of(engine: int) -> list[int]:
    """Its fork servers: its children, or the children of their reapers."""
    found: list[int] = []
    for child in children(engine):
        found += children(child) if name_of(child) == REAPER else [child]
    return found


def _engine_of(server: int) -> int | None:
    parent = _parent(server)
    return _parent(parent) if parent is not None and name_of(parent) == REAPER else parent


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
