"""The law of docs/design.md section 2: what may start, what must be saved first, what is undone and what is run again.

Pure: no I/O, no clock, no threads, no randomness. Events go in, commands come out.

- `graph`, `effects`, `refs`: what is to be run, and what outputs hold. `check` and `proposals`: may it be run at all?
- `run`: the state machine, `Run.handle(event) -> commands`. `rows` is what it remembers of each node; the verbs of the
  law have a file each: `settling`, `retiring`, `joining`, `starting`, `expanding`, `sharing`, `outputs`, `undoing`,
  `recovery`, `stopping`, `loading`.
- `definitions`: section 2 word for word, slow; validate mode compares the state machine with it after every event.
- `events`, `commands`, `records`: what the driver says, what it is told to do, what the journal keeps.
"""
