"""The consequences of an event: functions over one `State`, in modules that build on each other in this order.

- `state`: the state of a run, and the agenda through which rules hand work to each other
- `settling`: what is settled and quiet (2.2), what is released and forgotten (2.10)
- `objects`: refs that share an object, actors and those that take them (2.7)
- `starting`: what may start (2.3), turns in loops (2.10), admission (2.13), variables and joins (2.11)
- `outputs`: what is visible, saved and lost (2.2, 2.12), returned graphs (2.9)
- `slices`: runs over a part of a graph
- `recovery`: what runs again, and what is undone for that (2.5, 2.6)
- `failures`: failed attempts, outcomes that handlers make, stopping a run (2.8)
- `ending`: graphs that end before their result is there, and how the run ends (2.8)
- `loading`: a run after a crash, and `resume` (2.5, 2.6)
"""
