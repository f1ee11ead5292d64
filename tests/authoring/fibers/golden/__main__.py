"""`python -m tests.authoring.fibers.golden` writes the snapshots of this ABI and this Python, once. Files that are
there are never written again: fibers that were parked with them must be able to go on for ever."""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

from onceflow.authoring.fibers import ABI, header_of, version_of
from tests.authoring.fibers import comparing, world

FOLDER = Path(__file__).parent
EVERY = 2
"""Every second function of the corpus is enough."""


def main() -> None:
    path = FOLDER / f"abi{ABI}-python{sys.version_info.major}.{sys.version_info.minor}.json.zlib"
    if path.exists():
        sys.exit(f"{path.name} is there already, and must stay as it is")
    parked, versions = [], {}
    for module in comparing.modules():
        functions = vars(comparing.durable_module(module))
        for case in comparing.cases(module)[::EVERY]:
            steps = [
                (len(world.entries), fiber.dumps(), header_of(fiber.dumps()))
                for fiber in comparing.steps(functions[case])
            ]
            if not steps:
                continue
            logged, data, header = steps[len(steps) // 2]
            parked.append({"module": module, "case": case, "logged": logged, "data": data.hex()})
            for frame in header["frames"]:
                versions[frame["ref"]] = plain_version(frame["ref"])
    content = {"parked": parked, "versions": list(versions.values())}
    path.write_bytes(zlib.compress(json.dumps(content).encode(), 9))


def plain_version(ref: str) -> object:
    from onceflow.authoring.fibers import definitions

    definition = definitions.current(ref)
    assert definition is not None
    return version_of(definition.function).as_plain()


if __name__ == "__main__":
    main()
