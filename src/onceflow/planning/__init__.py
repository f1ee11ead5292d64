"""What the past says about the future.

- `history`: what earlier runs of a workflow took, from the measurements in the journal
- `tasks`: that for people, by task
- `estimates`: how long a run will go on
"""
