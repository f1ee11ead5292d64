"""Graphs as bytes: what is stored, and what comes back after a restart."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow import RetryPolicy, task, workflow
from onceflow.authoring import graph_storage
from onceflow.authoring.graph_builder import WorkflowGraph, build_graph
from onceflow.core.model.graph import Node
from onceflow.errors import CodeMissing, InvalidGraph, UnpicklableTask
from onceflow.values import versions


@task.pure
def make(number: int) -> Any:
    return number


@task
def join(*values: Any, **named: Any) -> Any: ...


@task(num_returns=3)
def split(text: str) -> Any: ...


@task
async def fetch(url: str) -> str:
    return url


def undo(number: int) -> None: ...


@task(rollback=undo, retry=RetryPolicy(2, delay=5))
def book(number: int) -> int:
    return number


@workflow
def joined(first: Any, second: Any = None) -> Any:
    return join.bind(make.bind(1))


def nothing_to_read(reference: str) -> bytes:
    raise AssertionError(f"there is no buffer {reference}")


def again(graph: WorkflowGraph) -> graph_storage.Stored:
    return graph_storage.decode(graph_storage.encode(graph, ()), nothing_to_read)


def filled(node: Node) -> Any:
    """The arguments of a node, with (edge, part) in the place of every output."""
    return node.call.arguments(node.call.slots)


def assert_alike(before: WorkflowGraph, after: WorkflowGraph) -> None:
    assert after.digest == before.digest
    assert after.sink == before.sink
    for one, other in zip(before.nodes, after.nodes, strict=True):
        assert msgspec.structs.replace(one, call=None) == msgspec.structs.replace(other, call=None)
        assert other.call.slots == one.call.slots
        assert filled(other) == filled(one)
        assert other.call.template.pickled() == one.call.template.pickled()
        assert other.call.template.holes == one.call.template.holes


GRAPHS: dict[str, Callable[[], Any]] = {
    "constants": lambda: join.bind(1, "text", None, 2.5, b"bytes", key=True),
    "no arguments": lambda: join.bind(),
    "nodes": lambda: join.bind(make.bind(1), 2, named=make.bind(3)),
    "one node twice": lambda: (lambda node: join.bind(node, node, again=node))(make.bind(1)),
    "nodes inside": lambda: join.bind([make.bind(1), {"key": make.bind(2)}], (1, [2])),
    "parts": lambda: (lambda node: join.bind(node[0], [node[2]], node))(split.bind("text")),
    "a part of the result": lambda: split.bind("text")[1],
    "after": lambda: join.options(after=[make.bind(1)]).bind(make.bind(2)),
    "undoable": lambda: book.bind(make.bind(1)),
    "async": lambda: fetch.bind("url"),
    "options": lambda: join.options(name="other", checkpoint=False, retry=3).bind(make.options(name="m").bind(1)),
    "local": lambda: task(name="local")(lambda number: number).bind([make.bind(1)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_comes_back_as_it_was(name: str) -> None:
    before = build_graph(GRAPHS[name]())
    stored = again(before)

    assert_alike(before, stored.graph)
    assert stored.changed == {}
    assert stored.graph.workflow is None
    assert_alike(before, again(stored.graph).graph)


VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.just("a node"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=st.lists(st.tuples(VALUES, VALUES, st.booleans()), min_size=1, max_size=6))
def test_any_graph_comes_back_as_it_was(arguments: list[tuple[Any, Any, bool]]) -> None:
    node: Any = make.bind(0)

    def with_nodes(value: Any) -> Any:
        if value == "a node":
            return node
        if isinstance(value, list):
            return [with_nodes(item) for item in value]
        return {key: with_nodes(item) for key, item in value.items()} if isinstance(value, dict) else value

    for first, second, renamed in arguments:
        node = (join.options(name="other") if renamed else join).bind(with_nodes(first), node, key=with_nodes(second))
    before = build_graph(node)
    assert_alike(before, again(before).graph)


def test_arguments_are_fresh_for_every_attempt() -> None:
    (node,) = again(build_graph(join.bind([1], key={}))).graph.nodes
    first, second = filled(node), filled(node)
    first[0][0].append(2)
    first[1]["key"]["more"] = 1
    first[1]["other"] = 1
    assert second == filled(node) == (([1],), {"key": {}})


def test_an_importable_task_is_imported_and_is_the_very_same() -> None:
    graph = again(build_graph(join.bind(make.bind(1), fetch.bind("u"), book.bind(1)))).graph
    assert [node.call.task for node in graph.nodes] == [make, fetch, book, join]
    assert [node.call.is_async for node in graph.nodes] == [False, True, False, False]


def test_options_given_for_one_call_come_back() -> None:
    def local_undo(number: int) -> str:
        return f"undone {number}"

    retry = RetryPolicy(7, on=(KeyError, OSError), delay=0.5)
    changed = book.options(rollback=local_undo, retry=retry, name="other", num_returns=2, threads=True, cpus=2)
    (node,) = again(build_graph(changed.bind(1))).graph.nodes
    settings = node.call.settings
    assert (settings.retry, settings.name, settings.num_returns) == (retry, "other", 2)
    assert (settings.threads, settings.cpus) == (True, 2)
    assert node.call.rollback(3) == "undone 3"
    assert node.call.function is book.function


def test_nodes_of_one_task_share_it() -> None:
    by_value = task(name="local")(lambda number: number)
    graph = again(build_graph(join.bind(*[by_value.bind(number) for number in range(10)]))).graph
    assert len({id(node.call.task) for node in graph.nodes}) == 2


def test_checkpoints_that_were_set_on_a_node_come_back() -> None:
    before = build_graph(join.bind(make.bind(1), make.bind(2))).with_checkpoints({"make_1"})
    after = again(before).graph
    assert_alike(before, after)
    assert [node.options.checkpoint for node in after.nodes] == [False, True, True]
    assert {node.call.task for node in after.nodes} == {make, join}


def test_a_graph_with_checkpoints_still_knows_its_workflow_and_its_buffers() -> None:
    before = build_graph(join.bind(make.bind(1), bytes(100_000)))
    before.workflow = build_graph(joined.bind(1)).workflow
    assert before.consumers
    after = before.with_checkpoints({"make"})

    assert after.workflow is before.workflow
    assert after.buffers is before.buffers
    assert after.digest != before.digest
    assert [node.options.checkpoint for node in after.nodes] == [True, True]


def test_a_task_may_have_more_parts_than_an_integer_has_bits() -> None:
    many = task(num_returns=100, name="many")(lambda: range(100))
    node: Any = many.bind()
    graphs = [build_graph(join.bind(value)) for value in (node, node[62], node[63], node[99])]

    assert len({graph.digest for graph in graphs}) == 4
    for graph in graphs:
        assert_alike(graph, again(graph).graph)


# ---- large buffers


def test_buffers_are_stored_by_reference_and_each_is_read_once() -> None:
    shared, own = np.arange(20_000), bytes(100_000)
    graph = build_graph(join.bind(join.bind(shared, own), [shared]))
    contents = {f"blob {number}": bytes(buffer) for number, buffer in enumerate(graph.buffers)}
    assert len(contents) == 2
    asked = []

    def read(reference: str) -> bytes:
        asked.append(reference)
        return contents[reference]

    stored = graph_storage.encode(graph, list(contents))
    assert len(stored) < 2_000
    after = graph_storage.decode(stored, read).graph

    assert asked == list(contents)
    assert [bytes(buffer) for buffer in after.buffers] == list(contents.values())
    (array, content), _ = filled(after.nodes[0])
    assert (array == shared).all()
    assert content == own
    _, (again,) = filled(after.nodes[1])[0]
    assert (again == shared).all()
    assert after.nodes[1].call.template.buffers[0] is after.nodes[0].call.template.buffers[0]


# ---- the workflow


def test_the_workflow_comes_back_with_its_arguments() -> None:
    stored = again(build_graph(joined.bind(["Rome", 3], second={"key": 1})))
    assert stored.graph.workflow is not None
    assert stored.graph.workflow.name == "joined"
    assert stored.graph.workflow.arguments == {"first": ["Rome", 3], "second": {"key": 1}}


class Odd:
    def __repr__(self) -> str:
        return "<odd \ud800>"

    def __reduce__(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (threading.Lock(), "<unlocked _thread.lock object at 0x"),
        (lambda: 1, "<function <lambda> at 0x"),
        ([make.bind(1)], "[<node make>]"),
        (Odd(), "<odd ?>"),
        (bytes(100_000), "b'\\x00"),
        (np.zeros(100_000), "array([0., 0., 0., ..., 0., 0., 0.]"),
        (list(range(100_000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"),
    ],
    ids=["lock", "lambda", "node", "odd", "bytes", "array", "list"],
)
def test_arguments_of_a_workflow_that_cannot_be_kept_are_shown(value: Any, shown: str) -> None:
    graph = build_graph(joined.bind(value, second=1))
    workflow = graph_storage.decode(graph_storage.encode(graph, ()), nothing_to_read).graph.workflow
    assert workflow is not None
    assert workflow.arguments["second"] == 1
    assert repr(workflow.arguments["first"]).startswith(shown)
    assert len(repr(workflow)) < 300


def test_an_argument_of_a_workflow_whose_class_is_gone_does_not_keep_the_graph_from_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Passing:
        pass

    Passing.__qualname__ = "Passing"
    monkeypatch.setattr(sys.modules[__name__], "Passing", Passing, raising=False)
    stored = graph_storage.encode(build_graph(joined.bind(Passing())), ())
    monkeypatch.delattr(sys.modules[__name__], "Passing")
    workflow = graph_storage.decode(stored, nothing_to_read).graph.workflow
    assert workflow is not None
    assert "cannot be loaded" in repr(workflow.arguments["first"])


# ---- the code that exists now


class Module:
    """A module whose file changes between two lives of a program."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "module_of_tasks.py"

    def write(self, body: str) -> Any:
        self.forget()
        self.file.write_text(f"from onceflow import RetryPolicy, task\n{body}")
        importlib.invalidate_caches()
        return importlib.import_module("module_of_tasks")

    def forget(self) -> None:
        sys.modules.pop("module_of_tasks", None)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = Module(tmp_path)
    yield module
    module.forget()


