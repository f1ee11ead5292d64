"""A ledger: the world outside, in memory, as a system sees it that knows idempotency keys.

A second request with the same key changes nothing, and what was taken back does not come again under the same key. The
ledger remembers every request, so a test can ask for more than the outcome: whether something was asked for under two
keys, which would have been two effects; and what is still there that should have been taken back.

It can be an argument of a task, be read from a module, or stand in a closure: it is always the same world (`itself`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceflow.testing.kit.itself import Itself
from onceflow.values.context import current


class Effect(msgspec.Struct, frozen=True):
    """Something that happened in the world outside."""

    what: object
    key: str
    requests: int
    """How often it was asked for with this key."""
    taken_back: bool


class Ledger(Itself):
    """Records what tasks do outside, by idempotency key.

    bank = Ledger()

    def refund(*, key: str) -> None:
        bank.take_back(key)

    @task(rollback=refund)
    def charge(cents: int) -> None:
        bank.enter(f"{cents} cents")        # under current().key

    engine.run(charge.bind(500))
    bank.assert_holds("500 cents")          # that, once, and nothing else
    """

    def __init__(self) -> None:
        super().__init__()
        self._effects: dict[str, Effect] = {}
        """By key, in the order in which they happened."""

    def enter(self, what: object, key: str | None = None) -> bool:
        """Let something happen, once for each key: by default that of the task that runs. Returns whether anything
        came of it."""
        key = current().key if key is None else key
        before = self._effects.get(key)
        if before is None:
            self._effects[key] = Effect(what, key, 1, False)
            return True
        self._effects[key] = msgspec.structs.replace(before, requests=before.requests + 1)
        return False

    def take_back(self, key: str | None = None) -> bool:
        """Take back what happened under this key, if it did. Returns whether anything came of it. What comes later
        under the same key is too late, and does not happen."""
        key = current().key if key is None else key
        before = self._effects.get(key)
        if before is None:
            self._effects[key] = Effect(None, key, 0, True)
            return False
        self._effects[key] = msgspec.structs.replace(before, taken_back=True)
        return not before.taken_back

    @property
    def effects(self) -> list[Effect]:
        """All that ever happened, also what was taken back."""
        return [effect for effect in self._effects.values() if effect.requests]

    @property
    def holds(self) -> list[object]:
        """What is there now, in the order in which it happened."""
        return [effect.what for effect in self.effects if not effect.taken_back]

    @property
    def repeated(self) -> list[object]:
        """What was asked for more than once with the same key: harmless if the outside system knows keys, and twice
        too often if it does not."""
        return [effect.what for effect in self.effects if effect.requests > 1]

    def clear(self) -> None:
        """A new world."""
        self._effects.clear()

    def assert_holds(self, *expected: object) -> None:
        """Exactly this is there, in any order, each as often as it is given here. With nothing given: nothing is there,
        because nothing happened, or all of it was taken back."""
        __tracebackhide__ = True
        missing, extra = list(expected), []
        for what in self.holds:
            if what in missing:
                missing.remove(what)
            else:
                extra.append(what)
        if not missing and not extra:
            return
        problems = [f"{what!r} is there {'too often' if what in expected else 'and should not be'}" for what in extra]
        problems += [f"{what!r} is missing" for what in missing]
        raise AssertionError(f"{'; '.join(problems)}. What happened:\n{_told(self.effects)}")

    def __len__(self) -> int:
        return len(self.holds)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<ledger that holds {self.holds}>"


def _told(effects: Sequence[Effect]) -> str:
    if not effects:
        return "nothing"
    return "\n".join(
        f"  {effect.what!r} under {effect.key}, asked for {effect.requests} time{'s' * (effect.requests != 1)}"
        f"{', taken back' if effect.taken_back else ''}"
        for effect in effects
    )
