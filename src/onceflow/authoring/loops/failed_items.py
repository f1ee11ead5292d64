"""Failed items: placeholders in the results of a loop."""

from __future__ import annotations

from onceflow.values import failures


class Skipped:
    """Stands for an item that is left out, until the results are gathered."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "SKIPPED"


SKIPPED = Skipped()


class FailedItem:
    """An item of a loop with `on_error="collect"` that failed, in its place among the results."""

    __slots__ = ("_failure", "index")

    def __init__(self, index: int, failure: bytes) -> None:
        self.index = index
        """The number of the item."""
        self._failure = failure

    @property
    def error(self) -> BaseException:
        """What it raised last."""
        return failures.load(self._failure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FailedItem) and (self.index, self._failure) == (other.index, other._failure)

    def __hash__(self) -> int:
        return hash((self.index, self._failure))

    def __reduce__(self) -> tuple[type[FailedItem], tuple[int, bytes]]:
        return FailedItem, (self.index, self._failure)

    def __repr__(self) -> str:
        return f"<item {self.index} failed: {failures.tell(self._failure)}>"
