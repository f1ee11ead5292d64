"""Blobs in a folder: whole, durable, or not there. What holds for any place is in `test_blob_conformance`."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import pytest

from onceflow.errors import StorageDamaged, StorageError, StorageFull
from onceflow.storage.blobs import Author, Blobs

AUTHOR = Author("run", 3, "engine")


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_a_blob_is_read_mapped_and_opened_as_it_was_written(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    data = os.urandom(200_000)

    reference = blobs.write(AUTHOR, "node.1.0", [data[:7], memoryview(data)[7:100_000], bytearray(data[100_000:])])

    assert blobs.read(reference) == data
    assert blobs.map(reference) == data
    with blobs.open(reference) as file:
        assert file.read(10) == data[:10]
    assert files(tmp_path) == [reference] == [f"run/3.engine.200000-{zlib.crc32(data):08x}.node.1.0"]


def test_more_buffers_than_one_system_call_takes_are_written(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)

    reference = blobs.write(AUTHOR, "node", [b"%d," % number for number in range(5_000)])

    assert blobs.read(reference) == b"".join(b"%d," % number for number in range(5_000))


def test_a_system_that_writes_only_some_bytes_at_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = Blobs(tmp_path)
    monkeypatch.setattr(os, "pwritev", lambda file, views, offset: os.pwrite(file, b"".join(views)[:5], offset))

    reference = blobs.write(AUTHOR, "node", [b"abc", b"defghij", b"k", b"lmnop"])

    assert blobs.read(reference) == b"abcdefghijklmnop"


@pytest.mark.parametrize("name", ["loop~2/step.1.0", "../../up", ".hidden", "ünï/✓", "n" * 1_000, "a/" * 200])
def test_any_name_makes_a_file_in_the_folder_of_the_run(tmp_path: Path, name: str) -> None:
    blobs = Blobs(tmp_path)

    one, other = blobs.write(AUTHOR, name, [b"one"]), blobs.write(AUTHOR, name + "x", [b"two"])

    assert (blobs.read(one), blobs.read(other)) == (b"one", b"two")
    assert files(tmp_path) == sorted([one, other])
    assert all(reference.startswith("run/") and reference.count("/") == 1 for reference in (one, other))


def test_a_missing_or_shortened_blob_is_an_error_and_not_a_value(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    reference = blobs.write(AUTHOR, "node", [b"0123456789"])
    for length in range(10):
        os.truncate(tmp_path / reference, length)
        with pytest.raises(StorageDamaged, match=f"{length} bytes instead of 10"):
            blobs.map(reference)

    blobs.delete(reference)
    blobs.delete(reference)
    with pytest.raises(StorageDamaged, match="missing"):
        blobs.read(reference)


@pytest.mark.parametrize(
    ("call", "number"), [("pwritev", errno.ENOSPC), ("fsync", errno.EDQUOT), ("rename", errno.EIO)]
)
def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    blobs = Blobs(tmp_path)
    kept = blobs.write(AUTHOR, "kept", [b"1"])

    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageError) as caught:
            blobs.write(AUTHOR, "node", [b"0123456789"])

    assert isinstance(caught.value, StorageFull) == (number != errno.EIO)
    assert files(tmp_path) == [kept]


def test_file_and_names_are_synced_before_the_reference_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = Blobs(tmp_path)
    calls: list[str] = []

    def path_of(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def sync(descriptor: int, original: object = os.fsync) -> None:
        name = path_of(descriptor)
        calls.append("sync a temporary file" if "/~" in name else f"sync {os.path.basename(name)}")
        original(descriptor)  # type: ignore[operator]

    def rename(old: str, new: str, original: object = os.rename) -> None:
        calls.append("rename")
        original(old, new)  # type: ignore[operator]

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    blobs.write(AUTHOR, "one", [b"1"])
    blobs.write(AUTHOR, "two", [b"2"])

    each = ["sync a temporary file", "rename", "sync run"]
    assert calls == [f"sync {tmp_path.name}", *each, *each]


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.delete(blobs.write(AUTHOR, "one", [b"1"]))
    Blobs(tmp_path).remove_folder("run")

    assert blobs.read(blobs.write(AUTHOR, "two", [b"2"])) == b"2"


def test_without_its_own_folder_writing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        Blobs(tmp_path / "gone").write(AUTHOR, "one", [b"1"])


def test_files_of_others_are_not_taken_for_blobs(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "readme").write_text("mine")
    blobs = Blobs(tmp_path)

    assert [file for run in blobs.folders() for file in blobs.files(run)] == []
