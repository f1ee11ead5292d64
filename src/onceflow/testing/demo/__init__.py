"""`onceflow demo`: two trips are booked by processes that kill themselves, and the ledger outside is exact.

- `show`: the parent: starts processes until the trips have ended, then asks for the proof
- `traveller`: such a process: an ordinary program with an engine, which runs a trip under its name
- `trips`: the workflow
- `points`: where a process kills itself, chosen by the seed
- `ledger`: the world outside: a database of its own, of which onceflow knows nothing
- `proof`: what must be true of the ledger in the end
- `screen`: how it looks
- `law`: `--law`: the check, and a crash at every moment
"""
