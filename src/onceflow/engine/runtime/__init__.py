"""Where runs are driven: everything here happens in threads of the engine's own.

loop        the one in which everything is driven
hub         the drivers of this process, and what surrounds them
local       the same with worker processes and a home directory
crew        whoever carries out attempts
workers     the same with a pool of processes: attempts of drivers as its jobs
jobs        what a job carries
errands     jobs that are no attempts
keeping     large values while nobody reads them: saved, and moved to disk when memory is wanted
foresight   jobs that run before a driver asks for them
insight     what only whoever drives a run knows of it
collecting  orphans, now and then
"""