def test_the_code_that_exists_now_is_taken_and_said_to_have_changed(module: Module) -> None:
    before = module.write("@task\ndef one(): return 1\n@task\ndef two(number): return number")
    graph = build_graph(before.two.bind(before.one.bind()))
    stored = graph_storage.encode(graph, ())
    now = module.write("@task\ndef one():\n    'Docs.'\n    return 1\n@task\ndef two(number): return number + 1")
    decoded = graph_storage.decode(stored, nothing_to_read)

    assert [node.call.task for node in decoded.graph.nodes] == [now.one, now.two]
    assert decoded.changed.keys() == {"two"}
    assert_alike(graph, decoded.graph)


def test_code_that_changes_between_two_looks_is_noticed(module: Module) -> None:
    source = "@task\ndef one(): return {number}\n@task\ndef two(number): return number"
    before = module.write(source.format(number=1))
    stored = graph_storage.encode(build_graph(before.two.options(name="second", retry=1).bind(before.one.bind())), ())
    assert graph_storage.decode(stored, nothing_to_read) is graph_storage.decode(stored, nothing_to_read)
    now = module.write(source.format(number=2))
    decoded = graph_storage.decode(stored, nothing_to_read)

    one, two = [node.call.task for node in decoded.graph.nodes]
    assert (one, two._base, two.name) == (now.one, now.two, "second")
    assert decoded.changed.keys() == {"one"}


