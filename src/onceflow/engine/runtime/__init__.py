"""Where runs are driven: everything here happens in threads of the engine's own.

- `local_runtime`: the parts of this package, put together for an engine with a home directory
- `facade`: requests of other threads to the engine's thread
- `loop`: the engine's thread: a selector, an inbox, timers
- `turn`: the steps of one turn of the loop
- `host`: the environment of the drivers: journal, workers, queues, timers
- `driven_runs`: the drivers of this engine, the callers that wait for their runs, and what workers report about them
- `stores`: the stores of the saved values of a run
- `news`: notifies other threads that another engine has rung, or a run has ended
- `counts`: counters of an engine
- `executor`: the interface to what runs attempts
- `pool_executor`: carries out attempts as jobs of a pool
- `local_workers`: worker processes, and what is written and read besides attempts
- `cluster`: attempts on a Ray cluster
- `jobs`: attempts as jobs
- `internal_jobs`: jobs that are no attempts, because user code has to run for the engine
- `ahead_jobs`: jobs that run before a driver asks for them
- `remote_inputs`: attempts that wait for saved values
- `object_budget`: saves unused large values, and spills them to disk when memory is short
- `parking`: runs that only wait, until it is time
- `parked_runs`: the same for the engine: which are parked, woken, or claimed from a dead engine
- `delegation`: runs that workers drive
- `live_info`: information that only the engine driving a run has
- `garbage`: collects orphaned blobs and logs
"""
