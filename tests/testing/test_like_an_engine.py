"""The memory engine does what the real one does: here it passes the tests of the real one.

Taken over are all tests of these modules that need nothing but an engine. Those that hold a task at a door, look at the
home directory or need processes are about what a memory engine does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from onceflow.testing import MemoryEngine
from tests.engine import (
    test_failures,
    test_handlers,
    test_handles,
    test_looking,
    test_names,
    test_results,
    test_retries,
    test_transactions,
    test_undo,
)

NOT_IN_MEMORY = {
    "test_a_run_is_found_by_what_somebody_types",  # its ids are others
    "test_a_task_that_kills_every_worker_fails_at_last",
    "test_a_task_that_kills_every_worker_is_handled",
    "test_a_task_with_threads_runs_in_a_thread_of_another_process",
    "test_a_worker_that_dies_is_not_a_failure_of_its_task",
    "test_exceptions_of_python_itself_fail_the_task_only",  # as the next one
    "test_an_exit_is_not_retried_by_default",  # Ctrl-C is for whoever sits there
    "test_other_runs_go_on_while_one_waits_for_a_retry",
}


@pytest.fixture(scope="module")
def engine() -> Iterator[MemoryEngine]:
    with MemoryEngine() as made:
        yield made


for _module in (
    test_failures,
    test_handlers,
    test_handles,
    test_looking,
    test_names,
    test_results,
    test_retries,
    test_transactions,
    test_undo,
):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and callable(_test) and _name not in NOT_IN_MEMORY:
            _needs = set(inspect.signature(_test).parameters)
            if "engine" in _needs and not _needs & {"door", "home"}:
                globals()[f"{_name}_{_module.__name__.rpartition('test_')[2]}"] = _test
