"""The engine: many runs in one process.

What users call, from any thread:

    engine      runs, and what is known about them
    default     the engine behind `onceflow.run` and its siblings
    settings    home, workers, durability: from arguments, environment, pyproject.toml
    handles     what somebody who waits for a run holds
    statuses    how a run can stand
    logs        what tasks printed, as it is stored and read again

What happens in the thread of whoever calls:

    submission  from a node to a run that can be journaled
    attaching   joining a run that exists: its result, waiting for it, going on with it
    cancelling  stopping one, wherever it is driven
    codeless    the same if its code is gone
    listing     which run is meant, which ones there are, and how they stand
    reading     what the journal has of a run that is not driven here
    describing  the tasks of a run, for people
    past        what measurements tell: attempts, tasks, how long a run will go on
    statistics  what this engine has done
    changes     what has become of a run's code
    reasons     why a task does not run, in words
    overviews   how a run gets on, at a glance
    views       the same for whoever looks again and again
    wording     that in words
    drawing     that as a live display
    asking      another engine about the runs that it drives
    following   what happens to a run that another engine drives
    outcomes    how a run came out, as a value or an exception
    waiting     looking now and then
    deaths      proof that an engine and its workers are no more
    pruning     which runs may be forgotten

What happens in threads of the engine's own:

    loop        the one in which everything is driven
    hub         the drivers of this process, and what surrounds them
    local       the same with worker processes and a home directory
    workers     attempts of drivers as jobs of the local pool
    foresight   jobs that run before a driver asks for them
    displaying  how runs get on, shown to whoever waits for them
    answering   other engines that ask
    talking     what they say to each other
    insight     what only whoever drives a run knows of it
    printing    what jobs print: into the logs of their runs
    showing     and on the terminal
    recording   what the engine does, for people
    collecting  orphans, now and then
"""
