"""The simulation of `core` under a seeded scheduler that picks every interleaving and every failure (design 6.1).

`Simulation(graph, random).run()` plays one schedule and raises `Violation` if the law was broken; `simulate_many` plays
many and raises `Caught`, with the story. `python -m onceflow.testing.simulation` does that from the command line.
"""

from onceflow.testing.simulation.bulk import Caught, Settings, Tally, play, play_graph, simulate_many
from onceflow.testing.simulation.schedule import Outcome, Simulation
from onceflow.testing.simulation.world import Violation

__all__ = ["Caught", "Outcome", "Settings", "Simulation", "Tally", "Violation", "play", "play_graph", "simulate_many"]
