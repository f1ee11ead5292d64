"""Progress of runs, for repeated queries.

- `progress_view`: the progress of runs at a moment
- `wording`: the progress in words
- `layout`: the progress as a live display
- `refresh`: the thread that shows it while a caller waits
"""
