"""The simulation of `core` under a seeded scheduler that picks every interleaving and every failure (design 6.1).

`Simulation(graph, random).run()` plays one schedule and raises `Violation` if the law was broken; `simulate_many` plays
many and raises `Caught`, with the story. `python -m tests.tools.simulation` does that from the command line.

- `schedule`: the seeded scheduler
- `faults`: what goes wrong in a schedule
- `scenarios`: random graphs
- `shapes`: fixed graphs on which weaker rules fail
- `strategies`: graphs and schedules for hypothesis
- `driver`: everything around a `Run`
- `attempts`: what one execution read and produced
- `referring`: which refs an attempt returns
- `rows`: what the driver keeps of each node
- `world`: effects, and what must never happen to them
- `structure`: the nodes of a run with its nested graphs
- `facts`: what the judge needs to know, from what the driver saw
- `reading`: what the journal says, read independently of `Run.load`
- `checker`: the judge
- `wrong_rules`: rules that look right and are not; the judge must catch them
- `bulk`: many schedules at once
- `shrinking`: makes a find small
- `story`: tells a schedule
- `notation`: graphs as text
- `script`: schedules as text
- `show`: the rules under simulation, for people who watch
"""

from tests.tools.simulation.bulk import Caught, Settings, Tally, play, play_graph, simulate_many
from tests.tools.simulation.schedule import Outcome, Simulation
from tests.tools.simulation.world import Violation

__all__ = ["Caught", "Outcome", "Settings", "Simulation", "Tally", "Violation", "play", "play_graph", "simulate_many"]
