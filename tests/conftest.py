"""Settings that all tests share."""

from __future__ import annotations

import compileall
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceflow.testing.servers.postgres import PostgresServer
from onceflow.testing.servers.s3 import S3Server
from tests.helpers.doors import Door

# Processes that tests start keep nothing that they have compiled: the modules that tests write and change have the same
# size and the same second as before, which is all that Python looks at. pytest keeps what it has made of tests, and of
# Hypothesis, whoever forbids it: each pytest that a test starts would make it again.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = False

from hypothesis import HealthCheck, settings  # noqa: E402

ROOT = Path(__file__).parent.parent

NOBODY = 65534
"""The id of a user that runs no tests."""

# Nothing here may depend on how fast the machine is: no deadline, and no complaint about slow generation.
settings.register_profile(
    "onceflow",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    # The same examples every time: a red `make test` is the doing of the change at hand, and is red again for whoever
    # looks into it. Searching for new failures is the work of `make soak`, which draws fresh examples.
    derandomize=True,
)
settings.register_profile("soak", settings.get_profile("onceflow"), derandomize=False, max_examples=2_000)
settings.load_profile("onceflow")

# Ray looks at it when it is imported: nothing of a cluster is reached elsewhere than on the loopback address.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

# A shell without job control lets what it starts with `&` ignore Ctrl-C, and so would whatever tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Compiles what the processes import that tests start: it is a third of what most of them do if each does it."""
    if not hasattr(config, "workerinput"):
        for folder in ("src", "tests", "examples"):
            compileall.compile_dir(ROOT / folder, quiet=2)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for all tests of this process that do not harm it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> str:
    """A database that one test after the other empties."""
    return postgres_server.create_database()


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    """Of an empty database."""
    with psycopg.connect(postgres_database) as connection:
        connection.execute("DROP SCHEMA IF EXISTS onceflow CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres_database


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with credentials for it in the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """A Ray cluster of this process, with two cpus, for all its tests that do not harm it. Gives the backend."""
    from onceflow.backends.ray import cluster  # most processes never need it

    cluster.connect("ray", 2, 200 * 1024 * 1024)
    import ray

    yield "ray"
    ray.shutdown()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """Holds tasks that knock at it."""
    made = Door(tmp_path / "door")
    yield made
    made.close()


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file, folder or symbolic link belong to another user, `NOBODY`. Only root can do so; for anybody else it
    looks so to this process."""
    given: set[tuple[int, int]] = set()

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        else:
            found = os.lstat(path)
            given.add((found.st_dev, found.st_ino))

    def pretend(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def looked(*args: Any, **options: Any) -> os.stat_result:
            found = look(*args, **options)
            if (found.st_dev, found.st_ino) not in given:
                return found
            precise = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
            return os.stat_result([*found[:4], NOBODY, NOBODY, *found[6:]], precise)

        return looked

    if os.geteuid() != 0:
        for name in ("stat", "lstat", "fstat"):
            monkeypatch.setattr(os, name, pretend(getattr(os, name)))
    return give
