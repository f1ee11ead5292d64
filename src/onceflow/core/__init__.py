"""The law of docs/design.md section 2: what may start, what must be saved first, what is undone and what is run again.

Pure: no I/O, no clock, no threads, no randomness. Events go in, commands come out.

- `graph`: what is to be run
- `effects`: what a task does to the world outside, and its options
- `refs`: refs in outputs
- `rows`: what a run remembers of each node
- `events`: what the driver reports
- `commands`: what core decides
- `records`: what the journal keeps
- `run`: the state machine, `Run.handle(event) -> commands`
- `state`: its memory, and walks over the graph
- `settling`: what is settled, and quiet (2.2)
- `retiring`: what is released and forgotten (2.10)
- `committing`: begun records, and writes of variables (2.3, 2.11)
- `joining`: outcomes of what stands aside (2.11)
- `taking`: actors and those that take them (2.7)
- `turns`: which chunks of a loop may be in flight (2.10)
- `admitting`: asking for a place (2.13)
- `starting`: what may start (2.3)
- `expanding`: returned graphs (2.9)
- `sharing`: objects that several parts share (2.7)
- `outputs`: what is visible, saved and lost (2.2)
- `undoing`: undos, and what they need rebuilt (2.5)
- `recovery`: what runs again (2.5)
- `stopping`: failures, and stopping a run (2.8)
- `handling`: given outcomes (2.8)
- `ending`: graphs that end before their result is there (2.8)
- `expiring`: graphs whose time is over (2.8)
- `concluding`: how a run ends (2.8)
- `loading`: a run after a crash, and `resume`
- `check`: may this graph be run? (2.4)
- `proposals`: which checkpoints would free a blocked task (2.4)
- `definitions`: section 2 word for word, slow
- `validating`: compares the state machine with the definitions after every event
"""
