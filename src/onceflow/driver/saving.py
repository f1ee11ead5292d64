"""Saves: what is written for a run, and where that is.

Small values are saved by standing in their record; large ones are written as blobs first. Of a ref of a user's
(`values.refs`), its kept form is saved, which a worker asks it for.

What several outputs hold, because a ref was passed on, is saved once: later saves get the same form, or wait
for it together. A blob is deleted when no part names it any more.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onceflow.core.model import events
from onceflow.core.model.rows import Row
from onceflow.data.objects import Object
from onceflow.driver.actors import Version
from onceflow.driver.outputs import Blob, Part, SavedBlob, is_live, is_small
from onceflow.errors import LostForGood
from onceflow.values.failures import dump

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver

MOST_LOSSES = 3
"""How often what a ref of a user's refers to may be gone when it is to be saved, before that is a failure."""

Form = bytes | str
"""The saved form: the bytes in the record, or the reference of a blob."""


class Save(NamedTuple):
    """A save that core asked for."""

    node: str
    part: int
    attempt: int


class Own(NamedTuple):
    """A ref of a user's. Made anew it may look the same, and refer to something else."""

    live: bytes
    """Its live form."""
    maker: str
    attempt: int
    """The node that made it, and the attempt."""


class Saving:
    """The saves of one driver. `blobs` are those that count already, by node."""

    def __init__(self, driver: Driver, blobs: dict[str, list[SavedBlob]]) -> None:
        self._driver = driver
        self._host = driver.host
        self._store = driver.store
        self._outputs = driver.outputs
        self._inputs = driver.inputs
        self.under_way = 0
        """Requests to the host that have not been answered."""
        self._blobs = blobs
        """Node → its blobs that count."""
        self._named: dict[str, int] = {}
        """Reference → how many parts are saved there."""
        for blob in [blob for found in self._blobs.values() for blob in found]:
            self._named[blob.reference] = self._named.get(blob.reference, 0) + 1
        self._forms: dict[str, dict[tuple[int, int], Form]] = {}
        """Node → (attempt, part) → what is saved of it, if that is not what is in memory. As long as it is there."""
        self._waiting: dict[Object | bytes | Own, list[Save]] = {}
        """What is being saved → the parts that wait for it."""
        self._latest: dict[bytes, Own] = {}
        """Live form → the ref that has it now."""
        self._own: dict[Own, Form] = {}
        """Ref of a user's → what is saved of it."""
        self._losses: dict[bytes, int] = {}
        """Live form of a ref of a user's → how often what it refers to was gone when it was to be saved."""
        self._written: dict[str, int] = {}
        """Node → how many blobs were written of outputs that are in memory."""

    @functools.cached_property
    def _references(self) -> weakref.WeakKeyDictionary[Object, str]:
        """Objects in memory that are saved, and where. Most runs have none."""
        return weakref.WeakKeyDictionary()

    def save(self, save: Save) -> None:
        """Answered by `events.Saved` or `SaveFailed`, or by the loss of what was to be saved."""
        value: Part | tuple[str, int] | None = self._outputs.get(save.node, save.part)
        if value is None:
            value = self._inputs.resolve(save.node, save.part)
        if isinstance(value, tuple):  # a ref that came in, is saved with its previous holder, and not in memory
            value = self._store.values({value})[value]
        if isinstance(value, Version):
            assert value.snapshot is not None
            value = value.snapshot
            if isinstance(value, bytes) and is_small(value):
                self._answer(save, value)
                return
        if isinstance(value, Blob):
            self._answer(save, value.reference)
        elif isinstance(value, bytes) and is_live(value):
            self._save_once(save, self._find_own(save, value))
        elif is_small(value):
            if value is not self._outputs.get(save.node, save.part):  # it is found with others, perhaps not for long
                assert isinstance(value, bytes)
                self._note(save, value)
            self._driver.saved(save)
        else:
            self._save_once(save, value)

    def _find_own(self, save: Save, live: bytes) -> Own:
        """The ref with this live form: the one that is known, unless its maker has run again since."""
        maker, _ = self._inputs.maker_of(save.node, save.part)
        row = self._driver.run.rows.get(maker)
        known = self._latest.get(live)
        if known is not None:
            if row is None or known.maker != maker or known.attempt == row.attempt:
                return known
            self._own.pop(known, None)
        own = self._latest[live] = Own(live, maker, 0 if row is None else row.attempt)
        return own

    def _save_once(self, save: Save, thing: Object | bytes | Own) -> None:
        known: Form | None = None
        if isinstance(thing, Object):
            known = self._references.get(thing)
        elif isinstance(thing, Own):
            known = self._own.get(thing)
        if known is not None and (isinstance(known, bytes) or self._named.get(known)):
            self._answer(save, known)
        elif thing in self._waiting:
            self._waiting[thing].append(save)
        else:
            self._waiting[thing] = [save]
            if isinstance(thing, Own):
                self.under_way += 1
                self._host.checkpoint(self._driver, save.node, thing.live, partial(self._told, thing))
            else:
                self._write(thing, thing)

    def _told(self, own: Own, kept: bytes | Object | None, failure: bytes | None) -> None:
        """A ref of a user's has returned what has to be saved of it; or has raised this; or what it refers to is
        gone."""
        self.under_way -= 1
        if self._driver.over:
            return
        if kept is None and failure is None:
            losses = self._losses[own.live] = self._losses.get(own.live, 0) + 1
            if losses < MOST_LOSSES:
                del self._waiting[own]
                self.lose([own.live])
                return
            failure = dump(LostForGood(self._waiting[own][0].node, "a ref of it"), "the engine")
        if kept is None:
            assert failure is not None
            for save in self._waiting.pop(own):
                self._driver.raised_last[save.node] = failure
                self._driver.tell(events.SaveFailed(*save, permanent=True))
        elif isinstance(kept, bytes) and is_small(kept):
            self._settle(own, kept)
        else:
            self._write(own, kept)

    def _write(self, thing: Object | bytes | Own, content: bytes | Object) -> None:
        """Makes a blob, under a name that was never used: what was lost and came back is saved again, and the first
        save of it may be deleted late."""
        node, part, attempt = self._waiting[thing][0]
        again = self._written.get(node, 0)
        self._written[node] = again + 1
        name = f"{part}.{attempt}.{again}.{node}"
        self.under_way += 1
        self._host.save(self._driver, name, content, partial(self._wrote, thing))

    def _wrote(self, thing: Object | bytes | Own, reference: str | None) -> None:
        self.under_way -= 1
        if self._driver.over:
            return  # no part will ever name it: it is collected as an orphan
        if reference is not None:
            waiting = self._waiting[thing]
            self._settle(thing, reference)
            if not self._named.get(reference) and not any(map(self.is_wanted, waiting)):
                self._store.delete(reference)  # too late: the output has been dropped meanwhile
            return
        waiting = self._waiting.pop(thing)
        if isinstance(thing, Object):
            self._driver.lost({thing})
        else:  # the kept form of a ref was lost on its way: asked again, the ref returns it once more
            for save in filter(self.is_wanted, waiting):
                self.save(save)

    def _settle(self, thing: Object | bytes | Own, form: Form) -> None:
        """The value is saved, for all parts that wait for it."""
        if isinstance(thing, Own):
            self._own[thing] = form
        elif isinstance(thing, Object) and isinstance(form, str):
            self._references[thing] = form
        for save in self._waiting.pop(thing):
            self._answer(save, form)

    def _answer(self, save: Save, form: Form) -> None:
        self._note(save, form)
        version = self._outputs.get(save.node, save.part)
        if isinstance(version, Version) and isinstance(form, str):
            version.snapshot = Blob(form)  # the memory is not needed any more
        self._driver.saved(save)

    def _note(self, save: Save, form: Form) -> None:
        self._forms.setdefault(save.node, {})[save.attempt, save.part] = form

    def is_wanted(self, save: Save) -> bool:
        """Whether core still waits for it."""
        row = self._driver.run.rows.get(save.node)
        return row is not None and row.attempt == save.attempt and bool(row.saving >> save.part & 1)

    def record(self, save: Save) -> tuple[bytes | None, str | None]:
        """The value or the blob that stands in the record of a save, which is appended now."""
        form = self._forms.get(save.node, {}).get((save.attempt, save.part)) if self._forms else None
        if isinstance(form, str):
            self._blobs.setdefault(save.node, []).append(SavedBlob(save.attempt, save.part, form))
            self._named[form] = self._named.get(form, 0) + 1
            return None, form
        value = form or self._outputs.get(save.node, save.part)
        assert isinstance(value, bytes)
        return value, None

    def lose(self, forms: Sequence[Part], *attempts: tuple[str, int]) -> None:
        """What refs of users refer to, in their live forms, is gone, and these attempts have met it."""
        lost = self._outputs.lose_live([form for form in forms if not isinstance(form, Version)], self._form)
        for version in forms:
            if isinstance(version, Version) and version.instance is not None:
                lost += self._outputs.lose_actor(version.instance)
                version.instance = None
        self._driver.tell(events.Lost(tuple(lost), attempts))

    def release(self, node: str) -> None:
        """Its output is no longer in memory. The saves stay."""
        self._forms.pop(node, None)
        self._written.pop(node, None)

    def drop(self, node: str, through: int) -> None:
        """Saves of attempts up to this one no longer count."""
        forms = self._forms.get(node, {})
        for attempt, part in [key for key in forms if key[0] <= through]:
            del forms[attempt, part]
        kept = []
        for blob in self._blobs.pop(node, ()):
            if blob.attempt <= through:
                self._named[blob.reference] -= 1
                if not self._named[blob.reference]:  # else a ref that another part saved as well
                    self._store.delete(blob.reference)
            else:
                kept.append(blob)
        if kept:
            self._blobs[node] = kept

    def blob(self, node: str, part: int, attempt: int) -> Blob | None:
        """Where a part is saved, if that is a blob."""
        for blob in self._blobs.get(node, ()):
            if blob.part == part and blob.attempt == attempt:
                return Blob(blob.reference)
        return None

    def output(self, row: Row) -> tuple[Part, ...]:
        """As every reader finds it, now or later: the declared parts, then the refs in them."""
        parts = range(row.every_part.bit_length())
        found: list[Part | None] = [self.blob(row.id, part, row.attempt) for part in parts]
        for part in parts:
            value = self._outputs.get(row.id, part)
            if found[part] is None and isinstance(value, bytes) and not is_live(value):
                found[part] = value
        missing = {(row.id, part) for part in parts if found[part] is None}
        stored = self._store.values(missing) if missing else {}
        return tuple([value if value is not None else stored[row.id, part] for part, value in enumerate(found)])

    def _form(self, node: str, part: int, attempt: int) -> Part | None:
        """What is saved of a ref of a user's."""
        row = self._driver.run.rows.get(node)
        if row is None or not row.saved >> part & 1:
            return None
        form = self._forms.get(node, {}).get((attempt, part))
        return form if isinstance(form, bytes) else self.blob(node, part, attempt)
