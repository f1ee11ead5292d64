"""The driver: feeds one `core.Run` from the world, and carries out what the run decides.

- `driver`: what the host reports, as events of core
- `commands`: what core decides, carried out; what is written, and what is held until it is durable
- `launching`: attempts and undos, handed to the host
- `endings`: how a run stands, and how a driver came to its end
- `ahead`: what will start next, if nothing else happens
- `inputs`: what attempts and undos read
- `outputs`: the values of a run: in memory, and where the saved ones are
- `saving`: what is written for a run, and where
- `guards`: which handlers go with an attempt
- `features`: the optional features, made when first needed
- `hooks`: what they hear of
- `retries`: what is tried again after a delay
- `timeouts`: tasks that run out of time
- `deadlines`: graphs that run out of time
- `waits`: nodes that wait for an event or a moment
- `children`: outcomes of forked fibers, until they are joined
- `variables`: task variables of a run
- `actors`: versions of actors
- `fiber_cancellation`: raises `Cancelled` in the fibers of a run that is cancelled
- `fiber_failures`: what a fiber awaited when it failed
- `given_outcomes`: outcomes that handlers and people give
- `entries`: records of core as entries of the journal, and back
- `measurements`: what attempts took, as entries of the journal
- `history`: a run as the journal has it
- `work`: what a driver asks of its host
"""
