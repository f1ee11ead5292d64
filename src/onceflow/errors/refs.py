"""Refs and actors that are lost, or used in a way that cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from onceflow.errors.base import OnceflowError


class InvalidRef(OnceflowError, ValueError):
    """Raised when a ref is used where it means nothing: outside of the run or the attempt that it belongs to."""


class InvalidActor(OnceflowError, TypeError):
    """Raised when a class is declared or used as an actor in a way that cannot work."""


class SharedActor(OnceflowError):
    """Raised by a task that shares an actor with others, and calls a method that might change it."""

    def __init__(self, actor: str, method: str, holder: str, others: tuple[str, ...] = ()) -> None:
        self.actor = actor
        self.method = method
        self.holder = holder
        """The task that called it."""
        self.others = others
        """The tasks that share the actor at that moment."""
        with_whom = f" with {', '.join(others)}" if others else ""
        super().__init__(
            f"{holder} shares actor {actor}{with_whom}, and called {method!r}, which is not const. Declare the "
            f"parameter as `Exclusive[{actor}]` and return the actor, or mark the method with `@const` if it changes "
            "nothing"
        )


class ActorNotReturned(OnceflowError):
    """Raised for a task that took an actor for itself and did not return it."""

    def __init__(self, task: str, actor: str) -> None:
        self.task = task
        super().__init__(
            f"{task} has actor {actor} for itself (`Exclusive`), and did not return it. Return it, alone or with other "
            "things; or share it, if nothing changes it"
        )


class UnfinishedCalls(OnceflowError):
    """Raised for a task that returned while calls of its actors were under way."""

    def __init__(self, task: str, actor: str, methods: tuple[str, ...]) -> None:
        self.task = task
        self.methods = methods
        super().__init__(
            f"{task} returned while calls of actor {actor} were under way: {', '.join(methods)}. Wait for `result()` "
            "of everything that `later` gave"
        )


class RefLost(OnceflowError, LookupError):
    """Raised by `Ref.get` when what the ref refers to is gone. The attempt that met it does not count, whatever it does
    with the exception: the task that made the ref runs again, and then this one."""

    noticed: ClassVar[list[Callable[[str], None]]] = []
    """Called with the id of the ref when it is made: whether the exception comes through does not show that."""

    def __init__(self, ref: Any, reason: str) -> None:
        """`ref` is a `Ref`."""
        self.ref: str = ref._id
        self.reason = reason
        super().__init__(f"what {ref!r} refers to is gone: {reason}")
        for notice in self.noticed:
            notice(self.ref)


class ActorLost(RefLost):
    """Raised when the process of an actor has died. The attempt that met it does not count, whatever it does with the
    exception: the actor is restored as it was last saved, what was done with it since is done again, and then this."""


class LostForGood(OnceflowError):
    """Raised for a task whose refs were lost again and again, although what they refer to was made anew or restored."""

    def __init__(self, task: str, refs: str) -> None:
        super().__init__(
            f"what {refs} refers to was gone whenever {task} asked for it, even after it had been made anew or "
            "restored from what is saved of it. Look at the `_checkpoint` and `_restore` of the ref's class"
        )
