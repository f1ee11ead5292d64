"""Where runs are driven: everything here happens in threads of the engine's own.

loop        the one in which everything is driven
hub         the drivers of this process, and what surrounds them
local       the same with worker processes and a home directory
workers     attempts of drivers as jobs of the local pool
keeping     large values while nobody reads them: saved, and moved to disk when memory is wanted
foresight   jobs that run before a driver asks for them
insight     what only whoever drives a run knows of it
collecting  orphans, now and then
"""
