"""What can be known about runs. Nothing here changes anything.

- `api`: the methods of an engine that report on runs
- `run_info`: which run is meant, which ones there are, their statuses
- `journal_view`: what the journal has of a run that is not driven here
- `live`: the runs that are driven here, asked in the engine's thread
- `task_info`: the tasks of a run
- `fibers`: where fibers are paused, and what they wait for
- `wait_reasons`: why a task does not run
- `why`: why a run is not done
- `overview`: the progress of a run: counts, running tasks, some that wait
- `measurements`: what attempts took, and how long a run will go on
- `statistics`: what this engine has done
- `engines`: the engines that share a journal
- `code_changes`: which code of a run has changed
- `deploy_check`: what would become of parked fibers in the code on disk
- `stored_names`: whether the code on disk has what stored names stand for
"""
