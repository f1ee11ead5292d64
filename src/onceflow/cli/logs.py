"""`onceflow logs`: what tasks printed and logged, and what engines did."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.session import Session, as_json, as_time, common
from onceflow.cli.types import AGE, TEXT
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.logs.engine_log import EngineEvent
    from onceflow.engine.logs.task_lines import LogLine

SHORT = 8
"""Digits of an engine's id that are enough for people."""


@click.command
@run_selection.runs_argument()
@run_selection.task_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the run ends.")
@click.option("--tail", type=click.IntRange(0, 2**31), metavar="N", help="Of what is there, only the last N lines.")
@click.option("--since", type=AGE, metavar="AGE", help="Nothing older than that: 90s, 30m, 12h.")
@click.option("--stream", type=click.Choice(["stdout", "stderr", "log"]), help="Only what was written there.")
@click.option("--level", type=TEXT, metavar="L", help="Only records of logging, from this level on: WARNING.")
@click.option("--attempt", type=TEXT, metavar="A", help="Only of this attempt: 1.2.")
@click.option("--engine", "of_engines", is_flag=True, help="What engines did instead, to all runs or this one.")
@common
def logs(
    session: Session,
    run: str | None,
    task: str | None,
    follow: bool,
    tail: int | None,
    since: float | None,
    stream: Any,
    level: str | None,
    attempt: str | None,
    of_engines: bool,
) -> int:
    """Print what the tasks of a run have printed and logged, or one of them, wherever it was or is driven. With --quiet
    only the texts.

    With --engine, one line for each thing that an engine did: runs, attempts, workers that died, commands, trouble.
    """
    targets.look_in_current_folder()
    after = None if since is None else time.time() - since
    if of_engines:
        if stream or level or attempt:
            raise exits.Wrong("--stream, --level and --attempt are for what tasks print, not for --engine")
        _print_events(session, run, task, follow, tail, after)
        return exits.FINE
    if run is None:
        raise exits.Wrong("which run? Give its id or name, or --engine")
    with session.engine_of([run]) as engine:
        id = engine.find(run).id
        lines = engine.logs(
            id, task, attempt=attempt, stream=stream, level=level, since=after, tail=tail, follow=follow
        )
        count = _write(_forms(session, lines), at_once=follow)
        if not count and task is not None and not _is_task(engine, id, task):
            raise exits.Refused(f"there is no task {task!r} in run {run}")
    return exits.FINE


def _write(texts: Iterable[str], *, at_once: bool) -> int:
    """How many there were."""
    count = 0
    for text in texts:
        sys.stdout.write(text)
        if at_once:
            sys.stdout.flush()
        count += 1
    sys.stdout.flush()
    return count


def _is_task(engine: Engine, run: str, task: str) -> bool:
    """Whether there may be one: it can have been forgotten, with the one that returned its graph still there."""
    from onceflow.errors import OnceflowError

    try:
        ids = [info.id for info in engine.list_tasks(run)]
    except OnceflowError:  # the code of the run is not here
        return True
    return task in ids or any(task.startswith((f"{id}/", f"{id}~")) for id in ids)


def _forms(session: Session, lines: Iterable[LogLine]) -> Iterator[str]:
    from onceflow.engine.logs import terminal_lines

    coloured = terminal_lines.takes_colours(sys.stdout)
    for line in lines:
        if session.json:
            yield as_json(_line_as_json(line)) + "\n"
        elif session.quiet:
            yield line.text + "\n"
        else:
            yield terminal_lines.form(line, before=as_time(line.time), coloured=coloured)


def _line_as_json(line: LogLine) -> dict[str, Any]:
    return {
        "time": line.time,
        "task": line.task or None,
        "attempt": line.attempt or None,
        "stream": line.stream,
        "level": logging.getLevelName(line.level) if line.stream == "log" else None,
        "logger": line.logger or None,
        "undo": line.undo,
        "text": line.text,
    }


# -- what engines did --------------------------------------------------------------------------------------------------


def _print_events(
    session: Session, run: str | None, task: str | None, follow: bool, tail: int | None, since: float | None
) -> None:
    from onceflow.engine.logs import engine_log
    from onceflow.storage.logs import Reader, of_engines

    id = None
    if run is not None:
        with session.engine_of([run]) as engine:
            id = engine.find(run).id
    folder, readers = of_engines(session.find_home()), dict[str, Reader]()

    def wanted(events: Iterable[EngineEvent]) -> Iterator[EngineEvent]:
        for event in events:
            about = (id is None or event.run == id) and (task is None or event.task == task)
            if about and (since is None or event.time >= since):
                yield event

    def chosen() -> Iterator[EngineEvent]:
        there = wanted(engine_log.read(folder, readers))
        yield from there if tail is None else deque(there, tail)
        if follow:
            yield from wanted(engine_log.follow(folder, readers))

    form = _event_as_json if session.json else _event_form
    _write((form(event) + "\n" for event in chosen()), at_once=follow)


def _event_form(event: EngineEvent) -> str:
    from onceflow.core.run import attempt_name

    words = [
        as_time(event.time),
        event.engine[:SHORT],
        event.event,
        event.run,
        event.task,
        attempt_name(event.attempt) if event.attempt else "",
        f"worker {event.worker}" if event.worker else "",
        f"{event.seconds:.3f} s" if event.seconds is not None else "",
        event.detail,
    ]
    return "  ".join([one_line(word) for word in words if word])


def _event_as_json(event: EngineEvent) -> str:
    from onceflow.core.run import attempt_name

    return as_json(
        {
            "time": event.time,
            "engine": event.engine,
            "event": event.event,
            "run": event.run or None,
            "task": event.task or None,
            "attempt": attempt_name(event.attempt) if event.attempt else None,
            "worker": event.worker or None,
            "seconds": event.seconds,
            "detail": event.detail or None,
        }
    )
