"""From what the driver saw to the facts that `core.checks.definitions` judges.

After a crash only the committed journal speaks: a node was done if a part of it is saved, or if something that reads it
is saved or has begun; and what that read is its present output. The facts may know more than the engine that loads the
journal: what was in a nested graph that nobody saved is true even if it must be found out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onceflow.core.checks.definitions import Facts, Members, Shape, each
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from tests.tools.simulation.attempts import Attempt, nothing
from tests.tools.simulation.reading import Reading
from tests.tools.simulation.structure import Structure, structure_of


def facts_of(
    structure: Structure,
    reading: Reading,
    versions: Sequence[Attempt | None],
    memory: list[int],
    refs: Sequence[Mapping[int, RefPart]],
    running: Members = 0,
) -> Facts:
    """The members that are being recovered count as dropped already; their effects stay until they are undone. The
    lists have one element for each position of the shape."""
    shape = structure.shape
    dropping = members_of_recovery(structure, reading)
    present: dict[int, Mapping[int, RefPart]] = {}
    saved = [0] * len(memory)
    done = 0
    for x, member in enumerate(shape.members):
        if dropping >> x & 1:
            memory[x] = 0
            continue
        version = versions[x]
        if version is not None:
            done |= 1 << x
            if refs[x]:
                present[x] = refs[x]
        parts = reading.saved.get(member.id)
        if parts:
            saved[x] = _saved_parts(parts, version, bool(shape.repeatable >> x & 1))
    facts = Facts(shape, done, done, running=running, memory=memory, saved=saved, refs=present)
    facts.begun = _members_among(shape, reading.begun)
    facts.wrote = done & _members_among(shape, reading.wrote)
    facts.recorded = done & _members_among(shape, reading.recorded)
    ends = structure.ended_by(structure.ended) if structure.over else {}
    for node in structure.over:
        x = shape.position[node]
        if not dropping >> x & 1 and facts.saved[x] != facts.every_part(x):
            facts.saved[x] |= facts.every_part(x)
            if node not in structure.aside:  # who joins it learns that its graph has ended, however often
                facts.empty |= 1 << x
                version = versions[x]
                if version is not None and version.abandoned:
                    facts.given[x] = shape.position[ends[node]]
    return facts


def is_saved(
    structure: Structure, reading: Reading, node: str, version: Attempt | None, refs: Mapping[int, RefPart]
) -> bool:
    """What the facts say of one node, without all the others: whether its output is saved as a whole."""
    shape = structure.shape
    x = shape.position[node]
    if members_of_recovery(structure, reading) >> x & 1:
        return False
    if node in structure.over or (version is not None and node in reading.recorded):
        return True
    every_part = shape.every_part[x]
    if version is not None:
        for part in refs:
            every_part |= 1 << part
    return _saved_parts(reading.saved.get(node, {}), version, bool(shape.repeatable >> x & 1)) == every_part


def _saved_parts(parts: Mapping[int, Attempt], version: Attempt | None, repeatable: bool) -> int:
    """The saved parts of a node that belong to its present output."""
    found = 0
    for part, attempt in parts.items():
        if attempt is version or (repeatable and not attempt.handled):
            found |= 1 << part
    return found


def _members_among(shape: Shape, nodes: Iterable[str]) -> Members:
    """The members of the shape among these nodes."""
    found = 0
    for node in nodes:
        x = shape.position.get(node)
        if x is not None:
            found |= 1 << x
    return found


def members_of_recovery(structure: Structure, reading: Reading) -> Members:
    """What is being recovered. A record does not name the nodes of a graph that the journal does not know; they go with
    their expander if it may return another graph, or the same one to other inputs."""
    shape = structure.shape
    if not reading.recovering:
        return 0
    members = shape.set_of(reading.recovering & structure.nodes.keys())
    changing = members & ~shape.repeatable
    for x, member in enumerate(shape.members):
        if member.expander is not None and shape.ancestors[x] & changing and member.expander not in reading.graphs:
            members |= 1 << x
    return members


def what_a_crash_leaves(graph: Graph, reading: Reading) -> tuple[Structure, dict[str, Attempt | None]]:
    """The structure and the present outputs as far as the journal speaks of them. A nested graph that is not saved is
    still a fact if something made with it is."""
    graphs = reading.graphs
    handled: frozenset[str] = frozenset()
    ended: dict[str, str] = {}
    joins: dict[str, tuple[str, ...]] = {}
    while True:
        structure = structure_of(graph, graphs, handled, ended, joins)
        versions = deduce_versions(structure, reading, {})
        more = {
            id: version.graph
            for id, version in versions.items()
            if version is not None and version.graph is not None and id not in graphs
        }
        now = handled_of(versions)
        over = {sink: expander for sink, expander in reading.ended.items() if sink in structure.nodes}
        joined = joins_of(versions)
        if not more and (now, over, joined) == (handled, ended, joins):
            return structure, versions
        graphs, handled, ended, joins = {**graphs, **more}, now, over, joined


def handled_of(versions: Mapping[str, Attempt | None]) -> frozenset[str]:
    """The nodes whose present outputs handlers gave."""
    return frozenset([node for node, version in versions.items() if version is not None and version.handled])


def joins_of(versions: Mapping[str, Attempt | None]) -> dict[str, tuple[str, ...]]:
    """The nodes whose present outputs come of joining others → what they joined."""
    return {node: version.joined for node, version in versions.items() if version is not None and version.joined}


def deduce_versions(
    structure: Structure, reading: Reading, known: dict[str, Attempt | None]
) -> dict[str, Attempt | None]:
    """For each node the attempt whose output is its present one: `known`, or as far as the journal can tell."""
    versions = dict(known)
    shape = structure.shape
    ended = {sink: expander for sink, expander in reading.ended.items() if sink in structure.nodes}
    over = structure.ended_by(ended) if ended else {}
    for x in range(len(shape.members) - 1, -1, -1):
        node = shape.members[x].id
        if node in known:
            continue
        version = reading.recorded.get(node)
        saved = reading.saved.get(node)
        if version is None and saved:
            version = next(iter(saved.values()))
        is_torn = node in over and reading.is_saved_in_part(node)
        if is_torn and version is not None and (structure.nodes[node].aside or version.joined):
            version = None  # it was abandoned: such a one counts, and is settled, when it is saved as a whole
        if version is None:
            version = _read_by_consumers(shape, reading, versions, x)
        if version is None and node in over:
            version = nothing(node, structure.nodes[node], over[node])
        versions[node] = version
    return versions


def _read_by_consumers(
    shape: Shape, reading: Reading, versions: Mapping[str, Attempt | None], x: int
) -> Attempt | None:
    """The version of this member that something that is done or has begun has read."""
    for consumer in each(shape.consumers[x]):
        id = shape.members[consumer].id
        reader = versions[id]
        if reader is None or reader.abandoned:  # what was begun had read something all the same
            reader = reading.begun.get(id)
        if reader is not None:
            version = _read_by(reader, shape.members[x].id)
            if version is not None:
                return version
    return None


def _read_by(attempt: Attempt, node: str) -> Attempt | None:
    """The version of the node that an attempt read, directly or through the result of a graph nested in it."""
    seen: set[Attempt] = set()
    stack = [attempt]
    while stack:
        reader = stack.pop()
        if node in reader.versions:
            return reader.versions[node]
        if reader not in seen:  # else there are many ways to it, and none of them leads to the node
            seen.add(reader)
            stack.extend(reversed(list(reader.versions.values())))
    return None
