"""The law of docs/design.md section 2: what may start, what must be saved first, what is undone and what is run again.

Pure: no I/O, no clock, no threads, no randomness. Events go in, commands come out.

- `model`: the data: graphs, rows, events, commands, records. Read it first
- `rules`: the consequences of an event, as functions over one `State`
- `checks`: the check before a run, and the invariants of section 2 word for word
- `run`: the state machine, `Run.handle(event) -> commands`
"""
