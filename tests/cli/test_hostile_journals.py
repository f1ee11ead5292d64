"""Commands that only look, on journals in which somebody has planted pickles that run code when they are loaded."""

from __future__ import annotations

import copyreg
import os
import pickle
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from onceflow.authoring.fiber_tasks.continuations import Continuation
from onceflow.cli import completion
from onceflow.cli.main import main
from onceflow.storage.schema import PLACES as EACH
from onceflow.values import packed_outputs
from onceflow.values.templates import Template
from tests.cli.common import Command, well_behaved
from tests.helpers.forging import vouch_for_all
from tests.helpers.scripts import run_script

SHOP = """
from onceflow import Variable, fiber, task, wait_event

paid = Variable("paid", 0)

@task(writes=[paid])
def charge(cents):
    paid.set(cents)
    return cents

@task
def order(cents):
    return charge.bind(cents)

@task
def broken():
    raise ValueError("no")

@fiber
async def fulfil(cents):
    await order.call(cents)
    try:
        await broken.call()
    except ValueError:
        pass
    return await wait_event("approval", bool)
"""
PLACES = ("variable", "graph", "blob", "arguments", "continuation", "definition", "failure")
PARK = f"""
    import onceflow, shop_of_horrors as shop
    if __name__ == "__main__":
        with onceflow.Engine(workers=1) as engine:
            for place in {PLACES!r}:
                handle = engine.run_async(shop.fulfil.bind(4), name=place)
                for event in handle:
                    if event.kind == "status" and event.detail == "waiting":
                        break
            engine.close()
"""

EXTENSION = 0x7F7F


class Call:
    """Makes a call when it is unpickled."""

    def __init__(self, function: Any, *args: Any, state: Any = None) -> None:
        self._told = (function, args) if state is None else (function, args, state)

    def __reduce__(self) -> Any:
        return self._told


def name(module: str, qualname: str) -> bytes:
    """The opcodes that refer to something."""
    return b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, qualname)) + b"\x93"


def text(content: str) -> bytes:
    return b"X" + len(content).to_bytes(4, "little") + content.encode()


def call(module: str, qualname: str, *args: bytes) -> bytes:
    return name(module, qualname) + b"(" + b"".join(args) + b"tR"


def protocol_0(command: str) -> bytes:
    return f"cos\nsystem\n(S'{command}'\ntR.".encode()


def by_name(command: str) -> bytes:
    return pickle.dumps(Call(os.system, command))


def by_dotted_name(command: str) -> bytes:
    return b"\x80\x04" + call("os", "path.os.system", text(command)) + b"."


def by_what_graphs_are_made_of(command: str) -> bytes:
    inner = by_name(command)
    loaded = b"B" + len(inner).to_bytes(4, "little") + inner
    return b"\x80\x04" + call("onceflow.values.templates", "pickle.loads", loaded) + b"."


def by_exec(command: str) -> bytes:
    return pickle.dumps(Call(exec, f"import os; os.system({command!r})"))


def by_partial(command: str) -> bytes:
    partial = call("functools", "partial", name("os", "system"), text(command))
    return b"\x80\x04" + partial + b")R."


def by_getattr(command: str) -> bytes:
    found = call("builtins", "getattr", call("importlib", "import_module", text("os")), text("system"))
    return b"\x80\x04" + found + b"(" + text(command) + b"tR."


def by_methodcaller(command: str) -> bytes:
    caller = call("operator", "methodcaller", text("system"), text(command))
    return b"\x80\x04" + caller + b"(" + call("importlib", "import_module", text("os")) + b"tR."


def by_iterating(command: str) -> bytes:
    mapped = call("builtins", "map", name("os", "system"), b"](" + text(command) + b"e")
    return b"\x80\x04" + call("collections", "deque", mapped) + b"."


def by_extension(command: str) -> bytes:
    return b"\x80\x04\x83" + EXTENSION.to_bytes(2, "little") + b"(" + text(command) + b"tR."


def by_instance(command: str) -> bytes:
    return b"(" + text(command) + b"ios\nsystem\n."


def by_object(command: str) -> bytes:
    return b"\x80\x04(" + name("os", "system") + text(command) + b"o."


def by_state(command: str) -> bytes:
    """Makes a class of ours call it: `BUILD` on a class sets its attributes."""
    state = b"N}(" + text("__len__") + name("os", "system") + b"u\x86"
    patched = name("onceflow.core.model.graph", "Graph") + state + b"b0"
    return b"\x80\x04" + patched + call("os", "system", text(command)) + b"."


def by_append(command: str) -> bytes:
    """`APPEND` calls `append` or `extend` of whatever stands there."""
    target = call("builtins", "getattr", call("importlib", "import_module", text("os")), text("environ"))
    return (
        b"\x80\x04"
        + target
        + text("ONCEFLOW_CANARY")
        + text(command)
        + b"s"
        + call("os", "system", text(command))
        + b"."
    )


def by_persistent_id(command: str) -> bytes:
    return b"\x80\x04" + name("os", "system") + text(command) + b"\x86Q0" + call("os", "system", text(command)) + b"."


