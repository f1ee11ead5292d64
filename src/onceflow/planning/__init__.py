"""Estimates from the measurements of earlier runs.

- `history`: durations of earlier runs of a workflow, from the measurements in the journal
- `tasks`: these durations by task, for users
- `estimates`: the estimated time left of a run
"""
