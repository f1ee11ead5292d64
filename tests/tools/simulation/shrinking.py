"""Makes what was found small: fewer steps, fewer nodes, duller options, as long as the same rule is broken; and writes
it down as a test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from onceflow.core.checks.check import check
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node
from onceflow.errors import InvalidGraph, UnsafeGraph
from tests.tools.simulation.bulk import RULES, Rule, Settings, simulation_of
from tests.tools.simulation.driver import OnFailure
from tests.tools.simulation.notation import write
from tests.tools.simulation.script import Recorder, play_script
from tests.tools.simulation.world import Violation


@dataclass(frozen=True, slots=True)
class Find:
    """A schedule that breaks the law."""

    graph: Graph
    script: tuple[str, ...]
    on_failure: OnFailure
    reason: str
    """What is broken."""
    rule: Rule = "right"
    validate: bool = False

    def as_test(self, name: str = "it_is_as_the_law_says") -> str:
        """The source of a test that plays it."""
        lines = "\n".join(f"        {line}" for line in self.script)
        undo = '        on_failure="undo",\n' if self.on_failure == "undo" else ""
        return (
            f"def test_{name}():\n"
            f'    """{self.reason}"""\n'
            f"    play_script(\n        {write(self.graph)},\n"
            f'        """\n{lines}\n        """,\n{undo}    )\n'
        )


def kind_of(reason: str) -> str:
    """The reason without names and numbers."""
    last = reason.strip().splitlines()[-1]
    plain = re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]|'[^']*'|\S*[#/\d]\S*", "…", last)
    return re.sub(r"\b[a-z]\b(?!\w)", "…", plain)


def record(seed: int, settings: Settings) -> Find | None:
    """What the schedule of a seed that breaks the law is as a script; None if that comes to something else, because a
    script does not know of everything (of events that arrive a second time, say)."""
    simulation = simulation_of(seed, settings, Recorder)
    try:
        simulation.run()
    except Exception as error:
        reason = _tell(error)
    else:
        return None
    driver = simulation.driver
    assert isinstance(driver, Recorder)
    find = Find(driver.graph, tuple(driver.script), driver.on_failure, reason, settings.rule, settings.validate)
    again = what_breaks(find)
    return find if again is not None and kind_of(again) == kind_of(reason) else None


def what_breaks(find: Find) -> str | None:
    """What a script comes to: the reason why it breaks the law, or None."""
    try:
        play_script(
            find.graph,
            find.script,
            on_failure=find.on_failure,
            run_class=RULES[find.rule],
            validate=find.validate,
            letter=find.rule == "right",
        )
    except Exception as error:
        return _tell(error)
    return None


def _tell(error: Exception) -> str:
    return str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"


def shrink(find: Find, *, most: int = 20_000) -> Find:
    """The smallest one that was found by leaving out and simplifying, one thing after the other."""
    kind = kind_of(find.reason)
    tries = 0

    def breaks(graph: Graph, script: tuple[str, ...], on_failure: OnFailure) -> str | None:
        nonlocal tries
        tries += 1
        if tries > most:
            return None
        reason = what_breaks(replace(find, graph=graph, script=script, on_failure=on_failure))
        return reason if reason is not None and kind_of(reason) == kind else None

    while True:
        before = find
        find = _fewer_steps(find, breaks)
        find = _simpler_graph(find, breaks)
        if find.on_failure == "undo":
            reason = breaks(find.graph, find.script, "keep")
            if reason:
                find = replace(find, on_failure="keep", reason=reason)
        if find == before or tries > most:
            return find


Breaks = Callable[[Graph, tuple[str, ...], OnFailure], str | None]


def _fewer_steps(find: Find, breaks: Breaks) -> Find:
    size = max(1, len(find.script) // 2)
    while True:
        place = 0
        while place < len(find.script):
            script = find.script[:place] + find.script[place + size :]
            reason = breaks(find.graph, script, find.on_failure)
            if reason:
                find = replace(find, script=script, reason=reason)
            else:
                place += size
        if size == 1:
            break
        size //= 2
    for place, line in enumerate(find.script):
        for shorter in _shorter(line):
            script = (*find.script[:place], shorter, *find.script[place + 1 :])
            reason = breaks(find.graph, script, find.on_failure)
            if reason:
                find = replace(find, script=script, reason=reason)
                break
    return find


def _shorter(line: str) -> Iterator[str]:
    """The same step with less detail."""
    words = line.split()
    for place in range(len(words) - 1, 1, -1):
        yield " ".join(words[:place])
    for place in range(2, len(words)):
        yield " ".join(words[:place] + words[place + 1 :])
    if words[0] == "lose" and len(words) > 2:
        yield " ".join(["lose", *words[2:]])


def _simpler_graph(find: Find, breaks: Breaks) -> Find:
    improved = True
    while improved:
        improved = False
        for graph in _simpler(find.graph):
            reason = breaks(graph, find.script, find.on_failure)
            if reason:
                find = replace(find, graph=graph, reason=reason)
                improved = True
                break
    return find


def _simpler(graph: Graph, nested: bool = False) -> Iterator[Graph]:
    for changed in _changed(graph):
        try:
            made = changed()
            if not nested:
                check(made)
        except (InvalidGraph, UnsafeGraph):
            continue
        yield made


def _changed(graph: Graph) -> Iterator[Callable[[], Graph]]:
    for position in range(len(graph.nodes)):
        if position != graph.sink:
            yield lambda position=position: _without(graph, position)  # type: ignore[misc]
    for position, node in enumerate(graph.nodes):
        for simpler in _simpler_nodes(node):
            yield lambda position=position, simpler=simpler: _with(graph, position, simpler)  # type: ignore[misc]


def _with(graph: Graph, position: int, node: Node) -> Graph:
    return Graph([node if n == position else each for n, each in enumerate(graph.nodes)], graph.sink)


def _without(graph: Graph, gone: int) -> Graph:
    """What nobody reads any more is read by the sink, as if that only waited for it."""

    def place(old: int) -> int:
        return old - (old > gone)

    nodes = []
    for position, node in enumerate(graph.nodes):
        if position == gone:
            continue
        kept = [(edge, parent, mask) for edge, (parent, mask) in enumerate(node.edges) if parent != gone]
        numbers = {edge: number for number, (edge, _, _) in enumerate(kept)}
        edges = [(place(parent), mask) for _, parent, mask in kept]
        if position == graph.sink:
            alone = [
                parent
                for parent, _ in graph.nodes[gone].edges
                if not graph.nodes[parent].aside
                and not any(p == parent for n, other in enumerate(graph.nodes) if n != gone for p, _ in other.edges)
            ]
            edges += [(place(parent), 1) for parent in alone]
        takes = tuple([(numbers[edge], mask) for edge, mask in node.takes if edge in numbers])
        nodes.append(msgspec.structs.replace(node, edges=tuple(edges), takes=takes))
    return Graph(nodes, place(graph.sink))


def _simpler_nodes(node: Node) -> Iterator[Node]:
    def changed(**fields: object) -> Node:
        return msgspec.structs.replace(node, **fields)

    def with_options(**fields: object) -> Node:
        return changed(options=msgspec.structs.replace(node.options, **fields))

    options: Options = node.options
    if node.call:
        yield changed(call=None, options=msgspec.structs.replace(options, transaction=False, guards=False))
        if len(node.call) > 1:
            for alternative in node.call:
                yield changed(call=(alternative,))
        for place, alternative in enumerate(node.call):
            if alternative is not None:
                for simpler in _simpler(alternative, nested=True):
                    yield changed(call=(*node.call[:place], simpler, *node.call[place + 1 :]))
    if node.takes:
        yield changed(takes=())
    if node.turn is not None:
        yield changed(turn=None)
        if node.turn.opens:
            yield changed(turn=msgspec.structs.replace(node.turn, opens=False))
    if node.admission is not None:
        yield changed(admission=None)
        if node.admission:
            yield changed(admission="")
    if options.guards:
        yield with_options(guards=False)
    if options.transaction:
        yield with_options(transaction=False)
    if options.writes:
        yield with_options(writes=False)
    if options.effect != "none":
        yield with_options(effect="none")
    if options.retries:
        yield with_options(retries=0)
    if options.deterministic and options.checkpoint:
        yield with_options(deterministic=False)
    if not options.checkpoint:
        yield with_options(checkpoint=True)
    for edge, (parent, mask) in enumerate(node.edges):
        if len(node.edges) > 1 and not node.takes:
            yield changed(edges=(*node.edges[:edge], *node.edges[edge + 1 :]))
        if mask == 0:
            yield changed(edges=(*node.edges[:edge], (parent, 1), *node.edges[edge + 1 :]))
