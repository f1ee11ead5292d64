"""The kit for testing workflows: the real core and the real driver, with nothing real around them.

- `engine`: `MemoryEngine`: what tests use
- `stage`: its host: everything happens in the caller's thread, one thing after the other
- `crew`: its workers: tasks are called in this process
- `actors`: actors, as objects in this process
- `coroutines`: async tasks, in virtual time
- `clock`: virtual time
- `alarm`: looks at schedules when the clock moves
- `faults`: planned faults
- `record`: what ran and what was undone, and assertions about it
- `crashes`: a crash at every moment
- `ledger`: the world outside
- `itself`: objects that stay the same when they are pickled

Users find the public names in `onceflow.testing`.
"""
