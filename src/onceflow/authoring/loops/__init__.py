"""Loops: one task for many items that are known only while the run goes on.

`for_each` binds an ordinary node. When it runs, it looks at its items and returns a nested graph (design 2.9): a
**chunk** for each range of items, and a node that gathers what they return. So a loop needs no law of its own: a chunk
is an ordinary node with the options of the task that it calls, and it is what is in flight, saved, lost or run again.

- `api`: `for_each`, `parallel`, `reduce`, and which loops run as one
- `roles`: the tasks inside a loop, made of the task that the loop calls, so that its code is found again after a
  restart
- `chunk_sizes`: how many items go into a chunk
- `chunk_graphs`: the graphs of chunks, and the nodes that gather results
- `chunk_runner`: runs the items of a chunk, each with a key and failures of its own
- `failed_items`: what stands in the results in the place of an item that failed
- `fused_loops`: a loop over the results of a loop, run as one
- `partials`: a task with some of its arguments given
- `workflow_tasks`: workflows called by a loop, which build their graphs inside the run
"""
