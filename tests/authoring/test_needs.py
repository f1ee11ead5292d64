"""What a task says it needs while it runs: `threads`, `cpus`, `memory`."""

from __future__ import annotations

import math

import pytest

from onceflow import task
from onceflow.authoring.graph_builder import build_graph
from onceflow.errors import InvalidOption


@task
def work(number: int) -> int:
    return number


@task
async def fetch(url: str) -> bytes:
    return url.encode()


def test_a_task_that_says_nothing_states_no_needs() -> None:
    settings = work.settings
    assert (settings.threads, settings.cpus, settings.memory) == (False, None, 0)


def test_needs_are_taken_from_the_decorator() -> None:
    settings = task(threads=True, cpus=2, memory=1000)(work.function).settings
    assert (settings.threads, settings.cpus, settings.memory) == (True, 2.0, 1000)


def test_a_pure_task_may_state_needs() -> None:
    settings = task.pure(threads=True, cpus=0.5, memory="1KB")(work.function).settings
    assert (settings.threads, settings.cpus, settings.memory) == (True, 0.5, 1000)


def test_needs_merge_like_other_options() -> None:
    settings = work.options(cpus=4).options(memory="1GB").options(cpus=0).settings
    assert (settings.threads, settings.cpus, settings.memory) == (False, 0.0, 10**9)


def test_an_async_task_may_state_what_it_needs() -> None:
    assert fetch.options(cpus=0.1, memory="1MiB").settings.cpus == 0.1


@pytest.mark.parametrize(
    ("text", "bytes"),
    [
        ("7B", 7),
        ("512MB", 512_000_000),
        ("2 GB", 2_000_000_000),
        ("3kB", 3000),
        ("1KiB", 1024),
        ("1.5MiB", 1_572_864),
        ("2GiB", 2_147_483_648),
        ("0.1GB", 100_000_000),
    ],
)
def test_memory_may_be_given_as_text(text: str, bytes: int) -> None:
    assert work.options(memory=text).settings.memory == bytes


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"threads": 1}, "threads must be True or False, not 1"),
        ({"threads": "yes"}, "threads must be True or False, not 'yes'"),
        *[
            ({"cpus": wrong}, "cpus must be a number that is not negative")
            for wrong in (-1, -0.5, True, "2", None, math.nan, math.inf, 10**400)
        ],
        *[
            ({"memory": wrong}, r"memory must be a number of bytes from 0 to 2\*\*63, or a text such as '512MB'")
            for wrong in (-1, 1.5, True, None, 2**63, "", "512", "MB", "-1MB", "2XB", "1GB left", "9" * 400 + "GB")
        ],
    ],
)
def test_a_wrong_need_is_a_type_error_that_names_the_task(given: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        work.options(**given)  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidOption)
    assert caught.value.name == "work"


def test_an_async_function_cannot_ask_for_a_thread() -> None:
    with pytest.raises(InvalidOption, match="async functions share a process anyway"):
        fetch.options(threads=True)
    with pytest.raises(InvalidOption, match="async functions share a process anyway"):
        task(threads=True)(fetch.function)


def test_an_async_function_may_say_that_it_wants_no_thread() -> None:
    assert not fetch.options(threads=False).settings.threads


def test_needs_are_no_business_of_the_law() -> None:
    needy = work.options(threads=True, cpus=3, memory="1GB")
    assert needy.core_options == work.core_options
    assert build_graph(needy.bind(1)).digest == build_graph(work.bind(1)).digest
