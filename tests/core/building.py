"""A driver that answers a run's commands only when the test says so, for small graphs in one line (`graph`, `refs`).

`Drive` speaks of commands as sentences, without attempt numbers (it checks those itself): records begin with `+`, and
an attempt that must wait for the journal is started with `start!`.
"""

from __future__ import annotations

from onceflow.core.model import commands, events, records
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import bits
from onceflow.core.run import Run
from tests.tools.simulation.notation import graph, refs

__all__ = ["Drive", "begun", "graph", "refs", "tell"]


def tell(command: commands.Command) -> str:
    """A command as a sentence."""
    match command:
        case commands.Append(record):
            return "+" + _tell_record(record)
        case commands.Start(node, _, durable, private):
            return f"start{'!' * durable} {node}{' privately' * private}"
        case commands.Save(node, part):
            return f"save {_part(node, part)}"
        case commands.Wait(node, _, failures):
            return f"wait {node} {failures}"
        case commands.Undo(node, _, finished):
            return f"undo {node}{' with output' * (finished is not None)}"
        case commands.Release(node, private):
            return f"release {node}{' privately' * private}"
        case commands.Refuse(node, _, error):
            return f"refuse {node} {type(error).__name__}"
        case commands.Stuck(node, error):
            return f"stuck {node}: waits for {' '.join(error.waiting_for)}"
        case commands.Finish(status, failed, kept, uncertain):
            lists = {"failed": failed, "kept": kept, "uncertain": uncertain}
            return " ".join(["finish", status, *(f"{name}={','.join(ids)}" for name, ids in lists.items() if ids)])
        case _:
            return f"{type(command).__name__.lower()} {command.node}"


def _tell_record(record: records.Record) -> str:
    match record:
        case records.Begun(node, _, carried):
            inputs = ",".join(f"{parent}.{part}" for parent, part in carried)
            return f"begun {node}" + (f" carrying {inputs}" if carried else "")
        case records.Saved(node, part, _, nested, told):
            with_refs = f" with {len(told)} refs" if told else ""
            return f"saved {_part(node, part)}{' as graph' * (nested is not None)}{with_refs}"
        case records.Failed(node, failures, final):
            return f"failed {node} {failures}{' final' * final}"
        case records.Recovering(nodes) | records.Dropped(nodes):
            return f"{type(record).__name__.lower()} {' '.join(sorted(nodes))}"
        case records.Cancelled(undo):
            return f"cancelled{' with undo' * undo}"
        case records.Finished(status):
            return f"finished {status}"
        case records.Limited(group, limit):
            return f"limited {group} {limit}"
        case records.Resumed():
            return "resumed"
        case _:
            return f"{type(record).__name__.lower()} {record.node}"


def _part(node: str, part: int) -> str:
    return node if part == 0 else f"{node}.{part}"


