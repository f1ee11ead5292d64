"""A process that gives random commands, for `test_together`: `python -m tests.cli.together HOME SEED COUNT`."""

from __future__ import annotations

import random
import sys

from click.testing import CliRunner

from onceflow.cli.main import main
from tests.cli.common import FLOWS, well_behaved

NAMES = ["n-0", "n-1", "n-2", "n-3"]
SURPRISING = ("locked", "unexpected", "Traceback", "bug")


def command(draw: random.Random) -> list[str]:
    name = draw.choice(NAMES)
    some = draw.sample(NAMES, 2)
    return draw.choice(
        [
            ["run", f"{FLOWS}:nothing", "--name", name],
            ["run", f"{FLOWS}:needy", "--name", name, "--arg", "path=/no/such/file"],
            ["run", f"{FLOWS}:trip", "--name", name, "--arg", f"user={draw.choice('ab')}", "--on-failure", "undo"],
            ["cancel", name, "--grace", "0"],
            ["cancel", "--all", "--yes"],
            ["retry", name],
            ["resume", *some],
            ["resume", "--all"],
            ["show", name, "--json"],
            ["output", name],
            ["ls", "--json"],
            ["watch", name, "--interval", "0.05"],
            ["delete", *some],
            ["delete", "--status", "failed", "--yes"],
            ["prune", "--keep", "2", "--yes"],
            ["doctor"],
        ]
    )


def go_on(home: str, seed: int, count: int) -> int:
    draw = random.Random(seed)
    for _ in range(count):
        words = command(draw)
        result = CliRunner().invoke(main, [*words, "--home", home])
        try:
            well_behaved(result)
            # Who waits for a run that another process deletes is told so, as trouble.
            assert result.exit_code != 5 or "it was deleted" in result.stderr, "there was trouble"
            assert not any(word in result.stderr for word in SURPRISING), "something unexpected was said"
        except AssertionError as error:
            print(words, result.exit_code, result.output, error, repr(result.exception), sep="\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(go_on(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
