"""The driver: feeds one `core.Run` from the world, and carries out what the run decides.

- `driver`: events in, commands out: what is held until it is durable, and what is done at once
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
- `actors`: versions of actors, and the processes that have them
- `entries`: records of core ↔ entries of the journal
- `measuring`: what attempts took, as entries of the journal
- `history`: a run as the journal has it
- `work`: what is to be done elsewhere, and the protocol of whoever does it
"""
