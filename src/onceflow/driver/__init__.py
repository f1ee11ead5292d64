"""The driver: feeds one `core.Run` from the world, and carries out what the run decides.

- `driver`: what the host tells; on top of
    - `obeying`: what the run decides
    - `launching`: attempts and undos on their way
    - `batching`: what is written down, and what is held until it is durable
    - `state`: what it remembers, and how the run stands
- `ahead`: what will start next, if nothing else happens
- `inputs`: what attempts and undos read
- `outputs`: the values of a run: those in memory, and where the saved ones are
- `saving`: what is written for it, once for all who hold it
- `guards`: which handlers go with an attempt
- `answering`: outcomes that handlers and people give
- `delays`: what is tried again, and when
- `limits`: tasks that run out of time
- `cancelling`: fibers of a run that is cancelled are told
- `waiting`: nodes that wait for an event or a moment
- `variables`: what tasks write to variables
- `outcomes`: what became of forked fibers, until somebody joins them
- `expiring`: graphs that run out of time
- `rare`: whatever most runs have no use for, made when it is needed first
- `actors`: versions of actors, and the processes that have them
- `entries`: records of core ↔ entries of the journal
- `measuring`: what attempts took, as entries of the journal
- `history`: a run as the journal has it
- `work`: what is to be done elsewhere, and the protocol of whoever does it
"""
