"""Train a classifier on four workers that keep their state, while the next images are prepared.

    python examples/training.py [none | sync | async | selective]

    ingest ──┬──▶ augment (epoch 0) ──┬──▶ augment (epoch 1) ──┬──▶ … at most two epochs ahead
             │                        ▼                        ▼
    start ───┴───────────────────▶ train ──────────────────▶ train ──▶ … ──▶ collect

The workers are actors: each lives in a process of its own, with its copy of the model and its momentum, and moves from
one `train` to the next. Nobody else has them meanwhile, so `train` takes them (`Exclusive`) and returns them. Images
are passed as refs: they are never copied into a task that only passes them on.

What is saved is a choice, and the program is correct with each:

    none        nothing but the result. A crash repeats everything.
    sync        everything, and a task starts when all it builds on is saved.
    async       everything, in the background.
    selective   the ingested images and every fifth state of the workers, in the background. What is lost beyond that is
                cheap to repeat, because every task is deterministic.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers compute side by side

import numpy as np

from onceflow import Ref, actor, put, run, task, workflow
from onceflow.actors import Exclusive, const, create, later

Mode = Literal["none", "sync", "async", "selective"]
Array = np.ndarray[Any, np.dtype[np.float32]]

SIDE, CLASSES, HIDDEN = 16, 10, 64
WORKERS = 4
AHEAD = 2
"""Epochs for which images may be prepared before they are needed."""
EVERY = 5
"""In selective mode, each state of the workers after so many epochs is saved."""
BATCH = 64
RATE, MOMENTUM = 0.1, 0.9


@actor
class Worker:
    """A replica of the model, with what it needs to go on."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.weights = [
            random.normal(0, 0.05, (SIDE * SIDE, HIDDEN)).astype(np.float32),
            random.normal(0, 0.05, (HIDDEN, CLASSES)).astype(np.float32),
        ]
        self.velocity = [np.zeros_like(weight) for weight in self.weights]
        self.images: Array = np.zeros((0, SIDE * SIDE), np.float32)
        self.labels: Array = np.zeros(0, np.int64)

    def load(self, images: Array, labels: Array) -> int:
        self.images, self.labels = images.reshape(len(images), -1), labels
        return len(labels)

    def gradients(self, first: int) -> list[Array]:
        images, labels = self.images[first : first + BATCH], self.labels[first : first + BATCH]
        hidden = np.maximum(images @ self.weights[0], 0)
        scores = hidden @ self.weights[1]
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        chances[np.arange(len(labels)), labels] -= 1
        chances /= max(1, len(labels))
        return [images.T @ ((chances @ self.weights[1].T) * (hidden > 0)), hidden.T @ chances]

    def apply(self, gradients: Sequence[Array]) -> None:
        for weight, velocity, gradient in zip(self.weights, self.velocity, gradients, strict=True):
            velocity *= MOMENTUM
            velocity -= RATE * gradient
            weight += velocity

    @const
    def state(self) -> list[Array]:
        return self.weights

    @const
    def process(self) -> int:
        return os.getpid()

    def _checkpoint(self) -> tuple[list[Array], list[Array]]:
        return self.weights, self.velocity  # not the images: they come with each epoch

    @classmethod
    def _restore(cls, saved: tuple[list[Array], list[Array]]) -> Worker:
        worker = cls(0)
        worker.weights, worker.velocity = saved
        return worker


@task.pure(num_returns=WORKERS)
def ingest(images: int, seed: int) -> tuple[Ref[Any], ...]:
    """Images that look a little like their class, in one part for each worker."""
    random = np.random.default_rng(seed)
    typical = random.normal(0, 1, (CLASSES, SIDE, SIDE)).astype(np.float32)
    labels = random.integers(0, CLASSES, images)
    pictures = typical[labels] + random.normal(0, 1.5, (images, SIDE, SIDE)).astype(np.float32)
    return tuple(put((pictures[n::WORKERS].copy(), labels[n::WORKERS].copy())) for n in range(WORKERS))


@task.pure
def augment(part: Ref[Any], epoch: int, number: int, accident: str = "") -> Ref[Any]:
    """The same images, each moved and turned a little, in another order. The same ones for the same epoch."""
    if accident and os.path.exists(accident):
        os.remove(accident)
        os.kill(os.getpid(), 9)
    images, labels = part.get()
    random = np.random.default_rng((epoch, number))
    order = random.permutation(len(labels))
    moved = np.roll(images[order], random.integers(-1, 2), axis=random.integers(1, 3))
    if random.random() < 0.5:
        moved = moved + random.normal(0, 0.1, moved.shape).astype(np.float32)
    return put((np.ascontiguousarray(moved), labels[order]))


@task.pure
def start(seed: int) -> list[Worker]:
    return [create(Worker, seed) for _ in range(WORKERS)]


@task.pure
def train(workers: Exclusive[list[Worker]], parts: list[Ref[Any]]) -> list[Worker]:
    """One epoch. All workers compute at the same time, and apply the mean of what they have found."""
    loads = [later(worker.load, *part.get()) for worker, part in zip(workers, parts, strict=True)]
    sizes = [load.result() for load in loads]
    for first in range(0, max(sizes), BATCH):
        found = [later(worker.gradients, first) for worker in workers]
        gradients = [answer.result() for answer in found]
        mean = [np.mean(layer, axis=0) for layer in zip(*gradients, strict=True)]
        for answer in [later(worker.apply, mean) for worker in workers]:
            answer.result()
    return workers


@task.pure(checkpoint=True)
def collect(workers: list[Worker]) -> str:
    """A fingerprint of the weights: the same for every run, whatever happens on the way."""
    states = [worker.state() for worker in workers]
    assert all(np.array_equal(a, b) for state in states[1:] for a, b in zip(state, states[0], strict=True))
    return hashlib.sha256(b"".join(weight.tobytes() for weight in states[0])).hexdigest()[:16]


SYNC = {"checkpoint": True, "deterministic": False, "effect": "irrevocable"}
"""A task that must not be repeated starts when all it builds on is saved, and cannot change any more."""


@workflow
def training(
    epochs: int = 25,
    images: int = 2_000,
    mode: Mode = "selective",
    seed: int = 0,
    accidents: Mapping[int, str] | None = None,
    gates: Mapping[int, Any] | None = None,
) -> str:
    """`accidents`: epoch → a file whose presence kills the first attempt to prepare images for it. `gates`: epoch →
    something that its training waits for."""

    def saved(this: Any, selectively: bool = False) -> Any:
        if mode == "sync":
            return this.options(**SYNC)
        return this.options(checkpoint=mode == "async" or (mode == "selective" and selectively))

    parts = saved(ingest, selectively=True).bind(images, seed)
    workers = saved(start).bind(seed)
    trained: list[Any] = []
    for epoch in range(epochs):
        accident = (accidents or {}).get(epoch, "")
        waits = [trained[epoch - AHEAD]] if epoch >= AHEAD else []
        prepared = [
            saved(augment).options(after=waits).bind(parts[n], epoch, n, accident if n == 0 else "")
            for n in range(WORKERS)
        ]
        gate = [gates[epoch]] if gates and epoch in gates else []
        step = saved(train, selectively=(epoch + 1) % EVERY == 0)
        workers = step.options(after=gate).bind(workers, prepared)
        trained.append(workers)
    return collect.bind(workers)


def main() -> None:
    mode: Any = sys.argv[1] if len(sys.argv) > 1 else "selective"
    print(f"{mode}: the weights are {run(training.bind(mode=mode))}")


if __name__ == "__main__":
    main()
