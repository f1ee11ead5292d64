"""What tasks print and log, and what the engine does.

lines       what tasks printed, as it is stored and read again
printing    what jobs print: into the logs of their runs
showing     and on the terminal
recording   what the engine does, for people
"""