def test_the_module_is_imported_if_it_is_not(module: Module) -> None:
    before = module.write("class Home:\n    @staticmethod\n    @task\n    def one(): return 1")
    stored = graph_storage.encode(build_graph(before.Home.one.bind()), ())
    module.forget()
    decoded = graph_storage.decode(stored, nothing_to_read)
    assert decoded.graph.nodes[0].call.task is sys.modules["module_of_tasks"].Home.one


def test_options_that_core_knows_come_back_as_they_were_and_the_others_as_they_are(module: Module) -> None:
    source = """
def undo(): return {undo}

@task({options})
def one(): return 1
"""
    options = "rollback=undo, retry=RetryPolicy(2, delay=1), deterministic=True, checkpoint=False"
    before = module.write(source.format(undo=1, options=options))
    graph = build_graph(before.one.options(name="renamed").bind())
    stored = graph_storage.encode(graph, ())
    module.write(source.format(undo=2, options="rollback=undo, retry=RetryPolicy(5, delay=9), num_returns=2"))
    decoded = graph_storage.decode(stored, nothing_to_read)

    (node,) = decoded.graph.nodes
    assert_alike(graph, decoded.graph)
    assert node.call.task.core_options == node.options
    assert (node.call.settings.name, node.call.settings.num_returns) == ("renamed", 1)
    assert node.call.retry == RetryPolicy(2, delay=9)
    assert node.call.rollback() == 2
    assert decoded.changed == {}