class Drive:
    """Feeds a run. Each method tells it one kind of event and returns the answer as sentences."""

    def __init__(self, graph: Graph, *, run: Run | None = None, journal=(), **settings) -> None:
        settings = {"validate": True, **settings}
        self.graph = graph
        self.settings = settings
        self.run = Run(graph, **settings) if run is None else run
        self.journal: list[records.Record] = list(journal)
        self.running: dict[str, int] = {}
        self.rebuilding: dict[str, int] = {}
        self.undos: dict[str, int] = {}
        self.waits: dict[str, int] = {}
        self.saves: dict[tuple[str, int], int] = {}
        self.stopped: dict[str, list[int]] = {}
        """Attempts that will not report, and have not ended for all that is known."""
        self.attempts: dict[str, list[int]] = {}
        """All attempts ever started, undos as well."""
        self._last_attempt = 0
        self.commands: list[commands.Command] = []
        """The last answer, as it is."""
        self.known: set[str] = set(self.run.rows)

    def begin(self) -> list[str]:
        return self._note(self.run.begin())

    def tell(self, event: events.Event) -> list[str]:
        return self._note(self.run.handle(event))

    # -- attempts ----------------------------------------------------------------------------------------------------

    def finish(self, *nodes: str, graph: Graph | None = None, small: bool = True, holding: str = "") -> list[str]:
        """`holding`: the refs in the outputs."""
        told = refs(holding)
        return [s for n in nodes for s in self.tell(events.Finished(n, self.running.pop(n), graph, small, told))]

    def admit(self, *nodes: str) -> list[str]:
        return [s for node in nodes for s in self.tell(events.Admitted(node))]

    def raises(self, node: str, *, permanent: bool = False, again: bool = False) -> list[str]:
        """`again`: a handler wants it to be tried again."""
        return self.tell(events.Raised(node, self.running.pop(node), permanent, again))

    def ends(self, node: str, depth: int, *, failed: int | None = None, again: bool = False) -> list[str]:
        """It raises, and a handler answers for the graph at this depth, whose failure it is unless said otherwise."""
        attempt = self.running.pop(node)
        return self.tell(events.Ends(node, attempt, depth if failed is None else failed, depth, again))

    def expire(self, node: str, depth: int) -> list[str]:
        """The time of the graph at this depth around the node is over."""
        return self.tell(events.Expired(node, depth))

    def handle(self, node: str) -> list[str]:
        """It raises, and a handler gives an outcome."""
        return self.tell(events.Finished(node, self.running.pop(node), handled=True))

    def lose(self, *outputs: str, attempts: str = "") -> list[str]:
        """Lose whole outputs, single parts (`a.1`), and running attempts (also undos and private rebuilds), at once."""
        parts: list[tuple[str, int]] = []
        for output in outputs:
            node, _, part = output.partition(".")
            every = self.run.rows[node].every_part if node in self.run.rows else 1
            parts += [(node, int(part))] if part else [(node, n) for n in bits(every)]
        lost = []
        for node in attempts.split():
            under_way = next(where for where in (self.running, self.rebuilding, self.undos) if node in where)
            lost.append((node, under_way.pop(node)))
            self.stopped.setdefault(node, []).append(lost[-1][1])
        return self.tell(events.Lost(tuple(parts), tuple(lost)))

    def end(self, *nodes: str) -> list[str]:
        """The oldest stopped or lost attempt of each node has ended."""
        return [s for node in nodes for s in self.tell(events.Ended(node, self._take_stopped(node)))]

    def elapse(self, node: str) -> list[str]:
        return self.tell(events.Elapsed(node, self.waits.pop(node)))

    def finish_rebuilding(self, node: str, graph: Graph | None = None) -> list[str]:
        return self.tell(events.Finished(node, self.rebuilding.pop(node), graph))

    # -- saves and undos ---------------------------------------------------------------------------------------------

    def save(self, *parts: str) -> list[str]:
        return [s for part in parts for s in self.tell(events.Saved(*self._take_save(part)))]

    def save_fails(self, part: str, *, permanent: bool = False) -> list[str]:
        return self.tell(events.SaveFailed(*self._take_save(part), permanent))

    def complete(self, *nodes: str, graph: Graph | None = None, holding: str = "") -> list[str]:
        """Finish each node, and save what is asked to be saved of it."""
        answer = []
        for node in nodes:
            answer += self.finish(node, graph=graph, holding=holding)
            while asked := [_part(node, part) for name, part in self.saves if name == node]:
                answer += self.save(*asked)
        return answer

    def undone(self, node: str) -> list[str]:
        return self.tell(events.Undone(node, self.undos.pop(node)))

    def undo_fails(self, node: str) -> list[str]:
        return self.tell(events.UndoFailed(node, self.undos.pop(node)))

    # -- the whole ---------------------------------------------------------------------------------------------------

    def cancel(self, *, undo: bool = False) -> list[str]:
        return self.tell(events.Cancel(undo))

    def play(self, expansions: dict[str, Graph] | None = None, most: int = 100_000) -> Drive:
        """Answer everything as well as can be until nothing is left to answer."""
        for _ in range(most):
            if not self.answer_one(expansions or {}):
                return self
        raise AssertionError(f"no end after {most} answers: {self.states()}")

    def answer_one(self, expansions: dict[str, Graph]) -> bool:
        if self.stopped:
            self.end(next(iter(self.stopped)))
        elif self.undos:
            self.undone(next(iter(self.undos)))
        elif self.rebuilding:
            node = next(iter(self.rebuilding))
            self.finish_rebuilding(node, expansions.get(node))
        elif self.saves:
            self.save(_part(*next(iter(self.saves))))
        elif self.running:
            node = next(iter(self.running))
            self.finish(node, graph=expansions.get(node))
        elif self.waits:
            self.elapse(next(iter(self.waits)))
        else:
            return False
        return True

    def reload(self, records: int | None = None, *, straggling: dict[str, int] | None = None, **settings) -> Drive:
        """Another driver after a crash that left this many records in the journal. It has not begun yet."""
        journal = self.journal[:records]
        kept = {name: value for name, value in self.settings.items() if name in ("validate", "on_failure")}
        late = tuple((straggling or {}).items())
        epoch = self.run.epoch + 1
        if "changed" in settings:
            settings["changed"] = dict.fromkeys(settings["changed"], "edited")
        run = Run.load(self.graph, journal, epoch=epoch, straggling=late, **kept, **settings)
        again = Drive(self.graph, run=run, journal=journal, **kept)
        again.stopped = {node: [attempt] for node, attempt in late}
        return again

    # -- what is true ------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return self.run.status

    @property
    def settled(self) -> set[str]:
        """Settled nodes; what the run has forgotten was settled."""
        return self._where("settled")

    @property
    def quiet(self) -> set[str]:
        return self._where("quiet")

    @property
    def reproducible(self) -> set[str]:
        return self._where("reproducible")

    def states(self) -> dict[str, str]:
        return {id: row.state for id, row in self.run.rows.items()}

    def _where(self, flag: str) -> set[str]:
        return {id for id in self.known if id not in self.run.rows or getattr(self.run.rows[id], flag)}

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def _note(self, answer: list[commands.Command]) -> list[str]:
        self.commands = answer
        if self.settings["validate"]:
            self.known.update(self.run.rows)
        for command in answer:
            match command:
                case commands.Append(record):
                    self.journal.append(record)
                case commands.Start(node, attempt, _, private):
                    self._note_attempt(node, attempt)
                    (self.rebuilding if private else self.running)[node] = attempt
                case commands.Undo(node, attempt):
                    self._note_attempt(node, attempt)
                    self.undos[node] = attempt
                case commands.Save(node, part, attempt):
                    self.saves[node, part] = attempt
                case commands.Wait(node, attempt):
                    self.waits[node] = attempt
                case commands.Stop(node, attempt):
                    for under_way in (self.running, self.rebuilding):
                        if under_way.get(node) == attempt:
                            del under_way[node]
                            self.stopped.setdefault(node, []).append(attempt)
                case commands.Drop(node):
                    for key in [key for key in self.saves if key[0] == node]:
                        del self.saves[key]
        return [tell(command) for command in answer]

    def _note_attempt(self, node: str, attempt: int) -> None:
        assert attempt >> 32 == self.run.epoch, "an attempt carries its epoch"
        assert attempt > self._last_attempt, "attempts are numbered in order"
        self._last_attempt = attempt
        self.attempts.setdefault(node, []).append(attempt)

    def _take_save(self, part: str) -> tuple[str, int, int]:
        node, _, index = part.partition(".")
        key = (node, int(index or 0))
        return *key, self.saves.pop(key)

    def _take_stopped(self, node: str) -> int:
        attempt = self.stopped[node].pop(0)
        if not self.stopped[node]:
            del self.stopped[node]
        return attempt


def begun(text: str, *completed: str, **settings) -> Drive:
    """A run of the graph in this text, in which these nodes are complete."""
    drive = Drive(graph(text), **settings)
    drive.begin()
    drive.complete(*completed)
    return drive
