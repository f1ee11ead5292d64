"""Chaos: real engines and workers, killed with SIGKILL at random moments, over random graphs, with a ledger outside.

    python -m tests.tools.chaos --iterations 100

After every iteration the ledger must show each effect exactly once, belonging to the final values, and nothing may be
left: no process, no file, no blob, no descriptor.

- `plans`: what is played: a graph of tasks of all effects
- `random_plans`: random plans
- `steps`: the tasks
- `ledger`: the world outside
- `kills`: which process is killed, and when
- `lives`: the life of one engine
- `judging`: what is wrong with a ledger
- `leaks`: what was left behind
- `iteration`: all of it, once
- `program`: an engine as a script of a user
"""
