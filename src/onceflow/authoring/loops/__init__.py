"""Loops: one task for many items that are known only while the run goes on.

`for_each` binds an ordinary node. When it runs, it looks at its items and returns a nested graph (design 2.9): a
**chunk** for each range of items, and a node that gathers what they return. So a loop needs no law of its own: a chunk
is an ordinary node with the options of the task that it calls, and it is what is in flight, saved, lost or run again.

- `api` is what users write: `for_each`, `parallel`, `reduce`, and which loops are run as one.
- `roles` makes the tasks inside a loop of the task that the loop calls, so that its code is found again after a restart
  wherever the task itself is.
- `chunk_sizes` says how many items go into a chunk; `chunk_graphs` builds the graphs.
- `chunk_runner` runs the items of a chunk: each with a key of its own, and each failure with consequences of its own.
"""
