"""The driver: feeds one `core.Run` from the world, and carries out what the run decides.

- `driver`: reports of the host, as events of core
- `commands`: carries out the commands of core, writes records, and holds durable commands until the commit
- `launching`: attempts and undos, handed to the host
- `endings`: the status of a driven run, and how a driver ended
- `ahead`: predicts which attempts start next
- `inputs`: the inputs of attempts and undos
- `outputs`: the values of a run: in memory, and where the saved ones are
- `saving`: saves outputs, in records or as blobs
- `guards`: the handlers that are sent with an attempt
- `features`: the optional features, made when first needed
- `hooks`: the hooks of optional features
- `retries`: delays before the next attempt
- `timeouts`: tasks that run out of time
- `deadlines`: graphs that run out of time
- `waits`: nodes that wait for an event or a moment
- `children`: outcomes of forked fibers, until they are joined
- `variables`: task variables of a run
- `actors`: versions of actors
- `fiber_cancellation`: raises `Cancelled` in the fibers of a run that is cancelled
- `fiber_failures`: what a fiber awaited when it failed
- `given_outcomes`: outcomes that handlers and users give
- `entries`: records of core as entries of the journal, and back
- `measurements`: durations of attempts, as entries of the journal
- `history`: a run as the journal has it
- `work`: requests of a driver to its host
"""
