"""The kit with which users test their workflows.

    from onceflow.testing import MemoryEngine, crash_everywhere

See `MemoryEngine`, `crash_everywhere`, `Ledger` and `use`. With pytest there are fixtures: `onceflow_engine`,
`onceflow_clock` and `onceflow_home`.

- `kit`: the kit for testing workflows
- `demo`: `onceflow demo`
- `servers`: real servers for tests
"""

from typing import TYPE_CHECKING

__all__ = [
    "Attempt",
    "Attempts",
    "Clock",
    "CrashPoint",
    "Crashed",
    "Effect",
    "Ledger",
    "MemoryEngine",
    "When",
    "crash_everywhere",
    "crash_points",
    "use",
]

_HOMES = {
    "Attempt": "testing.kit.record",
    "Attempts": "testing.kit.record",
    "Clock": "testing.kit.clock",
    "CrashPoint": "testing.kit.crashes",
    "Crashed": "testing.kit.engine",
    "Effect": "testing.kit.ledger",
    "Ledger": "testing.kit.ledger",
    "MemoryEngine": "testing.kit.engine",
    "When": "testing.kit.faults",
    "crash_everywhere": "testing.kit.crashes",
    "crash_points": "testing.kit.crashes",
    "use": "engine.default",
}
"""Name → the module that defines it. Imported when first used: a test that needs a server has no use for the kit."""

if TYPE_CHECKING:
    from onceflow.engine.default import use
    from onceflow.testing.kit.clock import Clock
    from onceflow.testing.kit.crashes import CrashPoint, crash_everywhere, crash_points
    from onceflow.testing.kit.engine import Crashed, MemoryEngine
    from onceflow.testing.kit.faults import When
    from onceflow.testing.kit.ledger import Effect, Ledger
    from onceflow.testing.kit.record import Attempt, Attempts
else:
    from onceflow import lazy

    __getattr__, __dir__ = lazy.names(__name__, _HOMES)
