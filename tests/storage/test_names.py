"""Names from a journal that was tampered with never become paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow.engine import proof_of_death
from onceflow.errors import StorageDamaged
from onceflow.storage import checksums, logs, names, notifications, sockets
from onceflow.storage.blob_stores import Stores
from onceflow.storage.blob_urls import open_folder, open_object_store
from onceflow.storage.blobs import Author, Blobs
from onceflow.storage.journal import Entry, RunRow
from onceflow.storage.locks import Engines
from onceflow.storage.object_store import ObjectStoreBlobs

IDS = [
    "",
    ".",
    "..",
    "../x",
    "../../x",
    "/etc",
    "a/b",
    "a\0b",
    ".hidden",
    "~a",
    "a\n",
    "a%2F..",
    "ä",
    "a" * 129,
    "a\\b",
]
REFERENCES = [
    "",
    "..",
    "../../x",
    "/etc/passwd",
    "r/../../x",
    "r/1.e.3-352441c2.x/../../../y",
    "../1.e.3-352441c2.x",
    "./1.e.3-352441c2.x",
    "r//1.e.3-352441c2.x",
    "/r/1.e.3-352441c2.x",
    "r/x",
    "r/1.e.3-352441c2.x\0",
    "r/1.e.3-352441c2.x\n",
    "r/1.e.3-352441c2./../x",
    "r/1.e.99999999999999999999-352441c2.x",
    "%2e%2e/1.e.3-352441c2.x",
]


@pytest.mark.parametrize("id", IDS)
def test_an_id_that_is_no_plain_name_is_refused_wherever_it_would_become_a_path(id: str, tmp_path: Path) -> None:
    engines = Engines(tmp_path)
    for use in (
        lambda: names.check_run(id),
        lambda: names.check_engine(id),
        lambda: names.check_identity(id),
        lambda: _read_row(id=id),
        lambda: _read_row(owner=id),
        lambda: logs.of_run(tmp_path, id),
        lambda: logs.Writer(tmp_path, 100).append(id, b"line\n"),
        lambda: Blobs(tmp_path).delete_run(id),
        lambda: Blobs(tmp_path).write(Author(id, 1, "e"), "x", [b"x"]),
        lambda: list(Blobs(tmp_path).files(id)),
        lambda: _memory().delete_run(id),
        lambda: engines.is_alive(id),
        lambda: engines.has(id),
        lambda: engines.ring(id),
        lambda: notifications.ring(tmp_path, id),
        lambda: sockets.connect(tmp_path, id, 1),
        lambda: proof_of_death.are_workers_gone(tmp_path, id),
        lambda: proof_of_death.wait_for_workers(tmp_path, id),
        lambda: proof_of_death.forget(tmp_path, id),
    ):
        with pytest.raises(StorageDamaged, match="no plain name"):
            use()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_that_leads_elsewhere_is_refused_by_every_store(reference: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "blobs"
    folder.mkdir(parents=True)
    (tmp_path / "1.e.3-352441c2.x").write_bytes(b"abc")
    (tmp_path / "a" / "1.e.3-352441c2.x").write_bytes(b"abc")
    linked = open_folder(f"file://{folder}")
    far = _memory()
    for store, prefix in ((Blobs(folder), ""), (linked, f"file://{folder}/"), (far, f"{far.url}/")):
        for use in (store.read, store.map, store.delete):
            with pytest.raises(StorageDamaged, match="this is not the name of a saved value"):
                use(prefix + reference)
    with pytest.raises(StorageDamaged) as caught:
        read("run-7", reference)
    assert caught.value.path == reference
    assert (caught.value.run, caught.value.task) == ("run-7", "n")
    assert "run run-7 refers to this" in str(caught.value)
    assert (tmp_path / "1.e.3-352441c2.x").exists()
    assert (tmp_path / "a" / "1.e.3-352441c2.x").exists()


@pytest.mark.parametrize(
    "reference", ["s3://bucket/prefix/../other/r/1.e.3-352441c2.x", "file:///tmp/j/./r/1.e.3-352441c2.x"]
)
def test_a_url_with_steps_upwards_is_refused_when_it_is_read(reference: str) -> None:
    with pytest.raises(StorageDamaged):
        read("r", reference)


def test_a_reference_to_the_folder_of_another_journal_is_refused(tmp_path: Path) -> None:
    stores = Stores(tmp_path / "own", f"file://{tmp_path}/shared", "mine")
    other = open_folder(f"file://{tmp_path}/shared/other")
    reference = other.write(Author("r", 1, "e"), "x", [b"abc"])
    with pytest.raises(Exception, match="a saved value is there, but blobs are kept at"):
        stores.delete(reference)
    with pytest.raises(StorageDamaged):
        stores.delete(f"file://{tmp_path}/shared/mine/../other/{reference.partition('other/')[2]}")
    assert other.read(reference) == b"abc"


def test_what_stores_write_can_be_read_back(tmp_path: Path) -> None:
    for store in (Blobs(tmp_path), _memory()):
        reference = store.write(Author("r-1", 1, "engine"), "loop~2/ünï ✓%..", [b"abc"])
        assert read("r-1", reference).blob == reference
        assert store.read(reference) == b"abc"


def test_files_of_others_in_the_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".hidden").mkdir()
    assert Blobs(tmp_path).folders() == []
    assert logs.listed(tmp_path) == []
    Engines(tmp_path).remove_dead()
    assert Engines(tmp_path).members() == []
    assert {path.name for path in tmp_path.iterdir()} == {"lost+found", ".hidden"}


def read(run: str, reference: str) -> Entry:
    """An entry that refers to this, with the right checksum."""
    columns = ("saved", "n", b"", None, reference)
    return checksums.check_entry("journal", run, 0, (checksums.of_entry(run, 0, Entry(*columns)), *columns))


def _memory() -> ObjectStoreBlobs:
    pytest.importorskip("obstore")
    return open_object_store("memory:///journal")


def _read_row(id: str = "r", owner: str | None = None) -> RunRow:
    """A row of a run with these names, and with the right checksum."""
    columns = (id, None, "w", "failed", 1, owner, "", 0.0, 0.0, None, None)
    return checksums.check_run("journal", (checksums.of_run(1, 0, columns), 1, 0, *columns))
