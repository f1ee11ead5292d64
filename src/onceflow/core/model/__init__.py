"""The data model of core and its driver. No decisions.

- `graph`: graphs, nodes and edges
- `effects`: what a task does to the world outside, and its options (2.1)
- `refs`: refs in outputs (2.7)
- `rows`: what a run remembers of each node, its states and the moves between them (2.2)
- `walks`: edges between rows, and walks along them
- `events`: what the driver reports
- `commands`: what core decides
- `records`: what the journal keeps
"""
