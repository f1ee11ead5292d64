"""What onceflow itself is tested with, beyond the tests. It is no part of what is installed.

- `simulation`: core under every interleaving and failure
- `chaos`: real processes, killed at random
"""
