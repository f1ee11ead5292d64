"""Authoring: what users write. Builds graphs; knows no engine.

- `actors`: `@actor`, `@const`, `Exclusive`, `create`, `later`
- `arguments`: arguments at bind, kept or frozen as a snapshot
- `calls`: the function that a node of a graph calls, and its arguments
- `caught_results`: the node behind a graph whose task catches errors
- `event_nodes`: nodes that wait for an event or a moment
- `fiber_tasks`: fibers in a run, as graphs
- `fibers`: durable functions, a library of its own
- `function_wrapper`: base of tasks and workflows: they look like the function that they wrap
- `graph_builder`: from the node that a user holds to the graph that core runs
- `graph_check`: the check before a run
- `graph_storage`: a graph as bytes of the journal, and back
- `handler_guards`: the handlers in force where a task runs
- `handlers`: `on`, `retry` and the other responses to a failure
- `loops`: `for_each`, `parallel`, `reduce`
- `nodes`: what `.bind(...)` returns
- `options`: the options of a task, their defaults, what follows from them
- `queue_keys`: `queue_key`, computed from the arguments
- `refs`: `onceflow.ref`, and refs in arguments
- `retries`: retry policies
- `signatures`: whether a call fits a function
- `stored_tasks`: the tasks of a stored graph, and where their code is now
- `targets`: tasks and workflows that can be run with given arguments
- `tasks`: `@task`
- `transactions`: `@transaction`
- `workflows`: `@workflow`
"""
