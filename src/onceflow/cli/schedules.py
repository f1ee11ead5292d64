"""`onceflow schedule`: workflows that run by the clock.

Declaring and looking is all that is done here. Schedules are fired by engines that stay: programs, and `onceflow
serve`. Only `trigger` and `backfill` run something themselves, and wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.common_verbs import Kind, add_verbs
from onceflow.cli.run import print_result, wait_shown
from onceflow.cli.session import Session, as_time, common, only_results_on_stdout, output_option, run_as_json
from onceflow.cli.types import AGE, PAIR, TEXT
from onceflow.errors import NoSuchSchedule
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.schedules.definitions import ScheduleInfo


@click.group
def schedule() -> None:
    """Have workflows run by the clock: by cron expressions, every so often, or once.

    Schedules are fired by engines that stay, such as `onceflow serve` or a program of yours that uses the same home
    directory. While there is none nothing is fired; what was missed is made up for as --catch-up says.
    """


def _say(session: Session, info: ScheduleInfo) -> None:
    session.say(f"{one_line(info.id)}: {one_line(info.workflow)}({one_line(info.arguments)})")
    session.say(f"  when      {one_line(info.rule)}")
    for name, time in (("start", info.start), ("end", info.end)):
        if time is not None:
            session.say(f"  {name:9} {as_time(time)}")
    session.say(f"  catch up  {info.catch_up}, overlap {info.overlap}, limit {info.limit}")
    session.say(f"  next      {_next(info)}")
    session.say(f"  fired     {info.fired}" + (f", last for {_time(info.last)}" if info.last is not None else ""))
    if info.skipped or info.waiting:
        session.say(f"  skipped   {info.skipped}, waiting {info.waiting}")
    if info.problem is not None:
        session.say(f"  problem   {one_line(info.problem)}")


def _next(info: ScheduleInfo) -> str:
    return "paused" if info.paused else _time(info.next) or "never"


def _time(time: float | None) -> str:
    return "" if time is None else as_time(time)


def _as_json(info: ScheduleInfo) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(info)


SCHEDULES = Kind(
    word="schedule",
    key="id",
    missing=NoSuchSchedule,
    list=lambda engine: engine.list_schedules(),
    get=lambda engine, id: engine.get_schedule(id),
    delete=lambda engine, id: engine.delete_schedule(id),
    changes={
        "pause": lambda engine, id: engine.pause_schedule(id),
        "resume": lambda engine, id: engine.resume_schedule(id),
    },
    making=frozenset(),
    columns={
        "id": lambda info: info.id,
        "workflow": lambda info: info.workflow,
        "when": lambda info: info.rule,
        "next": _next,
        "last": lambda info: _time(info.last),
        "fired": lambda info: str(info.fired),
    },
    as_json=_as_json,
    say=_say,
)

add_verbs(
    schedule,
    SCHEDULES,
    {
        "list": "List schedules. With --quiet only their ids.",
        "pause": "Let a schedule rest. Runs that go on are not touched.",
        "resume": "End the rest of a schedule. What would have been due meanwhile is not made up for (`backfill` does "
        "that).",
        "delete": "Forget a schedule. Its runs stay.",
    },
)


@schedule.command
@SCHEDULES.argument
@targets.arguments
@click.option("--cron", type=TEXT, metavar="EXPR", help="'30 2 * * *', with seconds '0 30 2 * * *', or '@daily'.")
@click.option("--every", type=AGE, metavar="AGE", help="So often: 30s, 15m, 1d. Counted from --start, or from 1970.")
@click.option("--at", type=TEXT, metavar="TIME", help="Once: 2026-03-29T02:30.")
@click.option("--zone", type=TEXT, default="UTC", show_default=True, help="The time zone that times are meant in.")
@click.option("--start", type=TEXT, metavar="TIME", help="Not before this time.")
@click.option("--end", type=TEXT, metavar="TIME", help="Not from this time on.")
@click.option("--jitter", type=AGE, default="0", metavar="AGE", help="Late by a part of this, always the same.")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "latest", "all"]),
    default="latest",
    show_default=True,
    help="What is made up for that was missed while there was no engine.",
)
@click.option(
    "--overlap",
    type=click.Choice(["skip", "queue", "allow"]),
    default="skip",
    show_default=True,
    help="What becomes of a firing while the last run goes on.",
)
@click.option("--limit", type=int, default=100, show_default=True, help="The most that is made up for, or waits.")
@click.option("--on-failure", type=click.Choice(["keep", "undo"]), default="keep", help="What becomes of failed runs.")
@click.option("--queue", type=TEXT, metavar="NAME", help="The queue in which a run needs a place.")
@click.option("--priority", type=int, default=0, metavar="N", help="Higher ones go first: -100 to 100.")
@click.option("--timeout", type=AGE, metavar="AGE", help="How long a run may take: 90s, 30m, 12h.")
@click.option("--meta", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Metadata of its runs.")
@common
def add(
    session: Session,
    name: str,
    target: str,
    given: tuple[str, ...],
    input: str | None,
    meta: tuple[tuple[str, Any], ...],
    **options: Any,
) -> None:
    """Have a workflow or a task run by the clock, or change how it does.

    If it has a parameter `scheduled` that is not given, that gets the time for which it is fired. What is declared
    again under the same ID is changed, and goes on from where it was.
    """
    with only_results_on_stdout():
        found = targets.find(target)
        values = targets.read_values(found, given, input)
        with session.engine() as engine:
            info = engine.schedule(name, found, kwargs=values, metadata=dict(meta), **options)
    SCHEDULES.print(session, info)


@schedule.command
@SCHEDULES.argument
@common
def show(session: Session, name: str) -> None:
    """Show a schedule, and its last runs."""
    with SCHEDULES.engine(session, name) as engine:
        info = engine.get_schedule(name)
        runs = engine.list_runs(metadata={"schedule": name}, limit=10)
    if session.json:
        session.say_json({**_as_json(info), "runs": [run_as_json(run) for run in runs]})
        return
    SCHEDULES.print(session, info)
    if runs:
        session.say("")
        session.table(
            ["run", "for", "status", "created"],
            [[run.id, str(run.metadata.get("scheduled")), run.status, as_time(run.created)] for run in runs],
        )


@schedule.command
@SCHEDULES.argument
@output_option()
@common
def trigger(session: Session, name: str, output: Any) -> int:
    """Run what a schedule runs, now, and print its result. Neither a rest nor a run that goes on keeps it from that."""
    targets.look_in_current_folder()
    with only_results_on_stdout(), SCHEDULES.engine(session, name, output) as engine:
        handle = engine.trigger_schedule(name)
        result = wait_shown(session, engine, handle)
    print_result(session, handle, result)
    return exits.FINE


@schedule.command
@SCHEDULES.argument
@click.argument("start", type=TEXT, metavar="START")
@click.argument("end", type=TEXT, metavar="END")
@click.option(
    "--at-once", type=int, metavar="N", help="So many at the same time (default: 1, or 10 if they may overlap)."
)
@output_option()
@common
def backfill(session: Session, name: str, start: str, end: str, at_once: int | None, output: Any) -> int:
    """Run what is missing from START on and before END, in the past: what was never fired, and what has failed or was
    cancelled or interrupted. What has succeeded is left alone. The exit code is 1 if a run does not succeed.
    """
    targets.look_in_current_folder()
    with only_results_on_stdout(), SCHEDULES.engine(session, name, output) as engine:
        infos = engine.backfill(name, start, end, at_once=at_once)
    if session.json:
        session.say_json([run_as_json(info) for info in infos])
    else:
        for info in infos:
            session.say(f"{one_line(info.name or info.id)}: {info.status}")
        if not infos:
            session.note("nothing is missing, so nothing was done")
    failed = [info for info in infos if info.status != "succeeded"]
    if failed:
        click.echo(f"onceflow: {len(failed)} of {len(infos)} runs did not succeed", err=True)
    return exits.FAILED if failed else exits.FINE


@schedule.command("next")
@SCHEDULES.argument
@click.option("-n", "--count", type=int, default=5, show_default=True, help="So many.")
@common
def next_(session: Session, name: str, count: int) -> None:
    """Print the times for which a schedule fires next, in its time zone."""
    with SCHEDULES.engine(session, name) as engine:
        times = [time.isoformat() for time in engine.next_times(name, count)]
    if session.json:
        session.say_json(times)
    else:
        for time in times:
            click.echo(time)
