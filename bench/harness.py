"""The harness of the benchmarks.

A workload is a module `bench/workloads/<name>.py` with a function `measure() -> list[Row]`. The harness finds it by its
name, runs it, prints its rows as a table and, if asked, writes all rows as JSON. A row may carry a limit; if one is
not held, the exit status is 1. A row without a value says in its note why it could not be measured.

The title of a table shows the machine's load before and after: figures from a machine that had other work are not the
program's. `--threads` shows where the time went in those parts of a workload that watch it (bench/threads.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import threads

WORKLOADS = Path(__file__).parent / "workloads"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One measured number."""

    name: str
    """What was measured, for people: `chain, 10,000 nodes`."""
    value: float | None
    """None if it could not be measured: the note says why."""
    unit: str
    """Of the value: `events/s`, `ms`, `×`."""
    limit: str = ""
    """What was asked for, as text: `≥ 100,000`. Empty for a number that is only shown."""
    ok: bool = True
    """Whether the limit is held."""
    low: float | None = None
    """The lowest of the repeats, if there were any. The value is their median."""
    high: float | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What one workload said, and how many seconds it took."""

    workload: str
    seconds: float
    rows: list[Row]
    load: tuple[float, float]
    """How many processes wanted to run, before and after: the mean of the last minute."""

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)


def discover(directory: Path = WORKLOADS) -> list[str]:
    """The names of all workloads, sorted. A file whose name starts with an underscore is a helper, not a workload."""
    return sorted(path.stem for path in directory.glob("*.py") if not path.stem.startswith("_"))


def measure(workload: str) -> Report:
    module = importlib.import_module(f"bench.workloads.{workload}")
    gc.collect()  # the workload before this one leaves nothing for this one to clean up
    before = os.getloadavg()[0]
    start = time.perf_counter()
    rows = module.measure()
    return Report(workload, time.perf_counter() - start, rows, (before, os.getloadavg()[0]))


def show(report: Report, console: Console) -> None:
    before, after = report.load
    title = f"{report.workload} ({report.seconds:.1f} s, load {before:.1f} → {after:.1f})"
    table = Table(title=title, title_justify="left")
    table.add_column("measured", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("limit", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in report.rows:
        verdict = "" if not row.limit or row.value is None else "[green]held[/]" if row.ok else "[red]NOT HELD[/]"
        name = f"{row.name} ({row.note})" if row.note else row.name
        value = "not measured" if row.value is None else readable(row.value)
        spread = "" if row.low is None or row.high is None else f"{readable(row.low)} – {readable(row.high)}"
        table.add_row(escape(name), value, spread, escape(row.unit), escape(row.limit), verdict)
    console.print(table)


def show_threads(sections: Sequence[threads.Section], console: Console) -> None:
    for section in sections:
        wall = section.seconds / section.count * 1e6
        table = Table(title=f"{section.name}: {readable(wall)} µs of time per {section.unit}", title_justify="left")
        for column in ("who", f"µs running per {section.unit}", "of the time", "in the kernel", "waiting for a core"):
            table.add_column(column, justify="left" if column == "who" else "right")
        table.add_column(f"wakes per {section.unit}", justify="right")
        for who, usage in sorted(section.usages.items(), key=lambda item: -item[1].running):
            table.add_row(
                escape(who),
                readable(usage.running / section.count * 1e6),
                f"{usage.running / section.seconds:.0%}",
                f"{usage.kernel:.0%}",
                f"{usage.waiting / section.seconds:.0%}",
                readable(usage.wakes / section.count),
            )
        console.print(table)


def readable(value: float) -> str:
    """Whole from 1,000 on, three significant digits below."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def as_json(reports: Sequence[Report]) -> str:
    document = {
        "onceflow": _version(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "workloads": {
            report.workload: {
                "seconds": report.seconds,
                "ok": report.ok,
                "load": report.load,
                "rows": [dataclasses.asdict(row) for row in report.rows],
            }
            for report in reports
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _version() -> str:
    try:
        return importlib.metadata.version("onceflow")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main(arguments: Sequence[str] | None = None) -> int:
    known = discover()
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures onceflow.")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"all by default: {', '.join(known)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    parser.add_argument("--threads", action="store_true", help="also show which threads and processes used the time")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.workloads if name not in known]
    if unknown:
        parser.error(f"no workload named {', '.join(unknown)}; there are: {', '.join(known)}")

    console = Console()
    reports = []
    for name in options.workloads or known:
        report = measure(name)
        show(report, console)
        if options.threads:
            show_threads(threads.taken(), console)
        reports.append(report)
    if options.json:
        options.json.write_text(as_json(reports), "utf-8")
    broken = [f"{report.workload}: {row.name}" for report in reports for row in report.rows if not row.ok]
    if broken:
        print(f"limits not held: {'; '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0
