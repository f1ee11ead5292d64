"""What was measured, as files: JSON for programs, Markdown for people."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.reports import Report
from bench.rows import Comparison, Line, Row
from bench.showing import readable, spread


def machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "onceflow": _version(),
    }


def as_json(reports: Sequence[Report], versions: Mapping[str, str]) -> str:
    document = {
        **machine(),
        "peers": versions,
        "workloads": {
            report.workload: {
                "seconds": report.seconds,
                "ok": report.ok,
                "load": report.load,
                "rows": [dataclasses.asdict(row) for row in report.rows],
                "comparisons": [dataclasses.asdict(comparison) for comparison in report.comparisons],
            }
            for report in reports
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


BEGIN, END = "<!-- figures: written by bench/run -->", "<!-- end of figures -->"


def write_markdown(path: Path, text: str) -> None:
    """Of a page that marks where its figures are, only these are replaced."""
    page = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    path.write_text(f"{before}{begin}\n{text}{end}{after}" if end else text, "utf-8")


def as_markdown(reports: Sequence[Report], versions: Mapping[str, str]) -> str:
    """The ratios of all comparisons in one table, then each of them with its numbers, then the other rows."""
    here = machine()
    peers = ", ".join(f"{name} {version}" for name, version in versions.items())
    loads = [load for report in reports for load in report.load]
    measured = (
        f"Measured on {here['date']} with Python {here['python']} on {here['machine']}, {here['cpus']} cores "
        f"({here['processor']}); onceflow {here['onceflow']}{f', {peers}' if peers else ''}. "
        f"Load of the machine: {min(loads, default=0):.1f} – {max(loads, default=0):.1f}."
    )
    lines = [measured, ""]
    comparisons = [(report.workload, comparison) for report in reports for comparison in report.comparisons]
    if comparisons:
        lines += _summary(comparisons)
    for report in reports:
        for comparison in report.comparisons:
            lines += _compared(report.workload, comparison)
        if report.rows:
            lines += _rows(report)
    return "\n".join(lines).rstrip() + "\n"


def _summary(comparisons: Sequence[tuple[str, Comparison]]) -> Iterator[str]:
    names = list(dict.fromkeys(line.name for _, comparison in comparisons for line in comparison.peers))
    yield from _header(["theirs ÷ ours", *names])
    for workload, comparison in comparisons:
        way = comparison.ours[0].name
        ratios = {line.name: spread(line.ratios[way], " ×") for line in comparison.peers if way in line.ratios}
        yield _line([workload, *(ratios.get(name, "–") for name in names)])
    yield ""


def _compared(workload: str, comparison: Comparison) -> Iterator[str]:
    ways = [way.name for way in comparison.ours]
    yield f"**{workload}**: {comparison.what}; {comparison.rounds} rounds"
    yield ""
    yield from _header(["", comparison.unit, *(f"÷ {way}" for way in ways), "keeps", "note"])
    for line in (*comparison.ours, *comparison.peers):
        ratios = (spread(line.ratios[way], " ×") if way in line.ratios else "" for way in ways)
        yield _line([line.name, _value(line), *ratios, line.keeps, line.note])
    for line in comparison.limits:
        ratios = (f"ours ÷ this: {spread(line.ratios[way], ' ×')}" if way in line.ratios else "" for way in ways)
        yield _line([f"*{line.name}*", _value(line), *ratios, "", line.note])
    yield ""


def _rows(report: Report) -> Iterator[str]:
    yield f"**{report.workload}**"
    yield ""
    yield from _header(["measured", "value", "unit", "limit"])
    for row in report.rows:
        yield _line([_named(row), "not measured" if row.value is None else readable(row.value), row.unit, row.limit])
    yield ""


def _named(row: Row) -> str:
    return f"{row.name} ({row.note})" if row.note else row.name


def _value(line: Line) -> str:
    return "not measured" if line.value is None else spread(line.value)


def _header(cells: Sequence[str]) -> list[str]:
    return [_line(cells), "|" + "---|" * len(cells)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in _lines(cpus) if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown processor"


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _version() -> str:
    try:
        return importlib.metadata.version("onceflow")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
