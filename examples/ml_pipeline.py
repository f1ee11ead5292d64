"""Train several models, publish the best one: large outputs of which few are saved.

    python examples/ml_pipeline.py

    load ──▶ split ──┬──▶ train ─────┬──▶ choose ──┬──▶ register ───────┬──▶ switch_traffic
                     ├──▶ train_1 ───┤             └──▶ write_report ───┘
                     └──▶ train_2 ───┘

Training is not deterministic, and a model is large. Must every model be saved before traffic is switched to the best
one? No: it is enough to save the chosen one. onceflow checks that before it starts anything.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from onceflow import UnsafeGraph, run, task, workflow
from onceflow.runs import get_output

Rows = list[tuple[float, float]]

REGISTRY = Path("registry")
TRAFFIC = Path("traffic.txt")


@dataclass(frozen=True)
class Model:
    rate: float
    slope: float
    loss: float


# The table may have grown by the next time somebody reads it, so this is not deterministic; nobody can see that it was
# read, so it has no effect. It is saved.
@task(effect="none")
def load(table: str) -> Rows:
    return [(float(x), 2.0 * x + random.random()) for x in range(1_000)]


# Deterministic, without effect, not saved. Its two parts go different ways.
@task.pure(num_returns=2)
def split(rows: Rows) -> tuple[Rows, Rows]:
    return rows[::2], rows[1::2]


# No effect, but a model depends on chance. Not saved: if a worker dies before `choose` has read the model, it is
# trained again.
@task(effect="none", checkpoint=False)
def train(rows: Rows, held_out: Rows, rate: float) -> Model:
    slope = random.random()
    for x, y in random.sample(rows, len(rows)):
        slope += rate * (y - slope * x) * x
    loss = sum((y - slope * x) ** 2 for x, y in held_out) / len(held_out)
    return Model(rate, slope, loss)


# Deterministic as well, but saved: all that follows builds on this model and no other.
@task.pure(checkpoint=True)
def choose(models: list[Model]) -> Model:
    return min(models, key=lambda model: model.loss)


@task(effect="none")
def write_report(model: Model) -> str:
    return f"learning rate {model.rate}, slope {model.slope:.3f}, loss {model.loss:.3f}"


def unregister(name: str) -> None:
    (REGISTRY / name).unlink(missing_ok=True)


# Writing the same file again changes nothing, so a repetition does no harm; and it can be taken back.
@task(rollback=unregister, retry=3)
def register(name: str, model: Model) -> str:
    REGISTRY.mkdir(exist_ok=True)
    (REGISTRY / name).write_text(f"{model.slope}\n")
    return f"{name} with slope {model.slope:.3f}"


@task(retry=3)
def switch_traffic(version: str) -> str:
    TRAFFIC.write_text(f"{version}\n")
    return f"all traffic goes to {version}"


@workflow
def release(table: str, name: str, rates: tuple[float, ...], save_choice: bool = True) -> str:
    rows, held_out = split.bind(load.bind(table))
    models = [train.bind(rows, held_out, rate) for rate in rates]
    best = choose.options(checkpoint=save_choice).bind(models)
    report = write_report.bind(best)
    version = register.bind(name, best)
    return switch_traffic.options(after=[report]).bind(version)


def main() -> None:
    rates = (1e-8, 1e-7, 1e-6)
    print(run(release.bind("sales", "forecast", rates), name="release-2026-08"))
    print("report:", get_output("release-2026-08", task="write_report"))

    print("\nIf the chosen model were not saved, nothing would even start:\n")
    try:
        run(release.bind("sales", "forecast", rates, save_choice=False))
    except UnsafeGraph as unsafe:
        print(unsafe)


if __name__ == "__main__":
    main()
