"""Schedules: runs that begin by the clock.

- `schedule(id, workflow, cron=…)`: declares one, or changes it.
- `get_schedule`, `list_schedules`: `ScheduleInfo`. `next_times`: when it fires next.
- `pause_schedule`, `resume_schedule`, `delete_schedule`.
- `trigger_schedule`: runs it now. `backfill`: runs what is missing or has failed in a stretch of time.
"""

from onceflow.engine.default import (
    backfill,
    delete_schedule,
    get_schedule,
    list_schedules,
    next_times,
    pause_schedule,
    resume_schedule,
    schedule,
    trigger_schedule,
)
from onceflow.engine.schedules.definitions import ScheduleInfo

__all__ = [
    "ScheduleInfo",
    "backfill",
    "delete_schedule",
    "get_schedule",
    "list_schedules",
    "next_times",
    "pause_schedule",
    "resume_schedule",
    "schedule",
    "trigger_schedule",
]
