"""`onceflow doctor`: is the home directory well, and this machine fit?

Each question is asked on its own, so that a damaged journal does not keep the others from being answered. What can be
found out without an engine is found out before one opens the home directory, because that tidies up.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import shlex
import shutil
import sqlite3
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
import msgspec

from onceflow.backends.local import locks
from onceflow.cli import exits
from onceflow.cli.session import Session, common
from onceflow.engine import settings
from onceflow.engine.statuses import ACTIVE
from onceflow.errors import OnceflowError
from onceflow.storage import logs, schema
from onceflow.storage.blob_urls import folder_of, without_options
from onceflow.storage.home import ENGINES, ENTRIES, JOURNAL, WORKERS, Home, check_trusted
from onceflow.storage.inspection import Damage, Progress
from onceflow.storage.journal import DamagedRun, RunRow
from onceflow.storage.lock_waits import connect_to_read
from onceflow.storage.locks import Engines
from onceflow.storage.names import is_plain
from onceflow.storage.redaction import redacted
from onceflow.values import trust
from onceflow.values.sealed_bytes import KEY_FILE
from onceflow.values.texts import as_size, one_line
from onceflow.version import VERSION

LOW = 500_000_000
"""Bytes. With less free space than this, something is said."""
MOST_NAMED = 10
"""Files with wrong permissions that are named."""
REFRESH, REPORT = 0.1, 10.0
"""Seconds between two reports on how far a deep look is: on a terminal, and elsewhere."""
UNSET = {
    "workers": "one for each core",
    "object_memory": "30 % of the memory",
    "blobs": "the home directory",
    "journal": "in the home directory",
    "max_running": "any number",
    "max_pending": "any number",
}
"""What settings mean that have no value."""


class Finding(NamedTuple):
    name: str
    state: Literal["ok", "note", "bad"]
    text: str


@click.command
@click.option("--deep", is_flag=True, help="Read every saved value, and compare it with its checksum.")
@click.option("--forget-damaged", is_flag=True, help="Delete the runs whose own rows are damaged.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def doctor(session: Session, deep: bool, forget_damaged: bool, yes: bool) -> int:
    """Look whether the home directory and this machine are well: space, permissions, the journal, engines and workers
    that were left behind, versions, and where each setting comes from. Exits with 5 if something is wrong.

    With --deep also read the whole journal and every large value, and list what is damaged, or could not be read: run,
    task and file. In a folder that was chosen for large values look at owner and mode of each file.

    With --forget-damaged first delete, for good, the runs whose own rows in the journal are damaged, which no other
    command can read. Refused while another engine lives, which may drive one of them.
    """
    found = settings.find(home=session.home)
    forgotten = _forget_damaged(session, found, yes) if forget_damaged else []
    damage: list[Damage] = []
    findings = [*_machine(), *_home(found, deep)]
    if deep:
        findings += _read_everything(session, found, damage)
    sources = {
        name: "--home" if source == "argument" else source
        for name, source in settings.sources(home=session.home).items()
    }
    bad = [finding for finding in findings if finding.state == "bad"]
    if session.json:
        session.say_json(
            {
                "ok": not bad,
                "findings": [finding._asdict() for finding in findings],
                **(_told_as_json(damage) if deep else {}),
                **(
                    {"forgotten": [{"id": run.run, "reason": run.reason} for run in forgotten]}
                    if forget_damaged
                    else {}
                ),
                "settings": {
                    name: {"value": _shown(name, getattr(found, name)), "source": source}
                    for name, source in sources.items()
                },
            }
        )
    else:
        for run in forgotten:
            session.say(f"{one_line(run.reason)}: forgotten")
        session.table(["", "what", "finding"], [[f.state, f.name, f.text] for f in findings])
        for each in damage:
            told = _told_damage(each)
            session.say("")
            session.say(f"{told['file']}: {told['reason']}")
            session.say(f"  {told['advice']}")
        session.say("")
        rows = [[name, _told(name, getattr(found, name)), source] for name, source in sources.items()]
        session.table(["setting", "value", "from"], rows)
    if bad:
        raise exits.Trouble(f"{bad[0].name}: {bad[0].text}")
    return exits.FINE


def _forget_damaged(session: Session, found: settings.EngineSettings, yes: bool) -> list[DamagedRun]:
    from onceflow.engine import damaged_runs

    check_trusted(found.home, found.trusted_owners)
    if found.journal is None and not (found.home / JOURNAL).exists():
        return []
    with _open(found) as home:
        runs = home.journal.damaged_runs()
        if runs:
            named = ", ".join([repr(run.run) for run in runs])
            session.confirm(f"Delete {len(runs)} run{'s' * (len(runs) != 1)} for good ({named})?", yes)
        return damaged_runs.forget(home, runs)


def _open(found: settings.EngineSettings) -> Home:
    return Home(
        found.home,
        journal=found.journal,
        blobs=found.blobs,
        lock_timeout=found.lock_timeout,
        trusted_owners=found.trusted_owners,
    )


# -- everything that was saved -----------------------------------------------------------------------------------------


def _read_everything(session: Session, found: settings.EngineSettings, damage: list[Damage]) -> Iterator[Finding]:
    if found.journal is None and not (found.home / JOURNAL).exists():
        return
    said = time.monotonic()
    shown = not session.quiet and not session.json
    line = shown and sys.stderr.isatty()

    def tell(progress: Progress) -> None:
        nonlocal said
        now = time.monotonic()
        if shown and now - said >= (REFRESH if line else REPORT):
            said = now
            click.echo(("\r\x1b[K" if line else "") + _so_far(progress), err=True, nl=not line)

    try:
        with _open(found) as home:
            inspection = home.inspection(tell)
            damage += inspection.damage()
    except OnceflowError as error:
        yield Finding("saved values", "bad", f"they cannot be read: {error}")
        return
    finally:
        if line:
            click.echo("\r\x1b[K", err=True, nl=False)
    damaged = [each for each in damage if each.unread is None]
    unread = [each for each in damage if each.unread is not None]
    if damaged:
        yield Finding("saved values", "bad", f"{len(damaged)} are damaged; the first is {_of(damaged[0])}")
    if unread:
        text = f"{len(unread)} could not be read, and may be whole; the first is {_of(unread[0])}: {unread[0].reason}"
        yield Finding("unread values", "bad", text)
    if not damage:
        yield Finding("saved values", "ok", f"whole: {_so_far(inspection.progress)}")


def _so_far(progress: Progress) -> str:
    runs = f"{progress.runs} of {progress.of_runs} runs"
    return f"{runs}, {progress.entries} entries, {progress.blobs} large values ({as_size(progress.bytes)})"


def _of(damage: Damage) -> str:
    owner = [f"task {damage.task}" if damage.task else "", f"run {damage.run}" if damage.run else "the journal"]
    return f"of {' of '.join(filter(None, owner))}, in {damage.file}"


def _told_as_json(damage: list[Damage]) -> dict[str, Any]:
    return {
        "damage": [_told_damage(each) for each in damage if each.unread is None],
        "unread": [_told_damage(each) for each in damage if each.unread is not None],
    }


def _told_damage(damage: Damage) -> dict[str, str | None]:
    told: dict[str, str | None] = msgspec.to_builtins(damage) | {"advice": _advice(damage)}
    del told["unread"]
    return told


def _advice(damage: Damage) -> str:
    if damage.unread is not None:
        return damage.unread
    restore = f"Restore {damage.file} from a backup"
    if damage.run is None:
        return f"{restore}."
    if damage.own_row:
        return f"{restore}, or forget the run with `onceflow doctor --forget-damaged` and start it anew."
    return f"{restore}, or forget the run with `onceflow delete {damage.run}` and start it anew."


def _told(name: str, value: Any) -> str:
    return UNSET[name] if value is None else str(_shown(name, value))


def _shown(name: str, value: Any) -> Any:
    return _plain(settings.shown(name, value))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


# -- the machine -------------------------------------------------------------------------------------------------------


def _machine() -> Iterator[Finding]:
    yield Finding("onceflow", "ok", VERSION)
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Finding("platform", "ok" if sys.platform == "linux" else "bad", platform.platform())
    yield Finding("sqlite", "ok", sqlite3.sqlite_version)
    yield Finding("cores", "ok", str(len(os.sched_getaffinity(0))))


# -- the home directory ------------------------------------------------------------------------------------------------


def _home(found: settings.EngineSettings, deep: bool) -> Iterator[Finding]:
    path = found.home
    try:
        exists = check_trusted(path, found.trusted_owners)
    except OnceflowError as error:
        yield Finding("home", "bad", str(error))
        return  # nothing in it is to be read
    if not exists:
        yield Finding("home", "note", f"{path} does not exist yet; the first run makes it")
        if found.journal is not None:
            yield from _opened(found, deep)
        return
    yield Finding("home", "ok", str(path))
    yield from itertools.islice(_access(path, found.trusted_owners), MOST_NAMED)
    yield _writable(path)
    yield _space(path)
    yield _logs(path)
    if found.journal is not None:
        yield from _engines(path)
        yield from _workers(path)
        yield from _opened(found, deep)
        return
    if not (path / JOURNAL).exists():
        yield Finding("journal", "note", "there is none yet; the first run makes it")
        return
    yield from _engines(path)
    yield from _workers(path)
    journal = _journal(path / JOURNAL, found.lock_timeout)
    yield journal
    if journal.state == "ok":
        yield from _opened(found, deep)


def _access(path: Path, owners: Collection[int]) -> Iterator[Finding]:
    """Who may do what in the home directory. What lies directly in it has no rights for others at all; what is deeper
    is behind folders that others cannot enter, and must not be theirs."""
    outer = {path, *[path / name for name in ENTRIES]}
    bad = False
    for file, text in _flaws(_everything(path), outer, path, owners):
        bad = True
        yield Finding("secrets" if file.name == KEY_FILE else "access", "bad", text)
    if not bad:
        yield Finding("access", "ok", "for its user only")


def _access_of_blobs(url: str, owners: Collection[int], deep: bool) -> Iterator[Finding]:
    """The same for a folder that was chosen for large values. That has a folder of its own for each journal, of which
    this is one; each run has a folder in it. Those above it were looked at when they were opened."""
    folder = folder_of(url)
    if folder is None or not folder.exists():
        return
    files = _everything(folder) if deep else (folder, *_listed(folder))
    bad = False
    for _, text in itertools.islice(_flaws(files, {folder}, folder, owners), MOST_NAMED):
        bad = True
        yield Finding("access to blobs", "bad", text)
    if not bad:
        text = "for its user only" + ("" if deep else "; --deep looks at each file")
        yield Finding("access to blobs", "ok", text)


def _flaws(
    files: Iterable[Path], outer: Collection[Path], root: Path, owners: Collection[int]
) -> Iterator[tuple[Path, str]]:
    """What others could change, and those of the outer ones that others have any right to."""
    for file in files:
        try:
            found = file.lstat()
        except OSError:  # an engine is at work, or the folder is not ours, which is a flaw of that
            continue
        flaw = trust.flaw(str(file), found, owners)
        is_open = found.st_mode & 0o077 and not stat.S_ISLNK(found.st_mode) and found.st_uid not in owners
        if flaw is not None:
            yield file, f"{file}: {flaw}, so that others could run code as you"
        elif is_open and file in outer:
            mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
            yield file, f"{file} is not for its user alone ({mode}): chmod -R go= {shlex.quote(str(root))}"


def _everything(path: Path) -> Iterator[Path]:
    yield path
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            yield Path(folder, name)


def _writable(path: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Finding("writable", "bad", f"nothing can be written there: {error.strerror or error}")
    return Finding("writable", "ok", "yes")


def _space(path: Path) -> Finding:
    usage = shutil.disk_usage(path)
    held = sum([entry.stat().st_size for entry in _files(path)])
    state: Literal["ok", "note"] = "note" if usage.free < LOW else "ok"
    return Finding("space", state, f"{as_size(usage.free)} free, {as_size(held)} taken by this home")


def _logs(path: Path) -> Finding:
    runs, engines = logs.of_runs(path), logs.of_engines(path)
    of_runs, of_engines = logs.listed(runs), logs.listed(engines)
    held = sum([logs.size(runs / run) for run in of_runs]) + sum([logs.size(engines / engine) for engine in of_engines])
    return Finding("logs", "ok", f"{as_size(held)}, of {len(of_runs)} runs and {len(of_engines)} engines")


def _files(path: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            with contextlib.suppress(OSError):
                if file.is_file():
                    yield file


def _engines(path: Path) -> Iterator[Finding]:
    engines = Engines(path / ENGINES)
    ids = [entry.name for entry in _listed(path / ENGINES) if "." not in entry.name and is_plain(entry.name)]
    alive = [id for id in ids if engines.is_alive(id)]
    yield Finding("engines", "ok", f"{len(alive)} alive, {len(ids) - len(alive)} dead that left their locks")


def _workers(path: Path) -> Iterator[Finding]:
    engines = Engines(path / ENGINES)
    left = [
        entry.name
        for entry in _listed(path / WORKERS)
        if is_plain(entry.name) and not engines.is_alive(entry.name) and not locks.all_gone(entry)
    ]
    if left:
        text = f"processes of {len(left)} dead engines still run; resume kills them when it needs to"
        yield Finding("workers", "note", text)
    else:
        yield Finding("workers", "ok", "none left behind")


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _journal(path: Path, limit: float) -> Finding:
    try:
        with contextlib.closing(connect_to_read(path, limit)) as opened:
            version = schema.version(opened)
            (answer,) = opened.execute("PRAGMA quick_check(1)").fetchone()
    except (sqlite3.Error, OSError, OnceflowError) as error:
        return Finding("journal", "bad", f"{path} cannot be read: {error}")
    if answer != "ok":
        return Finding("journal", "bad", f"{path} is damaged: {answer}")
    if version > len(schema.MIGRATIONS):
        return Finding("journal", "bad", f"it has version {version}, this onceflow knows {len(schema.MIGRATIONS)}")
    return Finding("journal", "ok", f"whole, version {version}, {as_size(path.stat().st_size)}")


def _opened(found: settings.EngineSettings, deep: bool) -> Iterator[Finding]:
    try:
        with _open(found) as home:
            if found.journal is not None:
                yield Finding("journal", "ok", f"{redacted(found.journal)} answers")
            if found.blobs is not None:
                yield from _access_of_blobs(home.blobs.target, found.trusted_owners, deep)
                home.blobs.probe()
                yield Finding("blobs", "ok", f"{without_options(home.blobs.target)} takes, gives and deletes objects")
            elif found.journal is not None:
                text = "large values stay on this host, where engines of others cannot read them: set `blobs`"
                yield Finding("blobs", "note", text)
            statuses = Counter([_status(home, row) for row in home.journal.list_runs(limit=None)])
            told = ", ".join([f"{count} {status}" for status, count in statuses.most_common()])
            yield Finding("runs", "ok", told or "none")
            if damaged := home.journal.damaged_runs():
                named = ", ".join([run.reason for run in damaged])
                text = f"{named}: restore a backup, or delete what is damaged with `onceflow doctor --forget-damaged`"
                yield Finding("damaged runs", "bad", text)
            orphans = home.count_orphans()
            told = f"{orphans.files} files, {as_size(orphans.bytes)}"
            yield Finding("orphans", "ok", f"{told}; an engine collects them once an hour")
    except OnceflowError as error:
        yield Finding("opening", "bad", str(error))


def _status(home: Home, row: RunRow) -> str:
    """As an engine would tell it: a run that goes on, but whose engine is dead, is interrupted. One that was submitted
    has no engine yet."""
    if row.status not in ACTIVE or (row.status == "pending" and row.owner is None):
        return row.status
    return row.status if row.owner is not None and home.engines.is_alive(row.owner) else "interrupted"
