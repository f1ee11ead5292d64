"""What every verb has: `--home`, `--json`, `--quiet`, `--debug`, and ways to open an engine and to say something.

Results go to stdout; everything else, such as questions and warnings, to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onceflow.cli.exits import Refused, Wrong
from onceflow.cli.types import TEXT
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.settings import EngineSettings

COLOURS = {
    "succeeded": "green",
    "done": "green",
    "failed": "red",
    "paused": "red",
    "interrupted": "yellow",
    "cancelled": "yellow",
    "undone": "yellow",
    "retrying": "yellow",
    "undoing": "yellow",
    "running": "cyan",
    "ok": "green",
    "note": "yellow",
    "bad": "red",
}


DEEPEST = 50
"""Levels of a value that are told one by one, if it is not plain JSON."""


class Session(NamedTuple):
    """One call of the command."""

    home: str | None
    json: bool
    quiet: bool

    # -- engines -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def engine(self, output: Any = None, *, stays: bool = False) -> Iterator[Engine]:
        """An engine on the home directory, which is made if there is none. When the block ends, nothing of it goes on.
        `output` says what becomes of what tasks print; with `--quiet` it is only stored.

        The settings `recover` and `schedules` are for programs that run all day: a command does what it says, and
        nothing else. One that `stays` fires schedules as the settings say.
        """
        from onceflow.engine.engine import Engine

        with _logging(self.quiet):
            engine = Engine(
                home=self.home,
                recover=False,
                output=output or ("store" if self.quiet else None),
                progress=False,
                schedules=None if stays else False,
            )
            if not stays:
                engine.limit_opening()
            try:
                yield engine
            finally:
                engine.close()

    @contextlib.contextmanager
    def engine_if_any(self, output: Any = None) -> Iterator[Engine | None]:
        """The same, but None if there is no home directory: to look must not make one."""
        from onceflow.storage.home import JOURNAL

        found = self.find_settings()
        path = found.home
        if found.journal is None and not (path / JOURNAL).exists():
            yield None
            return
        with self.engine(output) as engine:
            yield engine

    @contextlib.contextmanager
    def engine_of(self, runs: Sequence[str], output: Any = None) -> Iterator[Engine]:
        """The same, for a verb that needs these runs."""
        from onceflow.errors import NoSuchRun

        with self.engine_if_any(output) as engine:
            if engine is None:
                raise NoSuchRun(runs[0])
            yield engine

    def find_settings(self) -> EngineSettings:
        """Raises what is wrong with the home directory, if there is one: whoever asks is about to read there."""
        from onceflow.engine import settings
        from onceflow.storage.home import check_trusted

        found = settings.find(home=self.home)
        check_trusted(found.home, found.trusted_owners)
        return found

    def find_home(self) -> Path:
        return self.find_settings().home

    def shown(self, engine: Engine, runs: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """Meanwhile it is shown on stderr how these runs get on."""
        from onceflow.engine.display.refresh import Displaying

        if self.quiet:
            return contextlib.nullcontext()
        return Displaying(engine, lambda: runs, "json" if self.json else None)

    # -- saying something ----------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A result, for people."""
        if not self.quiet:
            click.echo(text)

    def say_json(self, value: object) -> None:
        click.echo(as_json(value))

    def note(self, text: str) -> None:
        """Something that is worth knowing, but not what was asked for."""
        if not self.quiet:
            click.echo(f"onceflow: {one_line(text)}", err=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """On a terminal as wide as that is, elsewhere with whole words for other programs."""
        if self.quiet:
            return
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(rich_table(columns, rows))
        else:
            click.echo(plain_table(columns, rows))

    def say_list(
        self,
        found: Sequence[Any],
        as_json: Callable[[Any], object],
        key: str,
        columns: Mapping[str, Callable[[Any], str]],
    ) -> None:
        """With `--quiet` only this field of each; else a table. `columns` are headings, and what stands below them."""
        if self.json:
            self.say_json([as_json(one) for one in found])
        elif self.quiet:
            for one in found:
                click.echo(getattr(one, key))
        elif found:
            self.table(list(columns), [[column(one) for column in columns.values()] for one in found])

    def confirm(self, question: str, yes: bool) -> None:
        """Raises unless the answer is yes."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Refused(f"{one_line(question)} There is nobody to ask here: add --yes if you are sure.")
        if not click.confirm(question, err=True):
            raise Refused("nothing was changed")


def common(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every verb has. The verb is given a `Session` as its first argument."""

    @click.option("--home", type=TEXT, metavar="DIR", help="The home directory (default: as the settings say).")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
    @click.option(
        "-q",
        "--quiet",
        is_flag=True,
        help="Print only what was asked for, or nothing, besides errors and what is waited for.",
    )
    @click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
    @functools.wraps(verb)
    def call(home: str | None, as_json: bool, quiet: bool, debug: bool, **given: Any) -> Any:
        if home == "":
            raise Wrong("--home is a directory, not an empty text")
        with _showing_waits():
            return verb(Session(home, as_json, quiet), **given)

    return call


def output_option() -> Callable[[Any], Any]:
    return click.option(
        "--output",
        type=click.Choice(["show", "store", "inherit"]),
        help="What becomes of what tasks print (default: as the settings say).",
    )


WAITS = "onceflow.storage.lock_waits"
"""The logger of lines about waits."""


class _Echo(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name != WAITS:
            _echo(record.getMessage())


def _echo(text: str) -> None:
    with contextlib.suppress(Exception):
        click.echo(f"onceflow: {one_line(text)}", err=True)


@contextlib.contextmanager
def _showing_waits() -> Iterator[None]:
    """A command that hangs says for what, also with `--quiet`, and whatever the user's module does with its log."""
    from onceflow.storage import lock_waits

    def show(text: str) -> None:
        if not _logs_to_stderr(logging.getLogger(WAITS)):
            _echo(text)

    lock_waits.listeners.append(show)
    try:
        yield
    finally:
        lock_waits.listeners.remove(show)


def _logs_to_stderr(logger: logging.Logger) -> bool:
    """Whether a warning of this logger appears on stderr already."""
    if logger.disabled or not logger.isEnabledFor(logging.WARNING):
        return False
    handlers: list[logging.Handler] = []
    source: logging.Logger | None = logger
    while source is not None:
        handlers += source.handlers
        source = source.parent if source.propagate else None
    if not handlers and logging.lastResort is not None:
        handlers = [logging.lastResort]
    return any(
        isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr and handler.level <= logging.WARNING
        for handler in handlers
    )


@contextlib.contextmanager
def _logging(quiet: bool) -> Iterator[None]:
    """Warnings of the engine are for whoever sits here, unless the user's module has arranged for something else."""
    logger = logging.getLogger("onceflow")
    handler = _Echo(logging.ERROR if quiet else logging.WARNING)
    if not logger.hasHandlers():
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def only_results_on_stdout() -> Iterator[None]:
    """What tasks and modules print meanwhile goes to stderr, so that stdout is fit for another program.

    Workers write to descriptor 1, this process to `sys.stdout`; both are turned.
    """
    sys.stdout.flush()
    turned = _fileno(sys.stdout) == 1 and _fileno(sys.stderr) == 2
    kept = os.dup(1) if turned else -1
    if turned:
        os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if turned:
            os.dup2(kept, 1)
            os.close(kept)


def _fileno(stream: Any) -> int | None:
    try:
        number: int = stream.fileno()
    except (OSError, ValueError):
        return None
    return number


# -- forms -------------------------------------------------------------------------------------------------------------


def as_json(value: object) -> str:
    """What JSON has no form for appears as Python shows it."""
    import msgspec

    try:
        return msgspec.json.encode(value, enc_hook=_shown).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        import json  # knows whole numbers of any length

        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object, depth: int = 0) -> Any:
    """For what msgspec refuses: keys that are no texts, texts that are no UTF-8, values that contain themselves."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if depth < DEEPEST:
        if isinstance(value, dict):
            return {
                _plain(key if isinstance(key, str) else _shown(key)): _plain(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, depth + 1) for item in value]
    return _shown(value)


def _shown(value: object) -> str:
    try:
        return repr(value).encode(errors="backslashreplace").decode()
    except Exception as error:  # its class is the user's
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def as_text(value: object) -> str:
    """A value for people: a text as it is, everything else as Python shows it."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    import pprint

    try:
        return pprint.pformat(value, width=120).encode(errors="backslashreplace").decode()
    except Exception:
        return _shown(value)


def as_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def as_duration(seconds: float) -> str:
    for limit, unit, factor in ((0.001, "µs", 1e6), (1, "ms", 1e3), (100, "s", 1)):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def run_as_json(info: RunInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "name": info.name,
        "workflow": info.workflow,
        "status": info.status,
        "created": info.created,
        "updated": info.updated,
        "metadata": info.metadata,
    }


def title(info: RunInfo) -> str:
    """How a run is called in a sentence."""
    return one_line(info.name or info.id)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(columns), *[[one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    return "\n".join(
        "  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]).rstrip() for line in lines
    )


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in ("id", "status", "state"))
    for row in rows:
        table.add_row(*[Text(one_line(cell), style=COLOURS.get(cell, "")) for cell in row])
    return table
