"""Signatures: whether a call fits a function. Checked at every bind, so the check is prepared once per function.

`inspect.Signature.bind` answers the same question fifty times slower; it is used only to say what is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onceflow.authoring.actors import is_exclusive

STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Shape:
    """The parameters of a function, as bind needs them."""

    __slots__ = (
        "any_keyword",
        "any_position",
        "by_keyword",
        "fewest",
        "most",
        "named",
        "positional",
        "required",
        "required_keywords",
        "signature",
        "takes",
    )

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters.values()
        self.positional = tuple([p.name for p in parameters if p.kind in _POSITIONAL])
        """Parameters that take a position, in order."""
        self.by_keyword = {
            p.name: index
            for index, p in enumerate(parameters)
            if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        }
        """Parameters that may be given by keyword → their place among all."""
        self.any_position = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        self.any_keyword = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        self.required = sum(p.default is p.empty for p in parameters if p.kind in _POSITIONAL)
        self.required_keywords = frozenset(
            p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is p.empty
        )
        self.fewest: float = float("inf") if self.required_keywords else self.required
        """Positional arguments that are enough if there are no keywords."""
        self.most: float = float("inf") if self.any_position else len(self.positional)
        self.named = frozenset(p.name for p in parameters)
        self.takes = frozenset(STARS.get(p.kind, p.name) for p in parameters if is_exclusive(p.annotation))
        """Parameters whose actors are for the function alone, by the names that `items` gives them; `*` and `**` for
        further positions and keywords."""

    def fits(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether the function could be called like this."""
        count = len(args)
        if not kwargs:
            return self.fewest <= count <= self.most
        if count > self.most:
            return False
        by_keyword = self.by_keyword
        for name in kwargs:
            place = by_keyword.get(name)
            if place is None:
                if not self.any_keyword:
                    return False
            elif place < count and place < len(self.positional):
                return False
        for name in self.positional[count : self.required]:
            if name not in by_keyword or name not in kwargs:
                return False
        return self.required_keywords <= kwargs.keys()

    def problem(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Why it does not fit, in Python's words."""
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return "the arguments do not fit"

    def items(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The arguments of a call that fits, each with its name, in an order that does not depend on how they were
        given: that of the parameters, then further positions, then further keywords by name."""
        names = self.positional
        yield from zip(names, args, strict=False)
        if kwargs:
            for name in self.by_keyword:
                if name in kwargs:
                    yield name, kwargs[name]
        for value in args[len(names) :]:
            yield "*", value
        if kwargs and self.any_keyword:
            for name in sorted(kwargs.keys() - self.by_keyword.keys()):
                yield f"**{name}", kwargs[name]

    def positions(self, args: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
        """The positional arguments of a call that fits, each with the name of the parameter that takes it."""
        names = [*self.positional, *self._names_of(inspect.Parameter.VAR_POSITIONAL) * len(args)]
        yield from zip(names, args, strict=False)

    def parameter_of(self, keyword: str) -> str:
        """The name of the parameter that takes a keyword of a call that fits."""
        return keyword if keyword in self.by_keyword else self._names_of(inspect.Parameter.VAR_KEYWORD)[0]

    def _names_of(self, kind: Any) -> list[str]:
        return [p.name for p in self.signature.parameters.values() if p.kind is kind]

    def complete(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter of a call that fits, with its value or default."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def __str__(self) -> str:
        return str(self.signature)
