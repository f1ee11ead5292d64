"""Storing: a graph as the bytes that the journal keeps, and the graph that comes back after a restart.

Two things are stored differently. The *arguments* are stored as they were: a run goes on with what it was given. The
*code* is stored as a name wherever it can be imported (`stored_tasks`), so a run goes on with the code that exists now,
and a fixed function mends a failed run. `Stored` lists the nodes whose code has changed since.

What a graph's digest is made of (names, options that core knows, parts, fingerprints) comes back as it was, whatever
the decorators say now. What core does not know (the rollback function, the delays of retries, cpus) comes from the code
that exists now, unless it was given by `.options(...)`.
"""

from __future__ import annotations

import operator
import pickle
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from onceflow.authoring import stored_tasks
from onceflow.authoring.calls import Call
from onceflow.authoring.graph_builder import WorkflowGraph
from onceflow.authoring.options import MOST_RETURNS, merged
from onceflow.authoring.stored_tasks import Home
from onceflow.authoring.tasks import AnyTask, _with_options
from onceflow.authoring.workflows import BoundWorkflow
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node, pack, unpack
from onceflow.errors import CodeMissing, InvalidGraph
from onceflow.values import imports, versions
from onceflow.values.snapshot import LARGE, PROTOCOL
from onceflow.values.templates import Slot, Template

K = TypeVar("K")
V = TypeVar("V")

VERSION = 1
"""Of the format. The first element of what is stored."""

SHORT = 4096
"""Bytes of a graph that is remembered, perhaps."""

MOST_REMEMBERED = 256
"""Graphs, and tasks with other options."""


class Stored:
    """A graph that was stored, with the code that exists now."""

    __slots__ = ("changed", "graph")

    def __init__(self, graph: WorkflowGraph, changed: dict[str, str]) -> None:
        self.graph = graph
        self.changed = changed
        """Ids of the nodes whose task's function is known to be another one than when the graph was stored → the
        version of its code now."""


class Outline:
    """Stands for the call of a node whose code was not looked for."""

    __slots__ = ("metadata", "stored", "version")

    def __init__(self, metadata: str | None, version: str, stored: bytes) -> None:
        self.metadata = metadata
        self.stored = stored
        """The task, if it is stored by value."""
        self.version = version
        """Of its function's code, when the graph was stored."""


class Shown(str):
    """What is left of an argument of a workflow that could not be stored: how it looked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Task(msgspec.Struct, array_like=True, gc=False):
    home: int
    name: str
    parts: Annotated[int, msgspec.Meta(ge=1, le=MOST_RETURNS)]
    options: Options
    given: list[tuple[str, bytes]]
    """What `.options(...)` gave, pickled."""
    rollback: str
    """The version of the rollback function's code."""
    metadata: str | None = None


class _Node(msgspec.Struct, array_like=True, gc=False):
    id: str
    task: int
    edges: Sequence[tuple[int, int | str]]
    fingerprint: str
    slots: tuple[Slot, ...]
    holes: tuple[tuple[int | str, int], ...]
    arguments: bytes
    buffers: Sequence[int]
    options: Options | None = None
    """If they are not those of the task."""
    by_ref: tuple[int, ...] = ()
    takes: Sequence[tuple[int, int | str]] = ()
    admission: str | None = None


class _Workflow(msgspec.Struct, array_like=True, gc=False):
    name: str
    arguments: list[tuple[str, bytes | None, str]]
    """For each its name and its pickle, or None and how it looked."""


class _Definition(msgspec.Struct, array_like=True, gc=False):
    interpreter: str
    main: str
    """The script of the process that stored it; empty if there was none, or nothing of it is stored."""
    workflow: _Workflow | None
    homes: list[Home]
    tasks: list[_Task]
    nodes: list[_Node]
    sink: int
    buffers: Sequence[str]


class _Known(msgspec.Struct):
    """A graph that was decoded, and with which code."""

    definition: _Definition
    homes: list[AnyTask[..., Any]]
    stored: Stored


