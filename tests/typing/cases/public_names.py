"""Names that are imported when they are used have their types, and a name that is not there is an error."""

from typing import assert_type

import onceflow
from onceflow import runs, status
from onceflow.queues import QueueInfo
from onceflow.runs import RunInfo, Status

assert_type(runs.find("trip-17"), RunInfo)
assert_type(onceflow.runs.info("trip-17"), RunInfo)
assert_type(status("trip-17"), Status)
assert_type(onceflow.queues.queue("gpu", concurrency=2), QueueInfo)
onceflow.queues.queue("gpu", concurency=2)  # E: call-arg
onceflow.find("trip-17")  # E: attr-defined
onceflow.runs.list_runs(status="succeeded", newest=True)  # E: call-arg
