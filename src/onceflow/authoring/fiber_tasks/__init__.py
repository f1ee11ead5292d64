"""Fibers in a run: what `@fiber` functions wait for, as graphs.

To core a fiber is a chain of ordinary nodes (design 2.11). A **segment** is the code from one await to the next. It is
a task without effect, nondeterministic and saved, and it returns a nested graph (design 2.9): what the fiber waits for,
and the next segment as the sink, which reads the **continuation** (an argument of the graph, so part of the segment's
output) and the results. So recovery is core's alone: an op with an effect begins when the segment before it is saved; a
segment that was not saved is run again; a chain of any length is forgotten as it is settled.

- `decorator`: `fiber`: a durable function that can be bound, called from other fibers, and started
- `segments`: the tasks that the chain of a fiber consists of
- `ops`: what can be awaited, and the nodes that it becomes
- `gather`: several awaits at once
- `forks`: fibers that run beside the one that started them
- `children`: the outcomes of forked fibers
- `recipes`: graphs that a fiber has bound, as values
- `blocks`: handlers and deadlines for what is awaited in a `with`
- `inline_tasks`: short tasks that a segment runs itself, because re-running them cannot be noticed
- `state`: the context of a fiber: handlers, deadlines, children
- `continuations`: from a paused fiber to the arguments of the next segment and back
- `live_continuations`: paused fibers that stay in the worker that has them
- `stored_graphs`: returned graphs and their fibers, read without the user's code

**Where continuations are found.** What a fiber waits for and the segment that follows stand in one graph. The node of
that segment has the task `segments.resume` (see `segments.is_segment(node)`). In a graph that `stored_graphs` has
read, `stored_graphs.continuation_in(node)` gives the `Continuation` that the node was given. Its `snapshot` is for
`describe_snapshot` and `header_of`, where `op` says what the fiber waits for; its `versions` are those of the functions
in it, with source text and points. A fiber that waits has such a node, not yet done, among the rows of its run
(`core.Run.rows`); where no engine drives the run, the node is in the graph that the segment before it returned, which
is the value of that segment's *saved* entry in the journal (`driver.entries.load_graph`). Its ids identify its fiber:
`fulfil~7/segment` and what it waits for, `fulfil~7/charge`, belong to the fiber `fulfil`.
"""