_known: dict[bytes, _Known] = {}
"""Of short graphs. Many runs may be of the same, with the same arguments."""
_variants: dict[tuple[Any, ...], tuple[AnyTask[..., Any], AnyTask[..., Any]]] = {}
"""Id of a task, options → the task, so that its id is its own, and as it is with them."""

_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_decoder = msgspec.msgpack.Decoder(_Definition)


def encode(graph: WorkflowGraph, buffers: Sequence[str]) -> bytes:
    """The bytes of a graph. `buffers[n]` is the reference under which `graph.buffers[n]` is stored.

    Raises `UnpicklableTask` for a task that can neither be imported nor pickled.
    """
    homes: dict[AnyTask[..., Any], int] = {}
    tasks: dict[AnyTask[..., Any], int] = {}
    home_records: list[Home] = []
    task_records: list[_Task] = []
    nodes: list[_Node] = []
    places = {id(buffer): place for place, buffer in enumerate(graph.buffers)}
    for node in graph.nodes:
        task, template = node.call.task, node.call.template
        number = tasks.get(task)
        if number is None:
            home = homes.get(task._base)
            if home is None:
                home = homes[task._base] = len(homes)
                home_records.append(stored_tasks.home_of(task._base, task.name))
            number = tasks[task] = len(tasks)
            task_records.append(_record_of(task, home))
        nodes.append(
            _Node(
                node.id,
                number,
                pack(node.edges),
                node.fingerprint,
                template.slots,
                template.holes,
                template.pickled(),
                [places[id(buffer)] for buffer in template.buffers] if template.buffers else (),
                None if node.options == task.core_options else node.options,
                template.by_ref,
                pack(node.takes),
                node.admission,
            )
        )
    definition = _Definition(
        versions.TAG,
        stored_tasks.script() if any(home.module == "__main__" for home in home_records) else "",
        None if graph.workflow is None else _describe(graph.workflow),
        home_records,
        task_records,
        nodes,
        graph.sink,
        buffers,
    )
    return _encoder.encode((VERSION, definition))


def references_of(stored: bytes) -> Sequence[str]:
    """Under which the buffers of a stored graph are stored."""
    return _open(stored).buffers


def with_references(stored: bytes, buffers: Sequence[str]) -> bytes:
    """The same graph, with its buffers elsewhere."""
    return _encoder.encode((VERSION, msgspec.structs.replace(_open(stored), buffers=buffers)))


def _record_of(task: AnyTask[..., Any], home: int) -> _Task:
    before = task._base._given
    given = [
        (option, _pickle_option(value, task.name))
        for option, value in task._given.items()
        if option not in before or before[option] is not value
    ]
    rollback = task.settings.rollback
    version = versions.code_version(rollback) if rollback is not None else ""
    return _Task(home, task.name, task.settings.num_returns, task.core_options, given, version, task.settings.metadata)


def _pickle_option(value: Any, task: str) -> bytes:
    if value is None or type(value) in (bool, int, float, str):
        return pickle.dumps(value, PROTOCOL)
    return stored_tasks.by_value(value, task)


class _TooLarge(Exception):
    """An argument is too large to be kept just for being shown."""


class _Small:
    """A file that takes no more than `LARGE` bytes."""

    __slots__ = ("chunks", "room")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.room = LARGE

    def write(self, chunk: Any) -> None:
        self.room -= memoryview(chunk).nbytes
        if self.room < 0:
            raise _TooLarge
        self.chunks.append(bytes(chunk))


_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = _shortener.maxlong = 200
_shortener.maxlist = _shortener.maxtuple = _shortener.maxdict = _shortener.maxset = _shortener.maxfrozenset = 10


def _describe(workflow: BoundWorkflow) -> _Workflow:
    return _Workflow(workflow.name, [_describe_argument(name, value) for name, value in workflow.arguments.items()])


def _describe_argument(name: str, value: Any) -> tuple[str, bytes | None, str]:
    """By name only: describing a graph is no reason to ship code. Nodes cannot be pickled, and are shown."""
    file = _Small()
    try:
        pickle.Pickler(file, PROTOCOL).dump(value)
    except Exception:
        return name, None, _shortener.repr(value).encode(errors="replace").decode()
    return name, b"".join(file.chunks), ""


