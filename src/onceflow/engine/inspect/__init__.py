"""Inspection of runs. Read-only.

- `api`: the methods of an engine that report on runs
- `run_info`: finding and listing runs, their statuses
- `journal_view`: the state in the journal of a run that is not driven here
- `live`: the runs that are driven here, asked in the engine's thread
- `task_info`: the tasks of a run
- `fibers`: where fibers are paused, and what they wait for
- `wait_reasons`: why a task does not run
- `why`: why a run is not done
- `overview`: the progress of a run: counts, running tasks, some that wait
- `measurements`: durations of attempts, and the estimated time left of a run
- `statistics`: statistics of this engine
- `engines`: the engines that share a journal
- `code_changes`: which code of a run has changed
- `deploy_check`: whether parked fibers can continue in the code on disk
- `stored_names`: whether the code on disk has what stored names stand for
"""
