"""The driver: feeds one `core.Run` from the world, and carries out what the run decides.

- `driver`: what the host tells; on top of
    - `commands`: what the run decides
    - `launching`: attempts and undos on their way
    - `journaling`: what is written down, and what is held until it is durable
    - `state`: what it remembers, and how the run stands
- `ahead`: what will start next, if nothing else happens
- `inputs`: what attempts and undos read
- `outputs`: the values of a run: those in memory, and where the saved ones are
- `saving`: what is written for it, once for all who hold it
- `guards`: which handlers go with an attempt
- `given_outcomes`: outcomes that handlers and people give
- `retries`: what is tried again, and when
- `timeouts`: tasks that run out of time
- `fiber_cancellation`: fibers of a run that is cancelled are told
- `waits`: nodes that wait for an event or a moment
- `variables`: what tasks write to variables
- `children`: what became of forked fibers, until somebody joins them
- `deadlines`: graphs that run out of time
- `features`: whatever most runs have no use for, made when it is needed first
- `actors`: versions of actors, and the processes that have them
- `entries`: records of core ↔ entries of the journal
- `measurements`: what attempts took, as entries of the journal
- `history`: a run as the journal has it
- `work`: what is to be done elsewhere, and the protocol of whoever does it
"""