def decode(stored: bytes, read: Callable[[str], bytes | memoryview], present: WorkflowGraph | None = None) -> Stored:
    """The graph of these bytes. `read` gives the content of a buffer that was stored, and is asked once for each.
    `present` is a graph of the same digest, whose code is taken: that of a program that builds it anew.

    Raises `CodeMissing` for a task whose code is gone, and `InvalidGraph` for what no onceflow or a newer one wrote.
    """
    known = _known.get(stored)
    definition = _open(stored) if known is None else known.definition
    homes = (
        [stored_tasks.find(home, definition) for home in definition.homes]
        if present is None
        else _taken(definition, present)
    )
    if known is not None and all(map(operator.is_, homes, known.homes)):
        return known.stored
    found = Stored(*_decode(definition, homes, read))
    if present is None and not definition.buffers and len(stored) <= SHORT:
        _remember(_known, stored, _Known(definition, homes, found))
    return found


def _decode(
    definition: _Definition, homes: list[AnyTask[..., Any]], read: Callable[[str], bytes | memoryview]
) -> tuple[WorkflowGraph, dict[str, str]]:
    tasks = [_as_stored(record, homes[record.home], definition) for record in definition.tasks]
    contents = {reference: pickle.PickleBuffer(read(reference)) for reference in dict.fromkeys(definition.buffers)}
    graph = WorkflowGraph(
        [
            _node(
                node,
                definition,
                Call(
                    tasks[node.task],
                    Template(
                        node.slots,
                        holes=node.holes,
                        payload=node.arguments,
                        buffers=tuple([contents[definition.buffers[place]] for place in node.buffers]),
                        by_ref=node.by_ref,
                    ),
                    definition.homes[definition.tasks[node.task].home].version,
                ),
            )
            for node in definition.nodes
        ],
        definition.sink,
    )
    graph.workflow = None if definition.workflow is None else _restore(definition.workflow)
    graph.buffers = tuple([contents[reference] for reference in definition.buffers])
    graph.references = tuple(definition.buffers)
    return graph, {node.id: node.call.version_now for node in graph.nodes if node.call.has_changed}


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= MOST_REMEMBERED:
        memory.clear()
    memory[key] = value


def renew(stored: bytes, graphs: Iterable[Graph]) -> None:
    """Gives graphs that tasks have returned the code that exists now. They were pickled in a worker, with the tasks of
    a script by value; if the present process runs that script (`stored` is the run's graph, which shows that), the
    script's own tasks take their place."""
    known = _known.get(stored)
    definition = _open(stored) if known is None else known.definition
    for graph in graphs if definition.main else ():
        for node in graph.nodes:
            old = node.call.task
            module, qualname = getattr(old, "__module__", ""), getattr(old, "__qualname__", "")
            present = stored_tasks.in_script(module, qualname, definition)
            if isinstance(present, AnyTask) and present._base.name == old._base.name:
                new = _with_options(present._base, old._given)
                if new.core_options == old.core_options and new.settings.num_returns == old.settings.num_returns:
                    node.call.task = new


def is_of_script(stored: bytes) -> bool:
    """Whether it has tasks that belong to a `__main__`."""
    return bool(_open(stored).main)


def _open(stored: bytes) -> _Definition:
    try:
        version, body = _envelope.decode(stored)
        if version == VERSION:
            return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidGraph(f"what is stored is not a graph: {error}") from error
    raise InvalidGraph(
        f"the graph was stored in format {version}, and this onceflow knows formats up to {VERSION}. Nothing was "
        "changed. Use a newer onceflow."
    )


def _restore(workflow: _Workflow) -> BoundWorkflow:
    arguments: dict[str, Any] = {}
    for name, payload, shown in workflow.arguments:
        arguments[name] = Shown(shown)
        if payload is not None:
            try:
                arguments[name] = imports.loads(payload)
            except Exception as error:
                arguments[name] = Shown(f"<cannot be loaded: {error}>")
    return BoundWorkflow(workflow.name, arguments)


