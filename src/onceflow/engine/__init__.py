"""The engine: many runs in one process.

engine      what users call; every method may be called from any thread
default     the engine behind `onceflow.run` and its siblings
settings    home, workers, durability: from arguments, environment, pyproject.toml
submission  from a node to a run that can be journaled
attaching   joining a run that exists: its result, waiting for it, going on with it
handles     what somebody who waits for a run holds
outcomes    how a run came out, as a value or an exception
hub         the drivers of this process, and what surrounds them
workers     attempts of drivers as jobs of the local pool
loop        the thread in which all of that happens
deaths      proof that an engine and its workers are no more
"""
