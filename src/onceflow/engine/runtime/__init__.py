"""Where runs are driven: everything here happens in threads of the engine's own.

- `loop`: the engine's thread: a selector, an inbox, timers
- `host`: the drivers of this process, and what surrounds them
- `local_host`: the same with worker processes and a home directory
- `executor`: the interface to whatever carries out attempts
- `pool_executor`: carries out attempts as jobs of a pool
- `cluster`: where attempts run, if not on this host alone
- `jobs`: attempts as jobs
- `internal_jobs`: jobs that are no attempts, because user code has to run for the engine
- `ahead_jobs`: jobs that run before a driver asks for them
- `remote_inputs`: attempts that wait for saved values
- `object_budget`: large values that are not in use: saved, and moved to disk when memory is short
- `parking`: runs that only wait
- `delegation`: runs that workers drive
- `live_info`: what only the engine that drives a run knows of it
- `garbage`: collects orphaned blobs and logs
"""
