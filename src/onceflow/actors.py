"""Actors: objects that live in a process of their own, and go from task to task. `onceflow.actor` declares a class.

- `create(cls, *args, **kwargs)`: in a task, a new actor.
- `const`: marks a method that changes nothing, so that tasks may share the actor.
- `Exclusive[cls]`: the type of a parameter that takes an actor for itself.
- `later(method, *args)`: calls a method and does not wait for it.
- `actor_statistics(actor)`: `ActorStatistics`, what the process of an actor has done.
- `ActorRef`: what tasks hold instead of the object.
"""

from onceflow.authoring.actors import Exclusive, actor_statistics, const, create, later
from onceflow.values.actors import ActorRef, ActorStatistics

__all__ = ["ActorRef", "ActorStatistics", "Exclusive", "actor_statistics", "const", "create", "later"]
