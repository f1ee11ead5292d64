"""Train several models, publish the best one: large outputs of which few are saved.

    python examples/ml_pipeline.py

    load ──▶ split ──┬──▶ train ─────┬──▶ choose ──┬──▶ register ───────┬──▶ switch_traffic
                     ├──▶ train_1 ───┤             └──▶ write_report ───┘
                     └──▶ train_2 ───┘

Training is not deterministic, and a model is large. Must every model be saved before traffic is switched to the best
one? No: it is enough to save the chosen one. `check` knows.

This program builds the graph, checks it and shows its plan. It does not run it: this release of onceflow has no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from plan import plan

from onceflow import UnsafeGraph, check, task, workflow

Rows = list[tuple[float, float]]


@dataclass(frozen=True)
class Model:
    rate: float
    slope: float
    loss: float


# The table may have grown by the next time somebody reads it, so this is not deterministic; nobody can see that it was
# read, so it has no effect. It is saved.
@task(can_rollback=True)
def load(table: str) -> Rows:
    return [(float(x), 2.0 * x) for x in range(100)]


# Deterministic, without effect, not saved. Its two parts go different ways.
@task.pure(num_returns=2)
def split(rows: Rows) -> tuple[Rows, Rows]:
    return rows[::2], rows[1::2]


# No effect, but a model depends on the order in which threads add up floats. Not saved: if a worker dies before
# `choose` has read the model, it is trained again.
@task(can_rollback=True, checkpoint=False)
def train(rows: Rows, held_out: Rows, rate: float) -> Model:
    slope = 0.0
    for x, y in rows:
        slope += rate * (y - slope * x) * x
    loss = sum((y - slope * x) ** 2 for x, y in held_out) / len(held_out)
    return Model(rate, slope, loss)


# Deterministic as well, but saved: all that follows builds on this model and no other.
@task.pure(checkpoint=True)
def choose(models: list[Model]) -> Model:
    return min(models, key=lambda model: model.loss)


@task(can_rollback=True)
def write_report(model: Model) -> str:
    return f"chosen: learning rate {model.rate}, loss {model.loss:.3f}"


def unregister(name: str, *, output: str | None, key: str) -> None:
    print(f"registry: remove {output or name} if {key} put it there")


@task(rollback=unregister, retry=3)
def register(name: str, model: Model) -> str:
    return f"{name}@{model.rate}"


@task(retry=3)
def switch_traffic(version: str) -> str:
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
    rates = (1e-6, 1e-5, 1e-4)
    pipeline = release.bind("sales", "forecast", rates)
    check(pipeline)
    print("The pipeline is safe, although no model but the chosen one is saved. Its plan:\n")
    print(plan(pipeline))

    print("\nIf the chosen one were not saved either, the check would refuse the pipeline:\n")
    try:
        check(release.bind("sales", "forecast", rates, save_choice=False))
    except UnsafeGraph as unsafe:
        print(unsafe)


if __name__ == "__main__":
    main()
