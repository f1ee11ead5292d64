"""The engine: many runs in one process.

- `engine`: `Engine`: opened, serving, closed
- `run_graphs`: its methods that run graphs, and go on with runs
- `parts`: what its methods share
- `options`: the options of runs, schedules and engines, as types
- `default`: the engine behind `onceflow.run` and its siblings, and these as a table
- `settings`: home, workers, durability: from arguments, environment, pyproject.toml
- `handles`: what a caller that waits for a run holds
- `statuses`: the statuses of a run
- `submission`: from a node to a run that can be journaled
- `attaching`: joining a run that exists: its result, waiting for it, resuming it
- `loading`: a run that exists, read from the journal so that it can be driven
- `waking`: runs that were parked go on
- `outcomes`: the outcome of a run, as a value or an exception
- `polling`: waits for a run that another process drives
- `serving`: takes runs that no engine drives, as one of a fleet
- `retention`: which runs may be forgotten
- `damaged_runs`: forgets runs whose rows in the journal are damaged
- `proof_of_death`: proves that an engine and its workers are gone
- `runtime`: where runs are driven: the engine's own threads
- `run_commands`: what is asked of a run, wherever it is driven
- `inspect`: what can be known about runs, their tasks and their past
- `peers`: engines that ask each other
- `queues`: limits on what runs at the same time
- `schedules`: runs that begin by the clock
- `logs`: what tasks print, and what the engine does
- `display`: progress of runs, live
"""
