"""The command `bench/run`: names, what it refuses, and the files it writes."""

from __future__ import annotations

import contextlib
import io
import json
import platform
from pathlib import Path

import pytest
from rich.console import Console

from bench import documents, field, harness, rows, showing
from bench.reports import Report
from bench.rows import Comparison, Line, Row, Spread
from tests.bench import common

COMPARISON = Comparison(
    "a workflow of one task",
    "ms",
    3,
    ours=[Line("onceflow", "every task", Spread(1.25, 1, 1.5), {})],
    peers=[
        Line("quick", "nothing", Spread(0.5, 0.25, 0.75), {"onceflow": Spread(0.4, 0.3, 0.5)}),
        Line("gone", "nothing", None, {}, "cannot be installed here: no wheel"),
    ],
    limits=[Line("a commit", "", Spread(0.5, 0.5, 0.5), {"onceflow": Spread(2.5, 2, 3)})],
)
REPORTS = [
    Report("trigger", 1.0, [], [COMPARISON], (0.25, 0.5)),
    Report("core", 1.0, [Row("chain | of 10", 5.0, "events/s", "≥ 6", ok=False)], [], (0.5, 0.5)),
]


def test_workloads_have_the_names_that_people_use() -> None:
    known = harness.discover()

    assert {"core", "trigger", "chain", "100x100", "10000x1", "recovery", "import", "idle", "limits"} <= set(known)
    assert all(module.isidentifier() for module in known.values())


def test_the_list_shows_workloads_and_peers(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.main(["--list"]) == 0

    words = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["workload", "100x100", "with"] in words
    assert ["peer", "ray", "keeps:"] in words


@pytest.mark.parametrize(
    "arguments", [["sleep"], ["core", "--peers", "airflow"], ["core", "--rounds", "0"], ["core", "--against"]]
)
def test_what_does_not_exist_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        harness.main(arguments)

    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_comparison_is_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger"
    ready = common.field_of(tmp_path, common.stub("ours", ledger), common.stub("wrong", ledger), rounds=1)
    monkeypatch.setattr(field, "PEERS", {"wrong": ready.peers[0]})
    monkeypatch.setattr(field, "prepared", lambda *_: contextlib.nullcontext(ready))
    files = {"--json": tmp_path / "it.json", "--markdown": tmp_path / "it.md"}

    status = harness.main(
        ["chain", "trigger", "--peers", "all", *(str(word) for item in files.items() for word in item)]
    )

    assert status == 0
    assert "the result is 1 and not 0" in capsys.readouterr().out
    written = json.loads(files["--json"].read_text())
    assert written["peers"] == {"wrong": f"of Python {platform.python_version()}"}
    chain, trigger = (written["workloads"][name]["comparisons"][0] for name in ("chain", "trigger"))
    assert len(chain["peers"][0]["ratios"]["ours"]["rounds"]) == 1
    assert trigger["peers"][0]["value"] is None
    assert "| trigger | – |\n" in files["--markdown"].read_text()


def test_a_commit_that_does_not_exist_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.main(["core", "--against", "no-such-commit"]) == 2

    assert "--against: " in capsys.readouterr().err


def test_json_holds_everything() -> None:
    document = json.loads(documents.as_json(REPORTS, {"quick": "2.0"}))

    assert document["peers"] == {"quick": "2.0"}
    assert document["workloads"]["core"]["ok"] is False
    [compared] = document["workloads"]["trigger"]["comparisons"]
    assert compared["peers"][0]["ratios"]["onceflow"] == {"median": 0.4, "low": 0.3, "high": 0.5, "rounds": []}
    assert compared["peers"][1]["value"] is None


def test_markdown_has_the_ratios_first_and_then_the_numbers() -> None:
    text = documents.as_markdown(REPORTS, {"quick": "2.0"})

    assert ", quick 2.0. Load of the machine: 0.2 – 0.5.\n" in text
    assert "| trigger | 0.4 × (0.3 – 0.5) | – |\n" in text
    assert "| gone | not measured |  | nothing | cannot be installed here: no wheel |\n" in text
    assert "| *a commit* | 0.5 (0.5 – 0.5) | ours ÷ this: 2.5 × (2 – 3) |  |  |\n" in text
    assert "| chain ∣ of 10 | 5 | events/s | ≥ 6 |\n" in text


def test_of_a_page_that_marks_its_figures_only_these_are_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{documents.BEGIN}\nold\n{documents.END}\nThe end.\n")

    documents.write_markdown(page, "new\n")
    documents.write_markdown(page, "newer\n")

    assert page.read_text() == f"# Title\n{documents.BEGIN}\nnewer\n{documents.END}\nThe end.\n"


def test_a_terminal_shows_values_ratios_and_reasons() -> None:
    console = Console(width=140, file=io.StringIO(), record=True)

    showing.show_comparison("trigger", COMPARISON, console)

    text = console.export_text()
    assert "0.4 × (0.3 – 0.5)" in text
    assert "gone: cannot be installed here: no wheel" in text


def test_a_spread_is_the_median_between_the_ends() -> None:
    assert rows.Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
