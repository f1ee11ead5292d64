"""What tasks print and log, and what the engine does.

- `task_lines`: what tasks printed, as it is stored and read
- `task_output`: what jobs print, into the logs of their runs
- `terminal_lines`: and on the terminal
- `engine_log`: what the engine does
"""
