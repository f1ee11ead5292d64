"""Operations: what a fiber waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


class Op:
    """Awaiting one pauses the fiber: the code that runs it gets the operation, carries it out, and sends back the
    result.

    `name`, `args` and `kwargs` say what is to be done; they are saved with the fiber. `label` names the place in the
    code: a fiber that is parked there is found again after the expression around it was edited.

        price = await Op("price", sku, label="price")
    """

    told = ""
    """How it looked, if its arguments are gone."""

    def __init__(self, name: str, *args: Any, label: str | None = None, **kwargs: Any) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.label = label

    def parts(self) -> tuple[Any, ...]:
        """What a snapshot keeps of the operation for which its fiber waits."""
        return self.name, self.args, self.kwargs, self.label

    @classmethod
    def of(cls, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], label: str | None) -> Op:
        return cls(name, *args, label=label, **kwargs)

    def __await__(self) -> Generator[Op, Any, Any]:
        return (yield self)

    def __repr__(self) -> str:
        arguments = [repr(value) for value in self.args]
        arguments += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{type(self).__name__}({', '.join([repr(self.name), *arguments])})"


WAITING = Op.__await__.__code__
"""A generator with this code is an operation that is being awaited."""
