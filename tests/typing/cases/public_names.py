"""Names that are imported when they are used have their types, and a name that is not there is an error."""

from typing import Any, assert_type

import onceflow
from onceflow import Engine, configure, run, run_async, run_many, runs, status, task
from onceflow.queues import QueueInfo
from onceflow.runs import RunHandle, RunInfo, Status


@task
def add(a: int, b: int) -> int:
    return a + b


assert_type(run(add.bind(1, 2), name="sum", timeout=3, backend="local"), int)
assert_type(run_async(add.bind(1, 2)), RunHandle[int])
assert_type(run_many([add.bind(1, 2)], names=["sum"], queue="gpu"), list[int])
assert_type(runs.submit(add.bind(1, 2)), RunHandle[int])
assert_type(runs.rerun_async("sum", from_task="add").result(), Any)
run(add.bind(1, 2), nmae="sum")  # E: call-arg
run(add.bind(1, 2), timeout="long")  # E: arg-type
run_many([add.bind(1, 2)], name="sum")  # E: call-arg
runs.rerun("sum", form_task="add")  # E: call-arg
Engine("state", workers=2).run(add.bind(1, 2), backend="ray")  # E: call-arg
Engine("state", wokers=2)  # E: call-arg
configure(home="state", workers="many")  # E: arg-type
assert_type(runs.find("trip-17"), RunInfo)
assert_type(onceflow.runs.info("trip-17"), RunInfo)
assert_type(status("trip-17"), Status)
assert_type(onceflow.queues.queue("gpu", concurrency=2), QueueInfo)
onceflow.queues.queue("gpu", concurency=2)  # E: call-arg
onceflow.find("trip-17")  # E: attr-defined
onceflow.runs.list_runs(status="succeeded", newest=True)  # E: call-arg
