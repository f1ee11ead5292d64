"""The engine: many runs in one process.

What users call, from any thread:

    engine      runs, and what is known about them
    default     the engine behind `onceflow.run` and its siblings
    settings    home, workers, durability: from arguments, environment, pyproject.toml
    handles     what somebody who waits for a run holds
    statuses    how a run can stand

What becomes of a run, in the thread of whoever calls:

    submission  from a node to a run that can be journaled
    attaching   joining a run that exists: its result, waiting for it, going on with it
    cancelling  stopping one, wherever it is driven
    codeless    the same if its code is gone
    rerunning   a new run that begins with what another one has saved
    pausing     letting one rest until somebody goes on with it
    telling     what is wanted of a run that another engine drives
    outcomes    how a run came out, as a value or an exception
    serving     taking runs that nobody drives, as one of a fleet
    pruning     which runs may be forgotten
    deaths      proof that an engine and its workers are no more
    waiting     looking now and then

The rooms behind:

    driving/    where runs are driven: the engine's own thread and its workers
    looking/    what can be known about runs, their tasks and their past
    talking/    engines that ask each other
    schedules/  runs that begin by the clock
    logs/       what tasks print and what the engine does
    display/    how runs get on, live
"""
