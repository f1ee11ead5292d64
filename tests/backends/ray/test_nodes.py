"""Several nodes, of which some are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.backends.ray.places import LARGE


def test_what_is_lost_with_a_node_or_an_engine_is_done_again_when_nothing_of_it_runs_any_more(tmp_path: Path) -> None:
    """One test, because starting the nodes takes long. See `nodes` for what is killed when."""
    command = [sys.executable, "-m", "tests.backends.ray.nodes", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith('{"tried"')]
    output, task, actor, fiber, others, room, network, engine = lines
    assert output == {"tried": "output", "result": LARGE, "drawn": ["drawn", "drawn"]}
    assert (task["ended"], len(task["keys"]), len(set(task["keys"]))) == (True, 2, 1)
    assert actor == {"tried": "actor", "cents": 5, "opened": ["opened"]}
    assert fiber == {"tried": "fiber", "began_there": 1, "went_on_there": 0}
    assert others == {"tried": "others", "elsewhere": [True, True]}
    assert (room["result"], "waits for 1 telescope: no node of the cluster has that" in room["told"]) == ("stars", True)
    assert network == {"tried": "network", "elsewhere": []}
    assert (engine["ended"], len(engine["keys"]), len(set(engine["keys"]))) == (True, 2, 1)
