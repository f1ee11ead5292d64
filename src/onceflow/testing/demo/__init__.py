"""`onceflow demo`: two trips are booked by processes that kill themselves, and the ledger outside is exact.

- `show`: the parent process: starts processes until the trips have ended, then checks the proof
- `traveller`: a started process: an ordinary program with an engine, which runs a trip under its name
- `trips`: the workflow
- `points`: where a process kills itself, chosen by the seed
- `ledger`: the world outside: a database of its own, of which onceflow knows nothing
- `proof`: what must be true of the ledger in the end
- `screen`: the terminal display
- `law`: `--law`: the check before a run, and a crash at every moment
"""
