"""The journal in a PostgreSQL database, shared by engines on any number of hosts. Needs the extra `postgres`.

- `journal`: the journal behind its interface, and reading
- `writer`: the thread that commits
- `schema`: tables, statements and migrations
- `one_round_trip`: frequent statements in one round trip
- `connections`: connections that come back, and errors of PostgreSQL as errors of onceflow
- `presence`: an engine's row in the database, its lease, and notifications for it
- `fleet`: the engines that share a database

What a request does is decided by `storage.rules`, as everywhere. SQLite lets one process write at a time; here many
do, so decisions are made on what was read before, and the transaction begins by locking the rows of the runs concerned
and comparing them: if one is different, everything is decided anew. A run has one driver, so that hardly ever happens.
"""
