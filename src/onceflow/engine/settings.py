"""Settings of an engine. A setting that is not given as an argument comes from the environment (`ONCEFLOW_HOME`, …),
then from `[tool.onceflow]` in the nearest pyproject.toml, then from the defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import msgspec

from onceflow.engine.logs.task_lines import level_number
from onceflow.errors import InvalidOption
from onceflow.storage import leases, lock_waits
from onceflow.storage.journal import Durability
from onceflow.values import trust
from onceflow.values.sizes import read_size

HOME = ".onceflow"
PREFIX = "ONCEFLOW_"

URLS = ("journal", "blobs")
"""Settings whose values may be secret; code that reads them quotes none of them."""

SHORTEST_LEASE = 1.0
"""Seconds."""

WORKER_DEATHS = 10
"""Where one attempt in four loses its worker by chance, one task in a million fails with it."""

OWN_PROJECT = "put a pyproject.toml of your own into the current directory"
"""What the user can do instead of mending one that is not trusted."""

Output = Literal["show", "store", "inherit"]
"""Output of tasks: stored and shown, stored only, or left to the workers themselves."""


class EngineSettings(msgspec.Struct, frozen=True):
    home: Path
    """Where runs are kept."""
    workers: int | None = None
    """Worker processes; None for as many as there are usable cores."""
    durability: Durability = "power"
    """What a save survives: loss of power, or only the death of processes (faster)."""
    preload: tuple[str, ...] = ()
    """Modules that workers import before they are needed."""
    recover: bool = False
    """Go on with all interrupted runs when the engine starts."""
    output: Output = "show"
    """How output of tasks is handled."""
    log_level: int | str = "INFO"
    """The level of `logging` from which on records of tasks are captured."""
    log_limit: int = 10_000_000
    """Bytes that the log of a run may have, about; then its beginning is dropped."""
    event_log: bool = True
    """Keep a log of what the engine does."""
    object_memory: int | None = None
    """Bytes of memory for large values that wait to be read; None for 30 % of what there is. Beyond it they are moved
    to disk."""
    object_patience: float = 60.0
    """Seconds after which a large value that has not been read is moved to disk."""
    progress: bool = False
    """Show the progress of runs on stderr while a caller waits for them."""
    blobs: str | None = None
    """The URL of a place for large values (`storage.blob_urls`); None for the home directory."""
    journal: str | None = None
    """The URL of a PostgreSQL database that has the journal; None for a file in the home directory."""
    lease: float = leases.SECONDS
    """Seconds after which engines on other hosts may take this one for dead if it does not say that it lives."""
    schedules: bool = True
    """Fire schedules that are due."""
    backend: str = "local"
    """Where attempts run: on this host, or on a Ray cluster (`backends.ray.cluster`)."""
    worker_deaths: int = WORKER_DEATHS
    """Workers that may die in a row while they run one task: the last of them fails the task."""
    max_running: int | None = None
    """Runs that are driven at a time; None for any number. Others wait."""
    lock_timeout: float = lock_waits.LOCK_TIMEOUT
    """Seconds that a command waits for other programs that keep the journal locked. Runs wait as long as it takes."""
    max_pending: int | None = None
    """Runs that may wait; None for any number. One more is refused."""
    trusted_owners: tuple[int, ...] = ()
    """Ids of users beside this one and root whose folders may hold the home directory (`values.trust`)."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Without passwords."""
        return [(name, shown(name, getattr(self, name))) for name in self.__struct_fields__]

    def __repr__(self) -> str:
        return f"EngineSettings({', '.join([f'{name}={value!r}' for name, value in self.__rich_repr__()])})"


def shown(name: str, value: Any) -> Any:
    """The value of a setting as it may be printed: without passwords, and without the options of URLs."""
    if value is None or name not in URLS:
        return value
    from onceflow.storage import blob_urls, redaction  # seldom needed

    return redaction.redacted(value) if name == "journal" else blob_urls.without_options(value)


def find(**given: Any) -> EngineSettings:
    """All settings, from all sources. `None` means not given. Raises `InvalidOption`, which names the source."""
    found = {}
    for name, value, source, base in _given(given):
        setting = _checked(name, value, source)
        found[name] = base / setting if name == "home" else setting
    home = found.pop("home", Path(HOME)).absolute()
    return EngineSettings(home=trust.own_folder(home, found.get("trusted_owners", ())), **found)


def sources(**given: Any) -> dict[str, str]:
    """Setting → where `find` takes its value from: `argument`, the name of a variable, the table in a pyproject.toml,
    or `default`."""
    found = {name: source for name, _, source, _ in _given(given)}
    return {name: found.get(name, "default") for name in _READ}


def _given(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, Path]]:
    """The settings that were given: name, value, where it comes from, and the folder that a path is relative
    to."""
    table, folder = _project(Path.cwd(), _trusted_without_project(arguments))
    for name in table:
        if name not in _READ:
            problem = f"[tool.onceflow] in {folder / 'pyproject.toml'} has only {', '.join(_READ)}"
            raise InvalidOption(name, problem, kind="setting")
    for name in _READ:
        variable = PREFIX + name.upper()
        if arguments.get(name) is not None:
            yield name, arguments[name], "argument", Path()
        elif os.environ.get(variable):
            yield name, os.environ[variable], variable, Path()
        elif name in table:
            yield name, table[name], f"[tool.onceflow] in {folder / 'pyproject.toml'}", folder


def check(**given: Any) -> None:
    """Raises `InvalidOption` if one of these can be no argument."""
    for name, value in given.items():
        if value is not None:
            _checked(name, value, "argument")