@pytest.mark.parametrize("options", ["can_rollback=True", "can_rollback=False"])
def test_a_task_that_became_undoable_is_still_what_it_was_for_this_run(module: Module, options: str) -> None:
    before = module.write(f"@task({options})\ndef one(): return 1")
    graph = build_graph(before.one.bind())
    stored = graph_storage.encode(graph, ())
    module.write("def undo(): ...\n@task(rollback=undo)\ndef one(): return 1")
    decoded = graph_storage.decode(stored, nothing_to_read)
    assert_alike(graph, decoded.graph)
    assert decoded.graph.nodes[0].call.rollback is None


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (None, "No module named 'module_of_tasks'"),
        ("import module_that_is_not_there", "No module named 'module_that_is_not_there'"),
        ("1 / 0", "that module cannot be imported, ZeroDivisionError: division by zero"),
        ("def (:", r"that module cannot be imported, SyntaxError: invalid syntax \(module_of_tasks.py, line 2\)"),
        ("", "there is no 'one' in that module"),
        ("def one(): ...", "'one' is not a task"),
        ("@task\ndef one(): ...", "it had a rollback function, and has none now"),
    ],
)
def test_a_task_that_is_gone_is_named(module: Module, after: str | None, reason: str) -> None:
    before = module.write("def undo(): ...\n@task(rollback=undo, name='first')\ndef one(): ...")
    stored = graph_storage.encode(build_graph(before.one.bind()), ())
    module.forget()
    if after is None:
        module.file.unlink()
    else:
        module.file.write_text(f"from onceflow import task\n{after}")
    with pytest.raises(CodeMissing, match=reason) as raised:
        graph_storage.decode(stored, nothing_to_read)
    assert "task 'first' of module 'module_of_tasks'" in str(raised.value)
    assert "then resume" in str(raised.value)
    assert (raised.value.task, raised.value.module) == ("first", "module_of_tasks")


# ---- tasks by value


def test_local_tasks_come_back_with_what_they_refer_to() -> None:
    factor = 3

    @task
    def inner(number: int) -> int:
        return number * factor

    @task(retry=2)
    def outer(number: int) -> Any:
        return inner(number) + 1

    (node,) = again(build_graph(outer.bind(1))).graph.nodes
    assert node.call.function(2) == 7
    assert node.call.retry.count == 2


@pytest.mark.parametrize("of_option", [False, True])
def test_a_task_that_cannot_be_pickled_is_named(of_option: bool) -> None:
    lock = threading.Lock()
    unpicklable = task(name="locked")(lambda: lock)
    node = book.options(name="locked", rollback=lambda number: lock).bind(1) if of_option else unpicklable.bind()
    with pytest.raises(UnpicklableTask, match=r"task 'locked' cannot be stored: TypeError: .*lock") as raised:
        graph_storage.encode(build_graph(join.bind(node)), ())
    assert raised.value.task == "locked"


def test_code_that_was_stored_for_another_interpreter_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TAG", "cp399")
    by_name = graph_storage.encode(build_graph(book.options(name="other").bind(1)), ())
    by_value = graph_storage.encode(build_graph(task(name="local")(lambda: 1).bind()), ())
    of_option = graph_storage.encode(build_graph(book.options(name="other", rollback=lambda number: 1).bind(1)), ())
    monkeypatch.undo()

    assert graph_storage.decode(by_name, nothing_to_read).changed == {}
    for stored in (by_value, of_option):
        with pytest.raises(CodeMissing, match="stored by value for cp399"):
            graph_storage.decode(stored, nothing_to_read)


def test_what_a_task_by_value_needs_and_is_gone_is_said(module: Module) -> None:
    helper = module.write("def helper(): ...").helper
    stored = graph_storage.encode(build_graph(task(name="local")(lambda: helper()).bind()), ())
    module.forget()
    module.file.unlink()
    with pytest.raises(CodeMissing, match=r"task 'local' .* No module named 'module_of_tasks'"):
        graph_storage.decode(stored, nothing_to_read)


