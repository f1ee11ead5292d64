"""What is particular to Ray: how it is chosen, what it is asked for, and what it needs not be asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import onceflow
from onceflow import Engine, TaskFailed, actor, task
from onceflow.actors import const, create
from onceflow.backends.local.worker_deadline import AWAY, Leash
from onceflow.engine import proof_of_death
from onceflow.errors import InvalidOption
from onceflow.testing.servers.s3 import S3Server
from tests.backends.ray import sockets


@task.pure
def ones(count: int) -> numpy.ndarray:
    return numpy.ones(count)


@task
def twice(values: numpy.ndarray) -> numpy.ndarray:
    return values * 2


@task(can_rollback=True)
def is_view(values: numpy.ndarray) -> bool:
    """Whether it is built upon memory that is not its own, and that others may read."""
    return not values.flags.owndata and not values.flags.writeable


@task(resources={"telescope": 1})
def observe() -> str:
    return "stars"


@task(placement="spread")
def anywhere() -> int:
    return os.getppid()


@task(cpus=1000)
def compute() -> int:
    return 42


@actor(cpus=1000, memory="1000GB")
class Oracle:
    @const
    def ask(self) -> int:
        return 42


@task(can_rollback=True)
def hire() -> Oracle:
    return create(Oracle)


@task
def ask(oracle: Oracle) -> int:
    return oracle.ask()


@task(placement="0f0f")
def stay() -> None: ...


@pytest.fixture(scope="module")
def engine(ray_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all: its first workers take seconds."""
    with Engine(tmp_path_factory.mktemp("ray"), backend=ray_cluster, workers=1) as made:
        yield made


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[None]:
    onceflow.configure(home=tmp_path / "home", workers=1, lease=5)
    yield
    onceflow.configure()


@pytest.mark.usefixtures("configured")
def test_one_program_runs_on_any_backend_with_any_journal_and_any_store(
    ray_cluster: str, postgres_url: str, s3: S3Server
) -> None:
    graph = twice.bind(ones.bind(100_000))
    here = onceflow.run(graph, backend="local")
    there = onceflow.run(graph, backend=ray_cluster, journal=postgres_url, blobs=s3.create_bucket())
    assert here.sum() == there.sum() == 200_000


def test_an_array_is_read_where_ray_has_it(engine: Engine) -> None:
    assert engine.run(is_view.bind(ones.bind(100_000)))


def test_a_task_says_where_it_wants_to_be(engine: Engine) -> None:
    assert engine.run(anywhere.bind())


def test_more_cpus_than_there_are_count_as_all_on_a_cluster_that_was_started_here(engine: Engine) -> None:
    assert engine.run(compute.bind()) == 42


def test_an_actor_starts_at_once_on_a_cluster_that_was_started_here(engine: Engine) -> None:
    assert engine.run(ask.bind(hire.bind())) == 42


@pytest.mark.parametrize(("needy", "missing"), [(observe, "1 telescope"), (stay, "the id 0f0f")])
def test_what_no_node_has_is_refused_on_a_cluster_that_was_started_here(
    engine: Engine, needy: Any, missing: str
) -> None:
    with pytest.raises(TaskFailed, match=f"no node of the cluster has {missing}"):
        engine.run(needy.bind())


def test_ray_does_not_complain_of_workers_that_have_done_their_work(
    engine: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [engine.run(compute.bind()) for _ in range(3)] == [42, 42, 42]
    assert "died" not in "".join(capfd.readouterr())


def test_this_host_has_no_resources_but_cores_and_memory(tmp_path: Path) -> None:
    with Engine(tmp_path, workers=1) as engine, pytest.raises(TaskFailed, match="telescope"):
        engine.run(observe.bind())


@pytest.mark.parametrize("backend", ["slurm", "ray:", "host:port"])
def test_other_backends_are_refused(backend: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="backend"):
        Engine(tmp_path, backend=backend)


def test_a_cluster_that_is_started_here_is_on_the_loopback_address_alone(engine: Engine) -> None:
    engine.run(is_view.bind(ones.bind(100_000)))
    assert sockets.elsewhere([os.getpid()]) == []


def test_an_engine_is_not_taken_over_while_its_workers_elsewhere_may_run(tmp_path: Path) -> None:
    away = Leash(proof_of_death.prepare(tmp_path, "dead"), AWAY)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    away.lengthen(now + 1000)
    assert not proof_of_death.are_workers_gone(tmp_path, "dead")
    away.lengthen(now - 1)
    assert proof_of_death.are_workers_gone(tmp_path, "dead")
    proof_of_death.wait_for_workers(tmp_path, "dead")
    away.close()


def test_nothing_of_ray_is_imported_unless_it_is_used(tmp_path: Path) -> None:
    program = "\n".join(
        [
            "import sys, onceflow, tests.engine.common as common",
            f"print(onceflow.Engine({str(tmp_path)!r}, workers=1).run(common.add.bind(1, 2)))",
            "sys.exit('ray' in sys.modules)",
        ]
    )
    subprocess.run([sys.executable, "-c", program], check=True)
