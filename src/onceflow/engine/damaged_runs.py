"""Forgetting runs whose own rows in the journal are damaged.

Nothing in such a row can be trusted: neither the id, which names files, nor the status, nor the engine that drives the
run. So the run goes by the number of its row, no file is deleted by the id (blobs and logs are orphans from then on,
which engines collect), and nothing goes while another engine lives, which may be driving it.
"""

from __future__ import annotations

from onceflow.errors import RunActive
from onceflow.storage.journal import DamagedRun, DeleteDamagedRun, Failed, commit
from onceflow.storage.run_stores import Place


def forget(home: Place, runs: list[DamagedRun]) -> list[DamagedRun]:
    """Forgets these runs, for good. Returns those that were still there. Raises `RunActive` if another engine lives."""
    others = [engine.id for engine in home.engines.members() if engine.alive and engine.id != home.engine]
    if others and runs:
        raise RunActive(runs[0].run, f"its row is damaged, and engine {others[0]} may drive it: end that engine first")
    gone: list[DamagedRun] = []
    for run in runs:
        outcome = commit(home.journal, [DeleteDamagedRun(run.number)])
        if isinstance(outcome.refusal, Failed):
            raise outcome.refusal.error
        if outcome.ok:
            gone.append(run)
    return gone
