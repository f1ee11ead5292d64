"""Where truth is kept: the journal, blobs, and the proof that an engine is dead. Knows nothing of graphs.

- `journal`: the interface, its requests and results. `rules`: what a request does, whatever the database.
- `sqlite`: the journal in a SQLite file. Its parts: `schema` (statements and migrations), `writer` (the thread that
  commits), `fair_lock` (fairness between processes), `lock_waits` (what other processes lock) and `lock_holders` (which
  those are).
- `postgres/`: the journal in a PostgreSQL database, for engines on several hosts. `leases`: what those may believe of
  each other.
- `group_commit`: what both have in common, which is that commits are shared.
- `blobs`: values too large for the journal, as files. `orphans` collects those that no entry names.
- `locks`: each engine holds a lock whose release proves its death.
- `home`: the directory that holds all of this. `failures` turns what the system says into errors of onceflow; `forks`
  keeps forked children from holding locks.
"""
