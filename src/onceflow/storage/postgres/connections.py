"""Connections to PostgreSQL: how they are made, what counts as losing one, and errors of the server as errors of
onceflow.

A server that restarts, a standby that takes over, a network that fails: readers and writers retry for a while
(`PATIENCE`), and callers notice only a delay. It is assumed that a failover loses nothing that was acknowledged, as
synchronous replication guarantees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from onceflow.errors import MissingPackage, StorageDamaged, StorageError, StorageFull, StorageReadOnly
from onceflow.storage import redaction
from onceflow.storage.postgres import schema

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds that a lost server has to come back."""

FIRST, LAST = 0.02, 1.0
"""Seconds between two tries; twice as long each time."""

DEFAULTS = {
    "application_name": "onceflow",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Unless the URL says otherwise. A network that has gone silent is noticed within 20 seconds."""

PREPARE = f"""
    SET search_path = {schema.SCHEMA};
    SET default_transaction_isolation = 'read committed';
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""Answered commits are durable, whatever the server's default."""

LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
"""SQLSTATEs of a server that ends, or begins, or has no connection left. Class 08 as well."""

HOPELESS = ("authentication failed", "does not exist", "no password supplied", "could not translate host name")
"""Error texts of connections that cannot be made, however often one retries."""

FULL = frozenset({"53100", "53200", "53400"})
READ_ONLY = frozenset({"25006", "42501", "28000", "28P01"})
DAMAGED = frozenset({"XX001", "XX002"})
CONFLICTS = frozenset({"40001", "40P01", "23505", schema.STALE})
"""Another engine was quicker. Look again and decide anew."""


def library() -> Any:
    """psycopg. Raises `MissingPackage`."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingPackage("psycopg", "a journal in PostgreSQL", "postgres") from error
    return psycopg


def connect(url: str, **given: Any) -> psycopg.Connection[Any]:
    """A connection on which each statement is a transaction of its own."""
    library()
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # it quotes what it does not understand, which may be the password
        raise StorageError(redaction.redacted(url), "PostgreSQL does not understand this URL") from None
    settings = {**DEFAULTS, **found, **given}
    connection: psycopg.Connection[Any] = psycopg.connect(**settings, autocommit=True)
    try:
        # Numbers are sent in one size, so that a statement is prepared once.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        connection.execute(PREPARE)
    except BaseException:
        connection.close()
        raise
    return connection


def is_lost(error: BaseException) -> bool:
    """Whether it was the connection that failed, and another one may do better."""
    psycopg = library()
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    if error.sqlstate is None:  # it says so in words only
        return not any(reason in str(error) for reason in HOPELESS)
    return error.sqlstate in LOST or error.sqlstate.startswith("08")


def is_conflict(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) in CONFLICTS


def is_about_values(error: BaseException) -> bool:
    """Whether PostgreSQL refused what was to be written, rather than being unable to write."""
    psycopg = library()
    return isinstance(error, (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError)) and (
        getattr(error, "sqlstate", None) not in READ_ONLY
    )


def as_ours(error: Exception, place: str) -> StorageError:
    state = getattr(error, "sqlstate", None)
    reason = f"PostgreSQL says: {str(error).strip() or type(error).__name__}"
    if state in FULL:
        return StorageFull(place, reason)
    if state in READ_ONLY:
        return StorageReadOnly(place, reason)
    if state in DAMAGED:
        return StorageDamaged(place, reason)
    return StorageError(place, reason)


def pauses(deadline: float, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Once for each try, until the deadline has passed, and at least once."""
    pause = FIRST
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        sleep(min(pause, left))
        pause = min(2 * pause, LAST)


def persistently(act: Callable[[], T], place: str, patience: float = PATIENCE) -> T:
    """Does it again while the connection is lost. Errors of PostgreSQL become ours."""
    psycopg = library()
    failure: Exception | None = None
    for _ in pauses(time.monotonic() + patience):
        try:
            return act()
        except psycopg.Error as error:
            failure = error
            if not is_lost(error):
                break
    assert failure is not None
    raise as_ours(failure, place) from failure
