"""Who can be compared: onceflow and its peers, each with its environment, ready to be started.

A peer that is not to be had here stays in the field with the reason instead of an environment, so that a comparison can
show it as not measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import programs, venvs
from bench.workloads import _measuring

ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    kinds: Mapping[str, str]
    """Ways to do the same (`_serving.Kinds`), and what each keeps, in few words."""
    importing: str
    """The statement with which its users begin."""
    serving: str
    """The statement that runs its program (bench/peers/_serving.py)."""
    recovering: str = ""
    """The statement that runs its program for `recovery`. Empty if it has nothing to recover from."""
    deciding: str = ""
    """The statement that runs its program for `core`. Empty if it has no law that could be asked alone."""
    requirements: Path | None = None
    commit: str = ""
    """Of a onceflow that is not this one."""
    python: Path = Path(sys.executable)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: str = ""
    """Why it cannot be measured here."""

    @property
    def version(self) -> str:
        if self.commit:
            return f"at {self.commit}"
        if self.requirements is None:
            return f"of Python {platform.python_version()}"
        pins = dict(line.split("==") for line in self.requirements.read_text("utf-8").split())
        return pins[self.name]

    def command(self, statement: str, *arguments: object) -> list[str]:
        return [str(self.python), "-c", statement, *map(str, arguments)]

    def start(self, folder: Path) -> programs.Program:
        folder.mkdir()
        return programs.Program(self.command(self.serving), folder, self.environment)


def _peer(name: str, saves: str, importing: str, recovering: str = "", installed: bool = True) -> Contestant:
    return Contestant(
        name,
        {"": saves},
        importing,
        f"from bench.peers import {name}; {name}.main()",
        recovering,
        requirements=ROOT / "bench" / "peers" / f"{name}.txt" if installed else None,
    )


OURS = Contestant(
    "onceflow",
    {"": "every task, synced", "pure": "each run and its result, synced"},
    "from onceflow import Engine, task",
    "from bench.peers import onceflow; onceflow.main()",
    "from bench.workloads import _steps; _steps.main()",
    "from bench.workloads import core; core.main()",
)
PEERS = {
    peer.name: peer
    for peer in (
        _peer(
            "dbos",
            "every step, synced",
            "from dbos import DBOS",
            "from bench.peers import _dbos_steps; _dbos_steps.main()",
        ),
        _peer("ray", "nothing", "import ray"),
        _peer("dask", "nothing", "from distributed import Client, LocalCluster"),
        _peer("processpool", "nothing", "from concurrent.futures import ProcessPoolExecutor", installed=False),
    )
}


@dataclasses.dataclass(slots=True)
class Field:
    """Ours and those to compare it with, and a folder for what they write."""

    ours: Contestant
    peers: Sequence[Contestant]
    folder: Path
    rounds: int
    processor: bool = False
    """Measure what the processor does for each, in all of its processes, and not how long it takes."""
    _numbers: Iterator[int] = dataclasses.field(default_factory=itertools.count)

    @property
    def everyone(self) -> list[Contestant]:
        return [self.ours, *self.peers]

    def new_folder(self) -> Path:
        """The path of one that does not exist yet. Short: some put sockets there, whose names may not be long."""
        return self.folder / str(next(self._numbers))

    def start(self, contestant: Contestant) -> programs.Program:
        """In a folder of its own."""
        return contestant.start(self.new_folder())


@contextlib.contextmanager
def prepared(
    names: Sequence[str], revisions: Sequence[str], rounds: int, processor: bool, tell: Callable[[str], None]
) -> Iterator[Field]:
    """With all environments that could be made. What could not is told, and noted in the field."""
    peers = [_installed(PEERS[name], tell) for name in names]
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        earlier = [_at(revision, Path(folder)) for revision in revisions]
        ours = dataclasses.replace(OURS, environment=_measuring.environment(Path(folder)))
        yield Field(ours, [*earlier, *peers], Path(folder), rounds, processor)


class UnknownRevision(Exception):
    """Raised when there is no such commit. The text is what git says."""


def _at(revision: str, folder: Path) -> Contestant:
    """onceflow as it was at a commit: only the package. All else is as it is now."""
    commit = _git("rev-parse", "--verify", "--short", f"{revision}^{{commit}}").decode().strip()
    place = folder / f"at-{commit}"
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src/onceflow"))) as archive:
        archive.extractall(place, filter="data")
    environment = _measuring.environment(place, place / "src" / "onceflow")
    return dataclasses.replace(OURS, name=commit, commit=commit, environment=environment)


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise UnknownRevision(done.stderr.decode(errors="replace").strip())
    return done.stdout


def _installed(peer: Contestant, tell: Callable[[str], None]) -> Contestant:
    try:
        python = venvs.python_of(peer.name, peer.requirements, tell)
    except venvs.Unavailable as reason:
        tell(f"{peer.name} is left out, because it cannot be installed here: {reason}")
        return dataclasses.replace(peer, missing=f"cannot be installed here: {reason}")
    return dataclasses.replace(peer, python=python, environment=programs.environment(str(ROOT)))
