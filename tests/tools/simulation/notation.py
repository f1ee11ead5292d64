"""Graphs as text, one line for each node: short enough for a test, and what the simulation prints when it has found
something.

`graph("a loose; s kept a; n default s")` is three nodes: each stands as `id kind reads…`. The kinds:

    pure      no effect, deterministic, not saved          undoable  can be undone, nondeterministic, saved
    kept      no effect, nondeterministic, saved           default   irrevocable, nondeterministic, saved
    loose     no effect, nondeterministic, not saved       writer    kept, and writes task variables

A kind may be followed by `saved`, `unsaved`, `deterministic`, `writing`, `transaction`, `guarding`, `retries=2`,
`parts=2`, joined with commas; by `asks` for nodes that ask before they start (if the sink does, all that has an effect
does, too; with `asks=7` some of it has a place at once), by `aside` for those that nothing leads from to the sink, and
by `turn=3`, `opens` and `limit=2` for nodes that take turns. `a.1` reads one part of `a`, `a` all of them, `after:a`
none: a control-only edge. `takes:a` reads all, and takes the actors in it; `takes:a.1` one part.

`returning={"b": (inner, None)}` names the graphs that a task may return, None for a plain value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node, Turn
from onceflow.core.model.refs import RefPart

KINDS = {
    "pure": Options(checkpoint=False, deterministic=True, effect="none"),
    "kept": Options(effect="none"),
    "loose": Options(checkpoint=False, effect="none"),
    "undoable": Options(effect="undoable"),
    "default": Options(),
    "writer": Options(effect="none", writes=True),
}
CHANGES: dict[str, dict[str, bool]] = {
    "saved": {"checkpoint": True},
    "unsaved": {"checkpoint": False},
    "deterministic": {"deterministic": True},
    "transaction": {"transaction": True},
    "guarding": {"guards": True},
    "writing": {"writes": True},
}

Returning = Mapping[str, Sequence[Graph | None]]


def graph(text: str, sink: str | None = None, returning: Returning | None = None) -> Graph:
    """The graph that a text describes."""
    nodes: list[Node] = []
    position: dict[str, int] = {}
    for line in filter(None, map(str.strip, text.replace("\n", ";").split(";"))):
        id, kind, *reads = line.split()
        node = _of_kind(id, kind)
        edges: dict[int, int] = {}
        takes: list[tuple[int, int]] = []
        for read in reads:
            parent, _, part = read.removeprefix("after:").removeprefix("takes:").partition(".")
            mask = 0 if read.startswith("after:") else 1 << int(part) if part else nodes[position[parent]].every_part
            edges[position[parent]] = edges.get(position[parent], 0) | mask
            if read.startswith("takes:"):
                takes.append((list(edges).index(position[parent]), mask))
        position[id] = len(nodes)
        alternatives = tuple(returning[id]) if returning and id in returning else None
        nodes.append(msgspec.structs.replace(node, edges=tuple(edges.items()), takes=tuple(takes), call=alternatives))
    return Graph(nodes, None if sink is None else position[sink])


def _of_kind(id: str, kind: str) -> Node:
    kind, *changes = kind.split(",")
    options, parts, admission, aside = KINDS[kind], 1, None, False
    order, opens, limit = None, False, 0
    for change in changes:
        name, _, value = change.partition("=")
        match name:
            case "parts":
                parts = int(value)
            case "turn":
                order = int(value)
            case "limit":
                limit = int(value)
            case "retries":
                options = msgspec.structs.replace(options, retries=int(value))
            case "asks":
                admission = value
            case "aside":
                aside = True
            case "opens":
                opens = True
            case _:
                options = msgspec.structs.replace(options, **CHANGES[name])
    turn = None if order is None else Turn(order, opens, limit)
    return Node(id=id, task=id, options=options, parts=parts, turn=turn, admission=admission, aside=aside)


def refs(text: str) -> tuple[RefPart, ...]:
    """`refs("new a.1 b@1")` are three refs in an output: one that the attempt made, one that came in as part 1 of `a`,
    and the output of `b` by reference; the last one is in part 1 of the output, the others in part 0. `actor` is a
    version of an actor, which the attempt made."""
    found = []
    for word in text.split():
        what, _, holders = word.partition("@")
        node, _, part = what.partition(".")
        origin = None if what in ("new", "actor") else (node, int(part or 0))
        found.append(RefPart(sum(1 << int(holder) for holder in holders or "0"), origin, what == "actor"))
    return tuple(found)


def write_refs(told: Sequence[RefPart]) -> str:
    """The text for these refs."""
    words = []
    for ref in told:
        what = ("actor" if ref.actor else "new") if ref.origin is None else f"{ref.origin[0]}.{ref.origin[1]}"
        holders = "".join(str(part) for part in range(ref.holders.bit_length()) if ref.holders >> part & 1)
        words.append(what if holders == "0" else f"{what}@{holders}")
    return " ".join(words)


def write(told: Graph) -> str:
    """The call of `graph` that makes this one."""
    words = [f'"{"; ".join(_lines(told))}"']
    if told.sink != len(told.nodes) - 1:
        words.append(f'sink="{told.nodes[told.sink].id}"')
    returning = [
        f'"{node.id}": [{", ".join("None" if inner is None else write(inner) for inner in node.call)}]'
        for node in told.nodes
        if node.call
    ]
    if returning:
        words.append(f"returning={{{', '.join(returning)}}}")
    return f"graph({', '.join(words)})"


def _lines(told: Graph) -> list[str]:
    return [" ".join([node.id, _kind(node), *_reads(told, node)]) for node in told.nodes]


def _kind(node: Node) -> str:
    def differences(name: str) -> list[str] | None:
        options = msgspec.structs.replace(KINDS[name], retries=node.options.retries)
        words = []
        for word, change in CHANGES.items():
            changed = msgspec.structs.replace(options, **change)
            wanted = all(getattr(node.options, field) == value for field, value in change.items())
            if changed != options and wanted:
                options = changed
                words.append(word)
        return words if options == node.options else None

    found = {name: words for name in KINDS if (words := differences(name)) is not None}
    name = min(found, key=lambda name: len(found[name]))
    words = [name, *found[name]]
    words += [f"retries={node.options.retries}"] * bool(node.options.retries)
    words += [f"parts={node.parts}"] * (node.parts > 1)
    if node.admission is not None:
        words.append(f"asks={node.admission}" if node.admission else "asks")
    words += ["aside"] * node.aside
    if node.turn is not None:
        words += [f"turn={node.turn.order}"] + ["opens"] * node.turn.opens
        words += [f"limit={node.turn.limit}"] * bool(node.turn.limit)
    return ",".join(words)


def _reads(told: Graph, node: Node) -> list[str]:
    taken = dict(node.takes)
    words = []
    for edge, (parent, mask) in enumerate(node.edges):
        giver = told.nodes[parent]
        if not mask:
            words.append(f"after:{giver.id}")
        elif mask == giver.every_part and taken.get(edge, mask) == mask:
            words.append(f"takes:{giver.id}" if edge in taken else giver.id)
        else:
            words += [
                f"{'takes:' * (taken.get(edge, 0) >> part & 1)}{giver.id}.{part}"
                for part in range(mask.bit_length())
                if mask >> part & 1
            ]
    return words
