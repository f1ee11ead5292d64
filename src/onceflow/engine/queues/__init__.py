"""Queues: which tasks and runs may go on at the same time, and how fast, counted over all engines of a journal.

- `limits`: what a queue allows
- `decision`: which runs and tasks have a place, as the journal has it, and which come next
- `order`: the waiters of one engine, in order
- `gate`: the queues as one engine sees them
- `tickets`: the places of this engine's tasks and runs
- `pending`: runs that were submitted and that no engine has taken
- `management`: inspecting and changing queues
"""
