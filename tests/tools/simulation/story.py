"""The story of one schedule: numbered steps, and the graph drawn as text. Told only when something went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onceflow.core.model.graph import Graph, Node


@dataclass(slots=True)
class Story:
    """What happened, in order. Entries are kept as they are and turned into text only when somebody asks."""

    entries: list[tuple[str, object]] = field(default_factory=list)

    def tell(self, kind: str, what: object) -> None:
        """Adds one entry."""
        self.entries.append((kind, what))

    def text(self) -> str:
        """One line for each entry; the answers of the run are indented below the step that they answer."""
        lines = []
        step = 0
        for kind, what in self.entries:
            if kind == "command":
                lines.append(f"          → {_shorten(what)}")
            else:
                step += 1
                lines.append(f"  {step:4}  {kind}{'' if what is None else ' '}{'' if what is None else _shorten(what)}")
        return "\n".join(lines)


def _shorten(what: object) -> str:
    return repr(what).replace("Append(record=", "Append(").replace(", durable=False", "").replace(", private=False", "")


def draw(graph: Graph, indent: str = "  ") -> str:
    """One line for each node: id, options, what it reads, and the graphs it may return below it."""
    return "\n".join(_draw(graph, indent))


def _draw(graph: Graph, indent: str) -> Iterator[str]:
    width = max(len(node.id) for node in graph.nodes)
    for position, node in enumerate(graph.nodes):
        taken = {edge for edge, _ in node.takes}
        reads = ", ".join(
            f"{'takes ' * (edge in taken)}{_edge(graph.nodes[parent], parts)}"
            for edge, (parent, parts) in enumerate(node.edges)
        )
        mark = "result" if position == graph.sink else ""
        yield f"{indent}{node.id:{width}}  {_options(node):48} {'← ' if reads else ''}{reads} {mark}".rstrip()
        for number, nested in enumerate(node.call or ()):
            if nested is None:
                yield f"{indent}    may return a plain value"
            else:
                yield f"{indent}    may return graph {number}:"
                yield from _draw(nested, indent + "      ")


def _options(node: Node) -> str:
    options = node.options
    words = [
        options.effect if options.effect != "none" else "no effect",
        "deterministic" if options.deterministic else "nondeterministic",
        "saved" if options.checkpoint else "unsaved",
    ]
    if node.parts > 1:
        words.append(f"{node.parts} parts")
    if options.retries:
        words.append(f"{options.retries} retries")
    return ", ".join(words)


def _edge(parent: Node, parts: int) -> str:
    if not parts:
        return f"after {parent.id}"
    if parts == parent.every_part:
        return parent.id
    return f"{parent.id}{[part for part in range(parent.parts) if parts >> part & 1]}"