# ---- the format


def test_a_newer_format_is_refused() -> None:
    stored = msgspec.msgpack.encode((2, {"all": "new"}))
    with pytest.raises(InvalidGraph, match="format 2, and this onceflow knows formats up to 1"):
        graph_storage.decode(stored, nothing_to_read)


@pytest.mark.parametrize("stored", [b"", b"\x00", b"text", msgspec.msgpack.encode((1, ["short"]))])
def test_what_is_not_a_graph_is_refused(stored: bytes) -> None:
    with pytest.raises(InvalidGraph, match="not a graph"):
        graph_storage.decode(stored, nothing_to_read)


def test_the_first_element_is_the_version_of_the_format() -> None:
    assert msgspec.msgpack.decode(graph_storage.encode(build_graph(make.bind(1)), ()))[0] == graph_storage.VERSION


def test_versions_of_function_and_rollback_are_recorded() -> None:
    stored = graph_storage.encode(build_graph(book.bind(1)), ())
    assert versions.code_version(book.function).encode() in stored
    assert versions.code_version(undo).encode() in stored


def test_a_template_is_pickled_once() -> None:
    template = build_graph(join.bind(1, key=2)).nodes[0].call.template
    assert pickle.loads(template.pickled()) == ((1,), {"key": 2})
    assert template.pickled() is template.pickled()


# ---- scripts

SCRIPT = """
import json, sys
from onceflow import task
from onceflow.authoring import graph_storage
from onceflow.authoring.graph_builder import build_graph

LIMIT = {limit}

def undo(number):
    return ("undone", LIMIT)

@task
def limited(number):
    {comment}
    return min(number, LIMIT) {more}

@task(rollback=undo)
def booked(number):
    return number

@task
def join(*values):
    return sum(values)

if sys.argv[1] == "store":
    graph = build_graph(join.bind(limited.bind(9), booked.options(rollback=undo, name="other").bind(1)))
    with open(sys.argv[2], "wb") as file:
        file.write(graph_storage.encode(graph, ()))
else:
    with open(sys.argv[2], "rb") as file:
        stored = graph_storage.decode(file.read(), None)
    nodes = stored.graph.nodes
    main = sys.modules["__main__"]
    print(json.dumps({{
        "changed": sorted(stored.changed),
        "result": nodes[0].call.function(9),
        "undo": nodes[1].call.rollback(1),
        "name": nodes[1].call.settings.name,
        "mine": [node.call.function is getattr(main, node.call.function.__name__).function for node in nodes],
    }}))
"""


def run(script: Path, *arguments: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, script.name, *arguments], env=environment, cwd=script.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")


def test_a_script_that_runs_again_goes_on_with_its_own_tasks_and_another_one_with_what_was_stored(
    tmp_path: Path,
) -> None:
    script, other, stored = tmp_path / "script.py", tmp_path / "other.py", str(tmp_path / "stored")
    script.write_text(SCRIPT.format(limit=3, comment="", more=""))
    run(script, "store", stored)

    script.write_text(SCRIPT.format(limit=5, comment="# why", more=""))
    assert run(script, "load", stored) == {
        "changed": [],
        "result": 5,
        "undo": ["undone", 5],
        "name": "other",
        "mine": [True, True, True],
    }

    script.write_text(SCRIPT.format(limit=5, comment="", more="+ 100"))
    fixed = run(script, "load", stored)
    assert (fixed["changed"], fixed["result"]) == (["limited"], 105)

    other.write_text(SCRIPT.format(limit=5, comment="", more="+ 100"))
    assert run(other, "load", stored) == {
        "changed": [],
        "result": 3,
        "undo": ["undone", 3],
        "name": "other",
        "mine": [False, False, False],
    }


def test_the_code_of_a_program_that_builds_the_graph_anew_is_taken() -> None:
    def define(function: Callable[[int], int]) -> WorkflowGraph:
        return build_graph(task(name="scale")(function).bind(20))

    old, new = define(lambda value: value * 2), define(lambda value: value * 3)
    decoded = graph_storage.decode(graph_storage.encode(old, []), lambda reference: b"", new)
    assert decoded.graph.nodes[0].call.function(20) == 60
    assert decoded.graph.digest == old.digest
    assert decoded.changed.keys() == {"scale"}
