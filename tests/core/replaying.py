"""A driver with values and an outside world, whose crash after any record can be played: what is in the journal stays,
what reached the world stays, all else is gone.

The value of a node names its inputs and, if the task is nondeterministic, the attempt that made it. An effect is the
inputs with which its task was started: an irrevocable task must never have been started with two different ones, and an
undoable task must in the end have exactly one effect that was not taken back.
"""

from __future__ import annotations

from onceflow.core.model import commands, events, records
from onceflow.core.model.graph import Graph
from tests.core.building import Drive


class Replay(Drive):
    def __init__(self, graph: Graph, *, stream=(), raising=(), large=(), expansions=None, **settings) -> None:
        super().__init__(graph, **settings)
        self.raising = raising
        self.large = large
        self.expansions = expansions or {}
        self.values: dict[str, object] = {}
        self.rebuilt: dict[str, object] = {}
        self.carried: dict[str, dict[str, object]] = {}
        self.inputs: dict[int, object] = {}
        self.happened: dict[str, set[object]] = {}
        """Irrevocable effects: the inputs of every attempt."""
        self.effects: dict[str, list[object]] = {}
        """Undoable effects that were not taken back."""
        self.stream: list[tuple] = []
        """Everything durable in order: records with their values, effects, undos."""
        for entry in stream:
            self._happen(*entry)

    # -- what the run asks for, and what that means outside ----------------------------------------------------------

    def tell(self, event: events.Event) -> list[str]:
        if isinstance(event, events.Finished) and event.attempt in self.inputs:
            row = self.run.rows.get(event.node)
            value = (event.node, self.inputs[event.attempt])
            if row is not None and not row.node.options.deterministic:
                value += (event.attempt,)
            if row is not None and row.attempt == event.attempt:
                self.values[event.node] = value
            elif self.run.rebuilding.keys() & {row}:
                self.rebuilt[event.node] = value
        return super().tell(event)

    def answer_one(self, expansions: dict[str, Graph]) -> bool:
        if not (self.stopped or self.undos or self.rebuilding or self.saves) and self.running:
            node = next(iter(self.running))
            if node in self.raising:
                self.raises(node, permanent=True)
            else:
                self.finish(node, graph=self.expansions.get(node), small=node not in self.large)
            return True
        return super().answer_one(self.expansions)

    def _note(self, answer: list[commands.Command]) -> list[str]:
        for command in answer:
            match command:
                case commands.Append(records.Saved(node) as record):
                    self._happen("record", record, self.values[node])
                case commands.Append(records.Begun(node, _, carried) as record):
                    self._happen("record", record, {parent: self.values[parent] for parent, _ in carried})
                case commands.Append(record):
                    self._happen("record", record, None)
                case commands.Start(node, attempt, _, private):
                    self.inputs[attempt] = self._inputs(node, self.rebuilt if private else {})
                    if self.run.rows[node].effect != "none" and not private:
                        self._happen("effect", node, self.run.rows[node].effect, self.inputs[attempt])
                case commands.Undo(node):
                    seen = self._inputs(node, {**self.rebuilt, **self.carried.get(node, {})})
                    for effect in self.effects.get(node, []):
                        assert seen == effect, f"the undo of {node} does not see what the attempt saw"
                    self._happen("undo", node)
                case commands.Drop(node):
                    self.values.pop(node, None)
        return super()._note(answer)

    def _inputs(self, node: str, more: dict[str, object]) -> object:
        known = {**self.values, **more}
        return tuple((parent.id, mask, known[parent.id]) for parent, mask in self.run.rows[node].parents if mask)

    def _happen(self, what: str, *about) -> None:
        self.stream.append((what, *about))
        match (what, *about):
            case ("record", records.Saved(node), value):
                self.values[node] = value
            case ("record", records.Begun(node), carried):
                self.carried[node] = carried
            case ("record", records.Dropped(nodes), _):
                for node in nodes:
                    self.values.pop(node, None)
            case ("effect", node, "irrevocable", inputs):
                self.happened.setdefault(node, set()).add(inputs)
            case ("effect", node, _, inputs):
                self.effects.setdefault(node, []).append(inputs)
            case ("undo", node):
                self.effects.pop(node, None)

    # -- crashes -----------------------------------------------------------------------------------------------------

    def crash(self, count: int, *, late: bool) -> Replay:
        """What comes after a crash that left this many records. `late`: all that did not have to wait for the next
        record has reached the world; otherwise nothing after the last record has."""
        stream: list[tuple] = []
        seen = 0
        for entry in self.stream:
            seen += entry[0] == "record"
            if seen > count or (seen == count and entry[0] != "record" and not late):
                break
            stream.append(entry)
        again = self.reload(count)
        replay = Replay(
            self.graph,
            run=again.run,
            journal=again.journal,
            stream=stream,
            raising=self.raising,
            large=self.large,
            expansions=self.expansions,
            **again.settings,
        )
        replay.begin()
        return replay

    def check(self) -> None:
        """Every effect is there once and belongs to the values that are there."""
        for node, inputs in self.happened.items():
            assert len(inputs) == 1, f"{node} happened with different inputs: {inputs}"
        for node, effects in self.effects.items():
            assert len(effects) == 1, f"{node} has happened {len(effects)} times"
        for node, effects in (*self.happened.items(), *self.effects.items()):
            for parent, _, value in next(iter(effects)):
                if parent in self.values:
                    assert self.values[parent] == value, f"{node} belongs to another past than {parent}"