HOSTILE: list[Callable[[str], bytes]] = [
    protocol_0,
    by_name,
    by_dotted_name,
    by_what_graphs_are_made_of,
    by_exec,
    by_partial,
    by_getattr,
    by_methodcaller,
    by_iterating,
    by_extension,
    by_instance,
    by_object,
    by_state,
    by_append,
    by_persistent_id,
]


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a home in which fibers wait, one for each place, and their code."""
    folder = tmp_path_factory.mktemp("parked")
    (folder / "shop_of_horrors.py").write_text(SHOP)
    run_script(folder, PARK)
    copyreg.add_extension("os", "system", EXTENSION)
    try:
        yield folder
    finally:
        copyreg.remove_extension("os", "system", EXTENSION)


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.__name__)
def test_looking_runs_nothing_that_is_stored(
    attack: Callable[[str], bytes], parked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    shutil.copytree(parked / "home", tmp_path / "home")
    shutil.copy(parked / "shop_of_horrors.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    onceflow = Command(tmp_path / "home")
    with sqlite3.connect(tmp_path / "home" / "journal.db") as journal:
        for place in PLACES:
            plant(journal, tmp_path / "home", place, attack(f"touch {canary}"))
        vouch_for_all(journal)  # whoever plants them can compute checksums as well
    journal.close()
    assert not canary.exists()

    for place in PLACES:
        for verb in (["show", "--json"], ["show", "--code"], ["why"], ["logs"]):
            look(onceflow, *verb, place)
        context = click.Context(click.Command("why"))
        context.params = {"home": str(onceflow.home), "run": place}
        completion.tasks(context, "")
        completion.runs(context, place[:2])
    for verbs in (
        ["ls"],
        ["stats"],
        ["doctor"],
        ["deploy-check", "shop_of_horrors"],
        ["schedule", "list"],
        ["queue", "list"],
    ):
        look(onceflow, *verbs)

    assert not canary.exists()


def test_attacks_succeed_where_pickles_are_loaded(tmp_path: Path) -> None:
    """Otherwise the test above would prove little."""
    canary = tmp_path / "canary"
    pickle.loads(by_iterating(f"touch {canary}"))
    assert canary.exists()


def look(onceflow: Command, *args: str) -> None:
    """Whatever it says of the planted pickles, it ends properly."""
    well_behaved(CliRunner().invoke(main, [*args, "--home", str(onceflow.home)]))


def plant(journal: sqlite3.Connection, home: Path, place: str, hostile: bytes) -> None:
    """Puts a pickle into a place of the run of that name."""
    number, run = journal.execute("SELECT number, id FROM run WHERE name = ?", [place]).fetchone()
    rows = journal.execute(
        "SELECT key, kind, body, value FROM entry WHERE key >= ? AND key < ? ORDER BY key", keys_of(number)
    ).fetchall()
    graphs = [(key, value) for key, kind, body, value in rows if kind == "saved" and msgspec.msgpack.decode(body)[2]]
    match place:
        case "variable":
            (key,) = [key for key, kind, _, _ in rows if kind == "wrote"]
            change(journal, key, value=msgspec.msgpack.encode({"paid": hostile, "more": by_name("false")}))
        case "graph":
            for key, _ in graphs:
                change(journal, key, value=hostile)
        case "blob":
            folder = home / "blobs" / run
            folder.mkdir()
            name_of_blob = f"1.engine.{len(hostile)}-{zlib.crc32(hostile):08x}.graph"
            (folder / name_of_blob).write_bytes(hostile)
            for key, _ in graphs:
                change(journal, key, value=None, blob=f"{run}/{name_of_blob}")
        case "arguments" | "continuation":
            for key, value in graphs:
                graph = pickle.loads(value)
                for node in graph.nodes:
                    template = node.call.template
                    if place == "arguments":
                        node.call.template = Template(template.slots, payload=hostile)
                    elif node.task == "segment":
                        node.call.template = Template(template.slots, payload=with_snapshot(template, hostile))
                change(journal, key, value=packed_outputs.dump(graph))
        case "definition":
            (graph,) = journal.execute("SELECT graph FROM definition WHERE number = ?", [number]).fetchone()
            version, definition = msgspec.msgpack.decode(graph)
            definition[2] = ["fulfil", [["cents", hostile, ""]]]
            for home_of_task in definition[3]:
                home_of_task[3] = hostile
            for task in definition[4]:
                task[4] = [["name", hostile]]
            for node in definition[5]:
                node[6] = hostile
            changed = msgspec.msgpack.encode((version, definition))
            journal.execute("UPDATE definition SET graph = ? WHERE number = ?", [changed, number])
        case "failure":
            for key, kind, _, value in rows:
                if kind == "failed":
                    links = msgspec.msgpack.decode(value)
                    change(journal, key, value=msgspec.msgpack.encode([[hostile, *link[1:]] for link in links]))


def with_snapshot(template: Template, body: bytes) -> bytes:
    """The arguments of a segment whose fiber has another body."""
    args, kwargs = template.fill([None] * len(template.slots))
    known = Continuation(args[0], args[1])
    size = int.from_bytes(known.snapshot[6:10], "big")
    return pickle.dumps(((known.snapshot[: 10 + size] + body, *args[1:]), kwargs))


def keys_of(number: int) -> tuple[int, int]:
    return number * EACH, (number + 1) * EACH


def change(journal: sqlite3.Connection, key: int, *, value: bytes | None, blob: str | None = None) -> None:
    journal.execute("UPDATE entry SET value = ?, blob = ? WHERE key = ?", [value, blob, key])