def decode_structure(stored: bytes) -> Graph:
    """The graph of these bytes without code and arguments: for inspection of a run, perhaps long after its
    code is gone."""
    definition = _open(stored)
    homes = [definition.homes[task.home] for task in definition.tasks]
    calls = [
        Outline(task.metadata, home.version, home.payload) for task, home in zip(definition.tasks, homes, strict=True)
    ]
    return Graph([_node(node, definition, calls[node.task]) for node in definition.nodes], definition.sink)


def present_versions(stored: bytes, problem_in: stored_tasks.ProblemIn) -> dict[str, str | None]:
    """For each task in these bytes the version that its code has now; None if the code is not there any more. Imports
    the modules of the tasks. What is stored by value is what it was."""
    definition = _open(stored)
    homes = [stored_tasks.present_version(home, definition, problem_in) for home in definition.homes]
    return {node.id: homes[definition.tasks[node.task].home] for node in definition.nodes}


def missing_tasks(
    stored: bytes, concerned: Callable[[str], bool], problem_in: stored_tasks.ProblemIn
) -> list[CodeMissing]:
    """Tasks in these bytes that are not there any more, of modules that are concerned; these are imported."""
    definition = _open(stored)
    missing: list[CodeMissing] = []
    for home in definition.homes:
        if concerned(home.module):
            try:
                stored_tasks.look_up(home, definition, problem_in)
            except CodeMissing as error:
                missing.append(error)
    return missing


def _node(node: _Node, definition: _Definition, call: Call | Outline) -> Node:
    task = definition.tasks[node.task]
    return Node(
        id=node.id,
        task=task.name,
        options=node.options or task.options,
        edges=unpack(node.edges),
        parts=task.parts,
        takes=unpack(node.takes),
        fingerprint=node.fingerprint,
        call=call,
        admission=node.admission,
    )


def _taken(definition: _Definition, present: WorkflowGraph) -> list[AnyTask[..., Any]]:
    bases = {
        definition.tasks[node.task].home: now.call.task._base
        for node, now in zip(definition.nodes, present.nodes, strict=True)
    }
    return [bases[number] for number in range(len(definition.homes))]


def _as_stored(record: _Task, base: AnyTask[..., Any], definition: _Definition) -> AnyTask[..., Any]:
    """The task with the options that it had when it was stored."""
    task = base
    module = definition.homes[record.home].module
    if record.given:
        given = {option: _load_option(option, payload, record, module, definition) for option, payload in record.given}
        task = _variant(base, {**base._given, **given})
    settings = task.settings
    if (settings.name, settings.num_returns, task.core_options) == (record.name, record.parts, record.options):
        return task
    given = {
        **merged(task._given, {"effect": record.options.effect}),
        "name": record.name,
        "num_returns": record.parts,
        "checkpoint": record.options.checkpoint,
        "deterministic": record.options.deterministic,
        "retry": msgspec.structs.replace(settings.retry, count=record.options.retries),
    }
    if record.options.effect != "undoable":
        given["rollback"] = None
    elif settings.rollback is None:
        raise CodeMissing(
            record.name,
            module,
            "it had a rollback function, and has none now",
            "What it does outside could not be taken back: declare the rollback function again, then resume.",
        )
    return _variant(task, given)


def _variant(task: AnyTask[..., Any], given: dict[str, Any]) -> AnyTask[..., Any]:
    """The task with these options. Many graphs that are decoded have the same, and to check them takes time."""
    key = (id(task), *((option, type(value), value) for option, value in given.items()))
    try:
        known = _variants.get(key)
    except TypeError:  # an option that is compared with nothing
        return _with_options(task, given)
    if known is None:
        known = (task, _with_options(task, given))
        _remember(_variants, key, known)
    return known[1]


def _load_option(option: str, payload: bytes, record: _Task, module: str, definition: _Definition) -> Any:
    value = stored_tasks.load(payload, f"its option {option}", record.name, module, definition)
    if option == "rollback" and callable(value):
        present = stored_tasks.in_script(
            getattr(value, "__module__", ""), getattr(value, "__qualname__", ""), definition
        )
        return present if callable(present) else value
    return value
