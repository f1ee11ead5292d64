"""Actors on this host: each lives in a worker process of its own, which runs one job for as long as the actor lives.

- `messages`: the messages between an attempt and an actor, through a socket between their two processes
- `process`: the job in the actor's process, which calls its methods
- `job_actors`: the actors of a job, on any backend
- `connections`: the other end of those sockets, in the process of the attempt
- `processes`: the workers of actors, as the pool sees them
- `usage`: which attempts need an actor, and since when none does
- `instances`: the live actors of an engine, and the jobs that they live in
"""
