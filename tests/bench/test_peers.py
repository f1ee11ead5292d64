"""The programs of contestants that need no installation do all workloads: `_serving` checks what they return."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from bench import field, programs
from tests.bench import common

PATH = os.pathsep.join([str(common.ROOT / "src"), str(common.ROOT), *filter(None, sys.path)])


@pytest.mark.parametrize("contestant", [field.OURS, field.PEERS["processpool"]], ids=["onceflow", "processpool"])
def test_a_program_does_all_workloads(contestant: field.Contestant, tmp_path: Path) -> None:
    here = dataclasses.replace(contestant, environment=programs.environment(PATH))

    with here.start(tmp_path / "place") as program:
        for kind in here.kinds:
            for workload, count, numbers in (("trigger", 2, 2), ("chain", 2, 2), ("100x100", 2, 1), ("10000x1", 5, 1)):
                assert len(program.ask(workload, count, kind)) == numbers
        with pytest.raises(programs.Failed, match="no workload 7x7"):
            program.ask("7x7", 1)
