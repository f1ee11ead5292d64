"""The harness of the benchmarks.

A workload is a module in `bench/workloads/` with a function `measure() -> list[Row]`. The harness finds it by its name,
runs it, prints its rows as a table and, if asked, writes them to files. A row may carry a limit; if one is not held,
the exit status is 1. A row without a value says in its note why it could not be measured.

A workload that peers can do too has a function `compare(field) -> list[Comparison]` besides. With `--peers` or
`--against` that is called instead: ours, theirs and the physical limits take turns (bench/comparing.py). A peer that
cannot be installed or fails is shown without numbers and with the reason; it is no failure of the run.

The title of a table shows the machine's load before and after: figures from a machine that had other work are not the
program's. `--threads` shows where the time went in those parts of a workload that watch it (bench/threads.py).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from bench import documents, field, processes, programs, showing, threads
from bench.field import Field
from bench.reports import Report

WORKLOADS = Path(__file__).parent / "workloads"
NAMES = {"fan_out": "100x100", "many_runs": "10000x1", "importing": "import"}
"""Of those whose name cannot be that of a module."""
ROUNDS = 7
WIDTH = 140
"""Columns, where there is no terminal that has some."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def discover(directory: Path = WORKLOADS) -> dict[str, str]:
    """All workloads, sorted: name → module. A file whose name starts with an underscore is a helper, not a workload."""
    modules = [path.stem for path in directory.glob("*.py") if not path.stem.startswith("_")]
    return dict(sorted((NAMES.get(module, module), module) for module in modules))


def measure(name: str, module_name: str, arena: Field | None = None) -> Report:
    """With peers to compare with, the workload is compared if it can be."""
    module = importlib.import_module(f"bench.workloads.{module_name}")
    gc.collect()  # the workload before this one leaves nothing for this one to clean up
    before = os.getloadavg()[0]
    start = time.perf_counter()
    comparisons = module.compare(arena) if arena and hasattr(module, "compare") else []
    rows = [] if comparisons else module.measure()
    return Report(name, time.perf_counter() - start, rows, comparisons, (before, os.getloadavg()[0]))


def show(report: Report, console: Console) -> None:
    before, after = report.load
    title = f"{report.workload} ({report.seconds:.1f} s, load {before:.1f} → {after:.1f})"
    for comparison in report.comparisons:
        showing.show_comparison(title, comparison, console)
    if report.rows:
        showing.show_rows(title, report.rows, console)


def main(arguments: Sequence[str] | None = None) -> int:
    known = discover()
    options = _parse(arguments, known)
    if options.list:
        return _list(known)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        return _run(options, known)
    except field.UnknownRevision as unknown:
        print(f"--against: {unknown}", file=sys.stderr)
        return 2
    except programs.Failed as failure:
        print(f"onceflow itself could not be measured: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was started is ended, and no file is written", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace, known: dict[str, str]) -> int:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    reports: list[Report] = []
    with contextlib.ExitStack() as stack:
        arena = None
        if options.peers or options.against:
            arena = stack.enter_context(
                field.prepared(options.peers, options.against, options.rounds, options.processor, _tell)
            )
        for name in options.workloads or known:
            report = measure(name, known[name], arena)
            show(report, console)
            if options.threads:
                showing.show_threads(threads.taken(), console)
            reports.append(report)
    versions = {peer.name: peer.version for peer in arena.peers if not peer.missing} if arena else {}
    if options.json:
        options.json.write_text(documents.as_json(reports, versions), "utf-8")
    if options.markdown:
        documents.write_markdown(options.markdown, documents.as_markdown(reports, versions))
    broken = [f"{report.workload}: {row.name}" for report in reports for row in report.rows if not row.ok]
    if broken:
        print(f"limits not held: {'; '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


def _parse(arguments: Sequence[str] | None, known: dict[str, str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures onceflow.")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"all by default: {', '.join(known)}")
    parser.add_argument("--peers", default="", metavar="PEER,…", help=f"compare with: {', '.join(field.PEERS)}, or all")
    parser.add_argument(
        "--against", action="append", default=[], metavar="COMMIT", help="compare with onceflow as it was at a commit"
    )
    parser.add_argument(
        "--processor", action="store_true", help="compare what the processor does, not the time (Linux only)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of a comparison, {ROUNDS} by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write tables to this file, or into it where it has marks"
    )
    parser.add_argument("--threads", action="store_true", help="also show which threads and processes used the time")
    parser.add_argument("--list", action="store_true", help="only show which workloads and peers there are")
    options = parser.parse_args(arguments)
    options.peers = list(field.PEERS) if options.peers == "all" else [name for name in options.peers.split(",") if name]
    for kind, named, there in (("workload", options.workloads, known), ("peer", options.peers, field.PEERS)):
        if unknown := [name for name in named if name not in there]:
            parser.error(f"no {kind} named {', '.join(unknown)}; there are: {', '.join(there)}")
    if options.processor and not processes.tells_processor():
        parser.error("--processor needs Linux: only there a process has a clock that others can read")
    if options.rounds < 1:
        parser.error("there must be at least one round")
    return options


def _list(known: dict[str, str]) -> int:
    for name, module_name in known.items():
        module = importlib.import_module(f"bench.workloads.{module_name}")
        first = (module.__doc__ or "").partition("\n")[0]
        print(f"workload  {name:12}{'with peers' if hasattr(module, 'compare') else '':12}{first}")
    for peer in field.PEERS.values():
        print(f"peer      {peer.name:12}{'':12}keeps: {peer.kinds['']}")
    return 0


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _end(number: int, _: object) -> NoReturn:
    """Ends everything that was started, as Ctrl-C does."""
    sys.exit(128 + number)
