"""Random graphs that are worth running: small, mixed, with many shared consumers, and safe.

A task that may return graphs (an expander) has them in `Node.call`: a tuple of alternatives, None for a plain value.
The choices come from anything like `random.Random`.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec

from onceflow.core.checks.check import check
from onceflow.core.model.effects import Effect, Options
from onceflow.core.model.graph import Edge, Graph, Node, Turn
from onceflow.errors import UnsafeGraph

EFFECTS: tuple[Effect, ...] = ("none", "none", "undoable", "irrevocable")
DEEPEST = 2
"""How deep expanders nest."""
HIGHEST = 3
"""How deep they do in towers, and forks in forks."""


@dataclass(frozen=True, slots=True)
class Taste:
    """How often the nodes of one graph have what. Graphs that are each rich in a few things meet more corners than
    graphs that all have a little of everything."""

    effects: tuple[Effect, ...] = EFFECTS
    saved: float = 0.5
    deterministic: float = 0.5
    writes: float = 0.15
    expands: float = 0.12
    """Of the nodes of the graph itself; of those of returned graphs somewhat more."""
    guards: float = 0.2
    transactions: float = 0.4
    loops: float = 0.4
    """Of the graphs that are returned."""


EVEN = Taste()
REAL = Taste(
    effects=("none", "none", "none", "undoable", "irrevocable", "irrevocable"),
    saved=0.75,
    deterministic=0.35,
    writes=0.1,
    expands=0.3,
    guards=0.3,
    transactions=0.2,
)
"""As people use it: most tasks are saved, many have an effect, many return graphs."""


def _some_taste(random: Random) -> Taste:
    if random.random() < 0.5:
        return REAL if random.random() < 0.5 else EVEN
    effects: tuple[tuple[Effect, ...], ...] = (
        EFFECTS,
        ("none",),
        ("none", "undoable"),
        ("none", "irrevocable"),
        ("none", "none", "none", *EFFECTS),
    )
    return Taste(
        effects=random.choice(effects),
        saved=random.choice((0.2, 0.5, 0.8, 1.0)),
        deterministic=random.choice((0.1, 0.5, 0.9)),
        writes=random.choice((0.0, 0.15, 0.4)),
        expands=random.choice((0.1, 0.3, 0.6)),
        guards=random.choice((0.0, 0.2, 0.8)),
        transactions=random.choice((0.0, 0.4, 0.9)),
        loops=random.choice((0.1, 0.5)),
    )


def random_graph(
    random: Random,
    largest: int = 8,
    *,
    relays: bool = False,
    actors: bool = False,
    queues: bool = False,
    forks: bool = False,
    nested: bool = False,
) -> Graph:
    """A safe graph of two nodes or more. `relays`: among them some through which refs go a long way. `actors`: many
    tasks take for themselves what they read. `queues`: many ask before they start. `forks`: many of the graphs that
    tasks return have nodes that stand aside. `nested`: there are actors and deep graphs also in graphs that tasks
    return."""
    taste = _some_taste(random)
    graph = _of_some_kind(random, taste, largest, relays, nested)
    if forks:
        graph = _with_forks(random, taste, graph)
    if actors:
        graph = _with_takers(random, graph, random.choice((0.2, 0.5, 0.9)), nested)
    if queues:
        graph = _with_queues(random, graph)
    return make_safe(graph)


def _of_some_kind(random: Random, taste: Taste, largest: int, relays: bool, nested: bool) -> Graph:
    if relays and random.random() < 0.3:
        return _relay_graph(random, taste)
    if nested and random.random() < 0.35:
        return _tower_graph(random, taste)
    if random.random() < 0.2:
        return _layered_graph(random, taste)
    if random.random() < 0.1:
        return _shared_graph(random)
    if random.random() < 0.15:
        return _group_graph(random, taste)
    return _random_graph(random, taste, 2 + random.randrange(largest - 1), 0, plain=False)


def _with_takers(random: Random, graph: Graph, rate: float, nested: bool) -> Graph:
    """The same, in which tasks take what they read. What is forked takes nothing: a fiber has no actors to pass on."""
    nodes: list[Node] = []
    forked = {parent for node in graph.nodes if node.aside for parent, _ in node.edges}
    for place, node in enumerate(graph.nodes):
        takes = [
            (edge, mask)
            for edge, (_, mask) in enumerate(node.edges)
            if mask and not (node.aside or place in forked) and random.random() < rate
        ]
        alternatives = node.call
        if nested and alternatives:
            alternatives = tuple([inner and _with_takers(random, inner, rate, nested) for inner in alternatives])
        nodes.append(msgspec.structs.replace(node, takes=tuple(takes), call=alternatives))
    return Graph(nodes, graph.sink)


def _with_queues(random: Random, graph: Graph) -> Graph:
    """The same, in which many nodes ask before they start, also in the graphs that tasks may return."""
    nodes: list[Node] = []
    for node in graph.nodes:
        admission = random.choice(("", str(random.randrange(1000)))) if random.random() < 0.4 else None
        alternatives = node.call and tuple([nested and _with_queues(random, nested) for nested in node.call])
        nodes.append(msgspec.structs.replace(node, admission=admission, call=alternatives))
    return Graph(nodes, graph.sink)


def _with_forks(random: Random, taste: Taste, graph: Graph, nested: bool = False, depth: int = 0) -> Graph:
    """The same, in which many graphs that tasks may return have nodes that stand aside. `nested`: this one, too."""
    nodes = [
        _with_forks_inside(random, taste, node, node is graph.nodes[graph.sink] and not nested, depth)
        for node in graph.nodes
    ]
    forks = random.randrange(3) if nested else 0
    for number in range(forks):
        parents = [place for place in range(len(graph.nodes)) if place != graph.sink and random.random() < 0.3]
        edges = tuple([_edge(random, nodes, parent) for parent in parents])
        nodes += _fork(random, taste, number, len(nodes), edges, depth)
    made = Graph(nodes, graph.sink)
    return make_safe(made) if forks else made


def _with_forks_inside(random: Random, taste: Taste, node: Node, is_result: bool, depth: int) -> Node:
    if not node.call:
        return node
    if node.options.transaction and random.random() < 0.97:  # nothing may stand aside in it: else it is refused
        if random.random() < 0.5:
            return node
        node = msgspec.structs.replace(node, options=msgspec.structs.replace(node.options, transaction=False))
    saved = node.options.checkpoint or is_result
    alternatives = [inner and _with_forks(random, taste, inner, saved, depth + 1) for inner in node.call]
    return msgspec.structs.replace(node, call=tuple(alternatives))


def _fork(random: Random, taste: Taste, number: int, place: int, edges: tuple[Edge, ...], depth: int) -> list[Node]:
    """A task that may be anything, also one that forks, and its outcome, which stands aside; sometimes what stands
    aside has none."""
    name = f"fork{number}"
    options = Options(effect="none", deterministic=random.random() < 0.3, retries=random.choice((0, 1)))
    if random.random() < 0.2:
        return [Node(id=name, task=name, options=options, edges=edges, aside=True)]
    name_of_child = f"child{number}"
    if depth < HIGHEST and random.random() < 0.3:
        child = _storey_below(random, taste, name_of_child, edges, depth + 1)
    else:
        child = _node(random, taste, 0, edges, False, DEEPEST - 1, last=True)
        child = msgspec.structs.replace(child, id=name_of_child, task=name_of_child)
    child = _with_forks_inside(random, taste, child, is_result=False, depth=depth)
    return [child, Node(id=name, task=name, options=options, edges=((place, child.every_part),), aside=True)]


def make_safe(graph: Graph) -> Graph:
    """Saves what the check proposes until it has nothing to say."""
    while True:
        try:
            check(graph)
        except UnsafeGraph as unsafe:
            graph = graph.with_checkpoints({task for tasks in unsafe.proposals.values() for task in tasks})
        else:
            return graph


def _random_graph(random: Random, taste: Taste, size: int, depth: int, plain: bool) -> Graph:
    """`plain`: only tasks without effect that are not saved."""
    nodes: list[Node] = []
    unread: set[int] = set()
    shape = random.choice(("mixed", "mixed", "shared", "chain", "fan"))
    for position in range(size):
        parents = _parents(random, shape, nodes, position == size - 1, unread)
        unread -= parents
        unread.add(position)
        edges = tuple(_edge(random, nodes, parent) for parent in sorted(parents))
        nodes.append(_node(random, taste, position, edges, plain, depth, last=position == size - 1))
    return Graph(nodes)


def _layered_graph(random: Random, taste: Taste) -> Graph:
    """Unsaved sources, readers that share them, effects below: what one reader loses, another one needs."""
    sources, readers, effects = 2 + random.randrange(2), 2 + random.randrange(3), 1 + random.randrange(2)
    nodes: list[Node] = []
    for position in range(sources + readers + effects + 1):
        last = position == sources + readers + effects
        unsaved = position < sources
        if unsaved:
            parents: set[int] = set()
        elif position < sources + readers:
            parents = {random.randrange(sources) for _ in range(1 + random.randrange(2))}
        elif not last:
            parents = {sources + random.randrange(readers)}
        else:
            parents = set(range(position)) - {parent for node in nodes for parent, _ in node.edges}
        node = _node(
            random, taste, position, tuple((parent, 1) for parent in sorted(parents)), False, DEEPEST, last=True
        )
        if position < sources + readers and random.random() < 0.8:
            usual = Options(checkpoint=not unsaved, deterministic=False, effect="none", retries=1)
            node = msgspec.structs.replace(node, options=usual)
        nodes.append(node)
    return Graph(nodes)


def _shared_graph(random: Random) -> Graph:
    """Something irrevocable and something undoable below one task that could not be made again, each on a side of its
    own: what the irrevocable one stands on goes down the other side, and up again."""
    kinds = {
        "loose": Options(checkpoint=False, effect="none", retries=1),
        "kept": Options(effect="none", retries=1),
        "undoable": Options(effect="undoable", retries=1),
        "irrevocable": Options(retries=1),
    }
    nodes: list[Node] = []

    def add(kind: str, *parents: int) -> int:
        name = "abcdefghijkl"[len(nodes)]
        edges = tuple((parent, 1) for parent in sorted(set(parents)))
        nodes.append(Node(id=name, task=name, options=kinds[kind], edges=edges))
        return len(nodes) - 1

    shared = above = add("loose")
    for _ in range(random.choice((1, 1, 2))):
        above = add(random.choice(("kept", "kept", "loose")), above)
    add("irrevocable", above)
    above = shared
    for _ in range(random.choice((1, 2, 2, 3))):
        parents = [above]
        if random.random() < 0.5:
            parents.append(add(random.choice(("undoable", "undoable", "loose", "kept"))))
        if random.random() < 0.2:
            parents.append(random.randrange(len(nodes)))
        above = add(random.choice(("kept", "loose", "undoable")), *parents)
    add(random.choice(("kept", "irrevocable")), *{*range(len(nodes))}.difference(p for n in nodes for p, _ in n.edges))
    return Graph(nodes)


def _group_graph(random: Random, taste: Taste) -> Graph:
    """A transaction, perhaps with others in it, between tasks that it does not concern."""
    usual = Options(effect="none", deterministic=random.random() < 0.5, retries=0)
    before = _node(random, taste, 0, (), False, DEEPEST, last=True)
    inside = _random_graph(random, taste, 3 + random.randrange(3), 1, plain=False)
    nodes = [
        msgspec.structs.replace(node, options=msgspec.structs.replace(node.options, effect="undoable", writes=False))
        if random.random() < 0.5
        else node
        for node in inside.nodes
    ]
    group = Node(
        id="b",
        task="b",
        options=msgspec.structs.replace(usual, transaction=True, guards=random.random() < 0.5),
        edges=((0, 1),),
        call=(make_safe(Graph(nodes)),),
    )
    return Graph([before, group, _node(random, taste, 2, ((1, 1),), False, DEEPEST, last=True)])


def _tower_graph(random: Random, taste: Taste) -> Graph:
    """Few tasks, in graphs that are nested deep: whatever happens concerns graphs around it, and graphs in it."""
    return _storey(random, taste, 0)


def _storey(random: Random, taste: Taste, depth: int) -> Graph:
    """A graph of a tower: a chain of up to three tasks, of which one returns the next graph."""
    size = random.choice((2, 3)) if depth == 0 else random.choice((1, 2, 2, 3))
    below = random.randrange(size)
    nodes: list[Node] = []
    for position in range(size):
        edges: tuple[Edge, ...] = ((position - 1, 1),) if position else ()
        if position == below and depth < HIGHEST:
            nodes.append(_storey_below(random, taste, "abc"[position], edges, depth))
        else:
            nodes.append(_node(random, taste, position, edges, False, DEEPEST, last=True))
    return Graph(nodes)


def _storey_below(random: Random, taste: Taste, name: str, edges: tuple[Edge, ...], depth: int) -> Node:
    """A task that returns the next graph of a tower."""
    options = Options(
        checkpoint=True,
        deterministic=random.random() < taste.deterministic,
        effect="none",
        retries=random.choice((0, 1)),
        guards=random.random() < 0.4,
        transaction=random.random() < 0.5,
    )
    graphs = [make_safe(_storey(random, taste, depth + 1)) for _ in range(random.choice((1, 1, 2)))]
    return Node(id=name, task=name, options=options, edges=edges, call=tuple(graphs))


def _relay_graph(random: Random, taste: Taste) -> Graph:
    """Unsaved tasks, mostly deterministic, from whose outputs tasks below take what they hand on; readers all the way
    down, and some effects."""
    makers, relays, readers = 1 + random.randrange(2), 2 + random.randrange(3), 1 + random.randrange(3)
    nodes: list[Node] = []
    for position in range(makers + relays + readers + 1):
        last = position == makers + relays + readers
        if position < makers:
            parents: set[int] = set()
        elif position < makers + relays:
            parents = {position - 1 if position > makers else random.randrange(makers)}
            parents |= {random.randrange(position)} if random.random() < 0.3 else set()
        elif not last:
            parents = {random.randrange(makers + relays)}
        else:
            parents = set(range(position)) - {parent for node in nodes for parent, _ in node.edges}
        edges = tuple((parent, nodes[parent].every_part) for parent in sorted(parents))
        depth = 0 if makers <= position < makers + relays and random.random() < 0.4 else DEEPEST
        node = _node(random, taste, position, edges, False, depth, last=last)
        if position < makers and random.random() < 0.8:
            usual = Options(checkpoint=False, deterministic=random.random() < 0.8, effect="none", retries=1)
            node = msgspec.structs.replace(node, options=usual)
        elif position < makers + relays and random.random() < 0.6:
            node = msgspec.structs.replace(node, options=msgspec.structs.replace(node.options, effect="none"))
        nodes.append(node)
    return Graph(nodes)


def _parents(random: Random, shape: str, nodes: list[Node], last: bool, unread: set[int]) -> set[int]:
    if not nodes:
        return set()
    if last:
        return set(unread)
    count = len(nodes)
    if shape == "chain":
        return {count - 1}
    if shape == "fan":
        return {0}
    if shape == "shared" and count > 1:
        # reads what an earlier node reads, and something else
        earlier = nodes[1 + random.randrange(count - 1)]
        shared = {parent for parent, _ in earlier.edges}
        return shared | ({random.randrange(count)} if random.random() < 0.4 else set())
    if random.random() < 0.2:
        return set()
    return {random.randrange(count) for _ in range(1 + random.randrange(min(3, count)))}


def _edge(random: Random, nodes: list[Node], parent: int) -> Edge:
    every = nodes[parent].every_part
    if random.random() < 0.12:
        return (parent, 0)
    if every == 1 or random.random() < 0.5:
        return (parent, every)
    return (parent, 1 << random.randrange(nodes[parent].parts))


def _node(
    random: Random, taste: Taste, position: int, edges: tuple[Edge, ...], plain: bool, depth: int, last: bool
) -> Node:
    effect: Effect = "none" if plain else random.choice(taste.effects)
    writes = not plain and effect != "undoable" and random.random() < taste.writes
    options = Options(
        checkpoint=writes or (not plain and random.random() < taste.saved),
        deterministic=random.random() < taste.deterministic,
        effect=effect,
        retries=random.choice((0, 1, 1, 2)),
        writes=writes,
    )
    expands = depth < DEEPEST and random.random() < taste.expands * (1 if depth == 0 else 1.5)
    parts = 1 if expands or last or random.random() < 0.75 else 2
    name = "abcdefghijkl"[position]
    node = Node(id=name, task=name, options=options, edges=edges, parts=parts)
    if not expands:
        return node
    saved = options.checkpoint or (last and depth == 0)
    alternatives = tuple(
        _alternative(random, taste, depth + 1, plain or not saved) for _ in range(1 + random.randrange(2))
    )
    guards, transaction = random.random() < taste.guards, random.random() < taste.transactions
    options = msgspec.structs.replace(options, guards=guards, transaction=transaction)
    node = msgspec.structs.replace(node, call=alternatives, options=options)
    return _in_two_parts(node) if not last and random.random() < 0.2 else node


def _in_two_parts(node: Node) -> Node:
    """The same with two parts, and so are the results of the graphs that it may return."""
    alternatives = node.call and tuple(
        [
            graph and Graph([*graph.nodes[:-1], _in_two_parts(graph.nodes[-1])])
            if graph is None or graph.sink == len(graph.nodes) - 1
            else graph
            for graph in node.call
        ]
    )
    return msgspec.structs.replace(node, parts=2, call=alternatives)


def _alternative(random: Random, taste: Taste, depth: int, plain: bool) -> Graph | None:
    """A graph that an expander may return. Few are illegal; one that is refused ends the run early."""
    if random.random() < 0.15:
        return None
    if random.random() < 0.03:
        return _random_graph(random, taste, 1 + random.randrange(3), depth, plain=False)
    graph = (
        _loop_graph(random, taste, depth, plain, begins=True)
        if random.random() < taste.loops
        else _random_graph(random, taste, 1 + random.randrange(3), depth, plain)
    )
    return graph if plain else make_safe(graph)


def _loop_graph(random: Random, taste: Taste, depth: int, plain: bool, *, begins: bool) -> Graph:
    """Nodes that take turns, and one that reads them all. Some of them return graphs: more of the same group, or
    others. `begins`: it is the first graph of its group."""
    limit = 1 + random.randrange(3) if begins else 0
    nodes: list[Node] = []
    for position in range(1 + random.randrange(4)):
        node = _node(random, taste, position, (), plain, depth, last=True)
        turn = Turn(random.randrange(4), opens=random.random() < 0.3, limit=limit)
        if depth < DEEPEST and random.random() < 0.3:
            unsaved = plain or not node.options.checkpoint
            more = _loop_graph(random, taste, depth + 1, unsaved, begins=False)
            node = msgspec.structs.replace(node, call=(more if unsaved else make_safe(more), None))
        nodes.append(msgspec.structs.replace(node, turn=turn))
    edges = tuple((position, 1) for position in range(len(nodes)))
    return Graph([*nodes, _node(random, taste, len(nodes), edges, plain, DEEPEST, last=True)])