def _checked(name: str, value: Any, source: str) -> Any:
    try:
        return _READ[name](value)
    except (TypeError, ValueError) as error:
        from onceflow.storage import redaction  # seldom needed

        problem = str(error)
        if name not in URLS and redaction.may_be_secret(value):
            problem = f"it cannot be {redaction.shown(value)}"
        raise InvalidOption(name, f"{problem} (from {source})", kind="setting") from None


def _trusted_without_project(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """The owners that are trusted whatever a pyproject.toml says: whether that is trusted is yet to be decided."""
    value, source = arguments.get("trusted_owners"), "argument"
    if value is None:
        value, source = os.environ.get(trust.VARIABLE, ""), trust.VARIABLE
    owners: tuple[int, ...] = _checked("trusted_owners", value, source)
    return owners


def _project(start: Path, owners: Collection[int]) -> tuple[Mapping[str, Any], Path]:
    """`[tool.onceflow]` of the nearest pyproject.toml above, and its folder. Raises `StorageNotTrusted` if another user
    could have written that table: it says where pickles are read from."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        opened = _open_if_possible(file)
        if opened is None:
            continue
        with opened:
            text = opened.read() or b""
            if b"onceflow" not in text:
                return {}, folder
            import tomllib  # slow to import, seldom needed

            try:
                tools = tomllib.loads(text.decode()).get("tool", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise InvalidOption(str(file), f"it cannot be read: {error}", kind="setting") from None
            table = tools.get("onceflow", {}) if isinstance(tools, dict) else None
            if not isinstance(table, dict):
                raise InvalidOption(str(file), "[tool.onceflow] is not a table in it", kind="setting")
            if table:
                trust.check_opened(opened.fileno(), file, owners, OWN_PROJECT)
                trust.check_path(file, owners, OWN_PROJECT)
            return table, folder
    return {}, start


def _open_if_possible(file: Path) -> BinaryIO | None:
    """None if there is no such file, or this user may not read it. A pipe is not waited for: it has nothing to say."""
    try:
        return open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return None


def _path(value: Any) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise TypeError(f"it is a path, not {value!r}")
    if isinstance(value, str) and ("://" in value or value.startswith(("postgresql:", "postgres:"))):
        raise ValueError("it is a path, not a URL")
    return Path(value).expanduser()


def _blobs(value: Any) -> str:
    from onceflow.storage import blob_urls  # seldom needed

    url = blob_urls.check(value)
    if url.startswith("memory:"):
        raise ValueError("memory: is for tests of storage: what is saved must outlive the process")
    return url


def _count(value: Any) -> int:
    count = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise TypeError(f"it is a number of at least 1, not {value!r}")
    return count


def _size(value: Any) -> int:
    try:
        size = read_size(int(value) if isinstance(value, str) and value.isdecimal() else value)
    except ValueError as error:
        raise ValueError(f"it is {error}") from None
    if size == 0:
        raise ValueError("it is more than nothing")
    return size


def _seconds(value: Any) -> float:
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0:
        raise TypeError(f"it is a number of seconds, not {value!r}")
    return seconds


def _journal(value: Any) -> str:
    from onceflow.storage import redaction  # seldom needed

    if not isinstance(value, str):
        raise TypeError(f"it is the URL of a PostgreSQL database, postgresql://…, not {redaction.shown(value)}")
    redaction.check_postgres(value)
    return value


def _backend(value: Any) -> str:
    address = value if isinstance(value, str) else ""
    known = address in ("local", "ray", "auto") or address.startswith("ray://")
    if not known and not (address.rpartition(":")[0] and address.rpartition(":")[2].isdecimal()):
        raise TypeError(
            f"it is 'local', or a Ray cluster: 'ray', 'auto', 'ray://host:port' or 'host:port', not {value!r}"
        )
    return address


def _lease(value: Any) -> float:
    seconds = _seconds(value)
    if seconds < SHORTEST_LEASE:
        raise TypeError(f"it is at least {SHORTEST_LEASE:g} second, not {value!r}")
    return seconds


def _durability(value: Any) -> Durability:
    if value not in get_args(Durability):
        raise TypeError(f"it is 'power' or 'process', not {value!r}")
    durability: Durability = value
    return durability


def _output(value: Any) -> Output:
    if value not in get_args(Output):
        raise TypeError(f"it is 'show', 'store' or 'inherit', not {value!r}")
    output: Output = value
    return output


def _level(value: Any) -> int | str:
    number = level_number(value)
    return value.upper() if isinstance(value, str) and not value.isdecimal() else number


def _modules(value: Any) -> tuple[str, ...]:
    modules = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(modules, Sequence) or not all(isinstance(module, str) for module in modules):
        raise TypeError(f"it is a list of modules, not {value!r}")
    return tuple(modules)


def _flag(value: Any) -> bool:
    known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    flag = known.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise TypeError(f"it is true or false, not {value!r}")
    return flag


_READ: dict[str, Callable[[Any], Any]] = {
    "home": _path,
    "blobs": _blobs,
    "workers": _count,
    "durability": _durability,
    "preload": _modules,
    "recover": _flag,
    "output": _output,
    "log_level": _level,
    "log_limit": _count,
    "event_log": _flag,
    "object_memory": _size,
    "object_patience": _seconds,
    "progress": _flag,
    "journal": _journal,
    "lease": _lease,
    "schedules": _flag,
    "backend": _backend,
    "worker_deaths": _count,
    "max_running": _count,
    "max_pending": _count,
    "lock_timeout": _seconds,
    "trusted_owners": trust.read_owners,
}
