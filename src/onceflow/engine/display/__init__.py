"""How runs get on, for people who look again and again.

- `progress_view`: the progress of runs at a moment
- `wording`: that in words
- `layout`: that as a live display
- `refresh`: the thread that shows it while a caller waits
"""
