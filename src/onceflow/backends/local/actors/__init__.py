"""Actors on this host: each lives in a worker process of its own, which runs one job for as long as the actor lives.

- `messages`: what an attempt and an actor say to each other, through a socket between their two processes.
- `process`: the job in the actor's process, which calls its methods.
- `connections`: the other end, in the process of the attempt.
- `usage`: who needs the actors that live, and since when nobody does.
- `instances`: the actors of an engine that live, and the jobs that they live in.
"""
