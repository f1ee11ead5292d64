"""The same as `test_chaos`, with large values in an object store that fails now and then, in every way it can."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from onceflow.testing.servers.failing import FailingProxy, Fault, Request
from onceflow.testing.servers.s3 import S3Server
from tests.tools.chaos.iteration import play
from tests.tools.chaos.lives import Nursery

FEW = 12
MANY = 300
BATCH = 3
"""Iterations in one test."""

RATE = 0.1
"""Of requests that fail."""

FAULTS: tuple[Fault, ...] = ("error", "cut", "no answer", "half an answer")


class Luck:
    """Decides the fate of each request."""

    def __init__(self) -> None:
        self._random = Random(1)
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            return self._random.choice(FAULTS) if self._random.random() < RATE else None


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[FailingProxy]:
    with FailingProxy(s3_server.address, Luck()) as made:
        yield made


@pytest.fixture(scope="module")
def nursery(s3_server: S3Server, proxy: FailingProxy) -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCEFLOW_BLOBS", s3_server.create_bucket(proxy.address))
        for name, value in s3_server.environment.items():
            patch.setenv(name, value)
        with Nursery() as made:
            yield made


@pytest.mark.parametrize("first", range(0, FEW, BATCH))
def test_every_effect_happens_once_and_no_object_is_left_behind(
    first: int, nursery: Nursery, proxy: FailingProxy, tmp_path: Path
) -> None:
    for seed in range(first, first + BATCH):
        play(seed, nursery, tmp_path, connected=True)
    assert proxy.counts.total() > 0


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, BATCH))
def test_that_holds_in_many_iterations(first: int, nursery: Nursery, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        play(seed, nursery, tmp_path, connected=True)
