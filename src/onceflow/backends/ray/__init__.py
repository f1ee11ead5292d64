"""The backend for clusters: attempts run in Ray's worker processes, on whatever node has room.

Short tasks would pay Ray's price for each of them, so attempts are no Ray tasks of their own. Instead:

- Each node has an **agent**, a Ray actor without user code. It is the pool of its node: the very one of
  `onceflow.backends.local`, with its lanes, windows, recalls, captured output and stops.
- A **worker** is a Ray actor with one cpu (or with what a task asks for) that never returns: its process joins the
  agent of its node and runs jobs as a worker of the local backend does. So user code runs in a process of Ray's, which
  counts what it takes, and may use Ray itself.
- The **pool** in the engine's process speaks to the agents in batches, one call there and one back under way for each
  (`exchange`), and decides which node gets what: first where the inputs are, else where there is room.
- The **keeper**, a Ray actor without user code, holds references to large values, which are in Ray's object store
  (`store`): a worker puts them there, others map them, without a copy on the same node. Messages only have numbers.
- **Actors** of users are Ray actors (`actors`). What they print goes through the keeper (`actor_output`).

Which process ends what (design 2.6): when an agent has heard nothing from the engine for too long, the kernel of its
node kills it (`worker_deadline.Deadline`), and with it its workers (`worker_startup`); the **reaper**, a process that
the agent has started, kills what those have left. So when a node cannot be reached, waiting that long proves that
nothing runs there any more. All of them end when Ray notices that the engine's process has. Actors of users are not
among them: they belong to the keeper, and end with the engine.

- `cluster`: connects to a cluster, or starts one for development
- `pool`: the engine's side: which node gets which job
- `balance`: how work is spread over the nodes
- `nodes`: the agents of the nodes, as the engine sees them
- `agent`: the pool of a node
- `worker`: the process that runs jobs
- `worker_startup`: how an agent gets workers
- `single_workers`: workers for one job each, with just the resources that it asks for
- `reaper`: ends what workers have left running
- `store`: large values in Ray's object store
- `objects`: a worker's side of that
- `stored_objects`: the engine's side of that
- `transfer`: large values between this process and the store
- `actors`: actors in a worker
- `actor_process`: the process of a user's actor
- `actor_output`: what it prints, on its way to the engine
- `instances`: the live actors of an engine
- `inbox`: what other threads hand to a selector loop
- `messages`: what the engine's pool and the agents send each other
"""
