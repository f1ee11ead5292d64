"""The simulation of `core` under a seeded scheduler that picks every interleaving and every failure (design 6.1).

`Simulation(graph, random).run()` plays one schedule and raises `Violation` if the law was broken; `simulate_many` plays
many. `python -m onceflow.testing.simulation` does that from the command line.
"""

from onceflow.testing.simulation.schedule import Outcome, Simulation
from onceflow.testing.simulation.world import Violation

__all__ = ["Outcome", "Simulation", "Violation"]
