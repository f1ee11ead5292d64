"""Where runs are driven: everything here happens in threads of the engine's own.

- `local_runtime`: the parts of this package, put together for an engine with a home directory
- `facade`: what other threads ask of the engine's thread
- `loop`: the engine's thread: a selector, an inbox, timers
- `turn`: what happens in each turn of the loop
- `host`: what surrounds the drivers: journal, workers, queues, timers
- `driven_runs`: the drivers of this engine, the callers that wait for their runs, and what workers report about them
- `stores`: where the saved values of a run are
- `news`: notifies other threads that another engine has rung, or a run has ended
- `counts`: what an engine has done
- `executor`: the interface to whatever carries out attempts
- `pool_executor`: carries out attempts as jobs of a pool
- `local_workers`: worker processes, and what is written and read besides attempts
- `cluster`: where attempts run, if not on this host alone
- `jobs`: attempts as jobs
- `internal_jobs`: jobs that are no attempts, because user code has to run for the engine
- `ahead_jobs`: jobs that run before a driver asks for them
- `remote_inputs`: attempts that wait for saved values
- `object_budget`: large values that are not in use: saved, and moved to disk when memory is short
- `parking`: runs that only wait, until it is time
- `parked_runs`: the same for the engine: which are parked, woken, or claimed from a dead engine
- `delegation`: runs that workers drive
- `live_info`: what only the engine that drives a run knows of it
- `garbage`: collects orphaned blobs and logs
"""
