"""What tasks print and log, and what the engine does.

- `task_lines`: lines of task output, stored and read
- `task_output`: writes the output of jobs into the logs of their runs
- `terminal_lines`: task output on the terminal
- `engine_log`: the log of an engine
"""
