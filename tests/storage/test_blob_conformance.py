"""What holds for blobs wherever they are kept: in a folder, in an object store that speaks S3's protocol, in memory."""

from __future__ import annotations

import os
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onceflow.errors import StorageDamaged
from onceflow.storage import object_store
from onceflow.storage.blob_stores import open_store
from onceflow.storage.blobs import Author, Blobs, Statistics
from onceflow.storage.object_store import ObjectStoreBlobs

AUTHOR = Author("run", 3, "engine")

MB = 1024 * 1024


@pytest.fixture(params=["folder", "file", "s3", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs | ObjectStoreBlobs:
    match request.param:
        case "folder":
            return open_store(str(tmp_path))
        case "file":
            return open_store(f"file://{tmp_path}/far")
        case "memory":
            return open_store("memory:///")
        case _:
            return open_store(request.getfixturevalue("s3").create_bucket())


def references(blobs: Blobs | ObjectStoreBlobs) -> list[str]:
    return sorted(file.reference for run in blobs.folders() for file in blobs.files(run))


def test_a_blob_is_read_and_mapped_as_it_was_written(blobs: Blobs) -> None:
    data = os.urandom(200_000)

    reference = blobs.write(AUTHOR, "node.1.0", [data[:7], memoryview(data)[7:100_000], bytearray(data[100_000:])])

    assert blobs.read(reference) == data
    assert blobs.map(reference) == data
    assert references(blobs) == [reference]
    assert reference.endswith(f"run/3.engine.200000-{zlib.crc32(data):08x}.node.1.0")


def test_what_is_mapped_may_be_written_to_and_nobody_sees_it(blobs: Blobs) -> None:
    reference = blobs.write(AUTHOR, "node", [b"12345"])

    blobs.map(reference)[:2] = b"xx"

    assert blobs.read(reference) == b"12345"


def test_what_is_written_and_read_is_counted(blobs: Blobs) -> None:
    reference = blobs.write(AUTHOR, "node", [b"12345", b"678"])
    blobs.read(reference)
    blobs.map(reference)
    blobs.note_written(100)

    assert blobs.statistics() == Statistics(written=2, written_bytes=108, read=2, read_bytes=16)


def test_an_empty_blob_is_a_blob(blobs: Blobs) -> None:
    reference = blobs.write(AUTHOR, "node", [b"", b""])

    assert blobs.read(reference) == b""
    assert blobs.map(reference) == b""
    assert references(blobs) == [reference]


def test_arrays_are_written_as_their_bytes(blobs: Blobs) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(12, dtype="u1").reshape(3, 4)

    reference = blobs.write(AUTHOR, "n", [memoryview(array), pickle.PickleBuffer(array.T), numpy.zeros((0, 3)).data])

    assert blobs.read(reference) == bytes(range(12)) * 2


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("size", [object_store.PART, object_store.LARGE, 2 * object_store.LARGE + 12_345])
def test_a_large_blob_is_whole(blobs: Blobs, size: int, pieces: int) -> None:
    data = os.urandom(MB) * (size // MB) + os.urandom(size % MB)
    step = -(-size // pieces)

    reference = blobs.write(AUTHOR, "node", [memoryview(data)[n : n + step] for n in range(0, size, step)])

    assert blobs.map(reference) == data


@pytest.mark.parametrize("name", ["loop~2/step.1.0", "../../up", ".hidden", "ünï/✓ %", "n" * 1_000, "a/" * 200])
def test_any_name_makes_a_blob_in_the_folder_of_the_run(blobs: Blobs, name: str) -> None:
    one, other = blobs.write(AUTHOR, name, [b"one"]), blobs.write(AUTHOR, name + "x", [b"two"])

    assert (blobs.read(one), blobs.read(other)) == (b"one", b"two")
    assert references(blobs) == sorted([one, other])
    assert blobs.folders() == ["run"]


@pytest.mark.parametrize("run", ["plain", "_x", "a-b.c", "0"])
def test_any_run_has_a_folder_of_its_own(blobs: Blobs, run: str) -> None:
    reference = blobs.write(Author(run, 1, "engine"), "node", [b"1"])

    assert blobs.folders() == [run]
    assert [file.reference for file in blobs.files(run)] == [reference]
    assert blobs.read(reference) == b"1"


def test_a_run_is_not_taken_for_another_that_is_called_nearly_the_same(blobs: Blobs) -> None:
    of_1, of_10 = [blobs.write(Author(run, 1, "engine"), "node", [b"1"]) for run in ("run1", "run10")]

    assert [file.reference for file in blobs.files("run1")] == [of_1]
    blobs.delete_run("run1")

    assert references(blobs) == [of_10]


def test_a_missing_blob_is_an_error_and_not_a_value(blobs: Blobs) -> None:
    reference = blobs.write(AUTHOR, "node", [b"0123456789"])
    blobs.delete(reference)
    blobs.delete(reference)

    with pytest.raises(StorageDamaged, match="missing"):
        blobs.read(reference)


def test_a_blob_that_is_written_twice_is_there_once(blobs: Blobs) -> None:
    """Its writer died, and the next one does it again."""
    first = blobs.write(AUTHOR, "node", [b"0123456789"])
    again = blobs.write(AUTHOR, "node", [b"0123456789"])

    assert first == again
    assert references(blobs) == [first]
    assert blobs.read(first) == b"0123456789"


def test_a_mapped_blob_stays_readable_when_its_run_is_deleted(blobs: Blobs) -> None:
    view = blobs.map(blobs.write(AUTHOR, "node", [b"0123456789"]))

    blobs.delete_run("run")
    blobs.delete_run("run")

    assert references(blobs) == []
    assert bytes(view) == b"0123456789"
    assert blobs.read(blobs.write(AUTHOR, "again", [b"1"])) == b"1"


def test_files_tell_who_wrote_them(blobs: Blobs) -> None:
    blobs.write(AUTHOR, "node", [b"0123456789"])

    (file,) = blobs.files("run")

    assert (file.epoch, file.engine, file.size) == (3, "engine", 10)


def test_everything_can_be_listed_at_once(blobs: Blobs) -> None:
    authors = [Author(run, 1, "engine") for run in ("run1", "run10", "a-b")]
    written = {author.run: [blobs.write(author, f"n.{n}", [b"1"]) for n in range(2)] for author in authors}

    found = {run: sorted(file.reference for file in files) for run, files in blobs.by_run()}

    assert found == written


def test_many_threads_write_read_and_delete_at_once(blobs: Blobs) -> None:
    def work(number: int) -> bool:
        author = Author(f"run{number % 3}", 1, "engine")
        kept = blobs.write(author, f"kept.{number}", [b"%d" % number])
        gone = blobs.write(author, f"gone.{number}", [b"%d" % number])
        blobs.delete(gone)
        return blobs.read(kept) == b"%d" % number

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(24)))

    assert len(references(blobs)) == 24
