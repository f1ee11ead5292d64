"""Invariants: of a graph before it runs, and of a run after every event.

- `check`: whether a graph may be run (2.4, 2.9)
- `proposals`: which checkpoints would free a blocked task (2.4)
- `definitions`: section 2 word for word, slow
- `validating`: compares the state of a run with the definitions after every event
"""
