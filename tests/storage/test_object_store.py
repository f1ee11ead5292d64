"""Blobs in an object store that fails: nothing is lost, nothing counts that is not there."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
import zlib
from pathlib import Path

import pytest

from onceflow.errors import StorageDamaged, StorageError, StorageReadOnly
from onceflow.storage import blob_urls, object_store
from onceflow.storage.blob_stores import Stores
from onceflow.storage.blobs import Author
from onceflow.storage.object_store import ObjectStoreBlobs
from onceflow.testing.servers.failing import FailingProxy, Fault, Request
from onceflow.testing.servers.s3 import S3Server

AUTHOR = Author("run", 3, "engine")
LARGE = os.urandom(1024) * (3 * object_store.LARGE // 1024)


def opened(url: str) -> ObjectStoreBlobs:
    return blob_urls.open_object_store(url)


def references(blobs: ObjectStoreBlobs) -> list[str]:
    return [file.reference for run in blobs.folders() for file in blobs.files(run)]


def uploads(server: S3Server, url: str) -> int:
    """How many uploads in parts were begun and neither finished nor taken back."""
    bucket = url.removeprefix("s3://").partition("/")[0]
    with urllib.request.urlopen(f"{server.address}/{bucket}?uploads") as answer:
        return int(answer.read().count(b"<UploadId>"))


@pytest.mark.parametrize("fault", ["error", "cut", "no answer", "half an answer"])
@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_each_request_may_fail_once(s3: S3Server, fault: Fault, content: bytes) -> None:
    """The first time for each method and path, as far as the proxy can tell them apart."""
    seen: set[tuple[str, str]] = set()

    def first_time(request: Request) -> Fault | None:
        known = (request.method, request.path.partition("uploadId")[0])
        if known in seen:
            return None
        seen.add(known)
        return fault

    with FailingProxy(s3.address, first_time) as proxy:
        blobs = opened(s3.create_bucket(proxy.address))

        reference = blobs.write(AUTHOR, "node", [content])

        assert blobs.map(reference) == content
        assert references(blobs) == [reference]
        blobs.delete(reference)
        assert references(blobs) == []
        assert proxy.counts[fault] >= 4


def test_a_put_whose_answer_was_lost_is_recognised_as_ones_own(s3: S3Server) -> None:
    """1. The put arrives, its answer does not. 2. It is tried again, and the name is taken. 3. A look: it is there."""
    requests: list[Request] = []

    def lose_the_first_answer(request: Request) -> Fault | None:
        requests.append(request)
        return "no answer" if request.number == 1 else None

    with FailingProxy(s3.address, lose_the_first_answer) as proxy:
        blobs = opened(s3.create_bucket(proxy.address))

        reference = blobs.write(AUTHOR, "node", [b"12345"])

    assert [request.method for request in requests] == ["PUT", "PUT", "HEAD"]
    assert reference.endswith("node")


def test_a_server_that_never_answers_is_given_up(s3: S3Server) -> None:
    with FailingProxy(s3.address, lambda request: "silence") as proxy:
        blobs = opened(s3.create_bucket(proxy.address, timeout="200ms", patience="0.3"))

        with pytest.raises(StorageError, match="node of run run cannot be saved") as caught:
            blobs.write(AUTHOR, "node", [b"12345"])

    assert caught.value.path == f"{blobs.url}/run/3.engine.5-{zlib.crc32(b'12345'):08x}.node"


def test_something_else_under_the_name_of_a_blob_is_damage(s3: S3Server) -> None:
    import obstore

    blobs = opened(s3.create_bucket())
    reference = blobs.write(AUTHOR, "node", [b"12345"])
    obstore.put(blobs._store, reference.removeprefix(blobs.url + "/"), b"123")

    with pytest.raises(StorageDamaged, match="something else of 3 bytes is there"):
        blobs.write(AUTHOR, "node", [b"12345"])
    with pytest.raises(StorageDamaged, match="3 bytes instead of 5"):
        blobs.read(reference)


def test_a_large_blob_that_cannot_be_finished_leaves_no_parts(s3: S3Server) -> None:
    """Parts arrive, but the last request, which makes a blob of them, is refused for good."""

    def refuse_the_end(request: Request) -> Fault | None:
        return "error" if request.method == "POST" and "uploadId" in request.path else None

    with FailingProxy(s3.address, refuse_the_end) as proxy:
        url = s3.create_bucket(proxy.address, patience="0.2")
        blobs = opened(url)

        with pytest.raises(StorageError, match="SlowDown"):
            blobs.write(AUTHOR, "node", [LARGE])

        assert references(blobs) == []
    assert uploads(s3, url) == 0


def test_a_bucket_that_does_not_exist_is_said_to_be_missing(s3: S3Server) -> None:
    blobs = opened(s3.create_bucket(patience="0.2").replace("s3://", "s3://no-"))

    with pytest.raises(StorageError, match="NoSuchBucket"):
        blobs.write(AUTHOR, "node", [b"1"])
    with pytest.raises(StorageError, match="NoSuchBucket") as caught:
        blobs.read(f"{blobs.url}/run/3.engine.1-00000000.node")
    assert not isinstance(caught.value, StorageDamaged)


def test_a_probe_leaves_nothing(s3: S3Server) -> None:
    import obstore

    blobs = opened(s3.create_bucket())

    blobs.probe()

    assert obstore.list(blobs._store).collect() == []


def test_a_store_that_overwrites_what_it_should_not_is_found_out(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    blobs = opened(s3.create_bucket())
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, path, content, **others: put(store, path, content))

    with pytest.raises(StorageError, match="needs conditional puts"):
        blobs.probe()


def test_a_store_without_conditional_puts_can_be_used_if_one_says_so(s3: S3Server) -> None:
    blobs = opened(s3.create_bucket(conditional_put="disabled"))

    blobs.probe()
    first, again = blobs.write(AUTHOR, "node", [b"1"]), blobs.write(AUTHOR, "node", [b"1"])

    assert first == again


def test_errors_do_not_tell_signatures() -> None:
    from onceflow.storage import obstore_errors

    error = ValueError("Error performing PUT https://host/container/x?sv=1&sig=secret in 5 ms")

    assert obstore_errors.said(error) == "Error performing PUT https://host/container/x in 5 ms"


def test_refusals_are_told_apart_from_what_passes() -> None:
    from obstore import exceptions

    from onceflow.storage import obstore_errors

    calls = 0

    def denied() -> None:
        nonlocal calls
        calls += 1
        raise exceptions.PermissionDeniedError("Server returned non-2xx status code: 403 Forbidden")

    with pytest.raises(StorageReadOnly, match="403"):
        obstore_errors.retry(denied, "s3://bucket/x", "it cannot be saved", 60)
    assert calls == 1


def test_what_is_discarded_is_deleted_in_the_background(s3: S3Server, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    stores = Stores(tmp_path / "blobs", s3.create_bucket(), "journal")
    reference = stores.write(AUTHOR, "node", [b"12345"])

    stores.discard(reference)
    stores.close()

    assert list(stores.files("run")) == []


def test_what_cannot_be_discarded_is_left_as_an_orphan(s3: S3Server, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    with FailingProxy(s3.address, lambda request: "error" if request.method in ("DELETE", "POST") else None) as proxy:
        stores = Stores(tmp_path / "blobs", s3.create_bucket(proxy.address, patience="0.1"), "journal")
        kept = [stores.write(AUTHOR, f"node.{number}", [b"12345"]) for number in range(3)]

        for reference in kept:
            stores.discard(reference)
        stores.close()

        assert sorted(file.reference for file in stores.files("run")) == kept


BOUNDED = """
import mmap, os, resource, sys
from onceflow.storage.blobs import Author
from onceflow.storage.blob_stores import open_store
blobs = open_store(sys.argv[1])
blobs.read(blobs.write(Author("run", 1, "engine"), "warm.up", [os.urandom(1 << 20) * 40]))
size = 160 << 20
shared = mmap.mmap(-1, size)
for start in range(0, size, 1 << 20):
    shared[start : start + (1 << 20)] = bytes([start >> 20]) * (1 << 20)
taken = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (taken + (96 << 20), taken + (96 << 20)))
reference = blobs.write(Author("run", 1, "engine"), "large", [shared])
target = mmap.mmap(-1, size)
blobs.fill(reference, memoryview(target))
for start in range(0, size, 1 << 20):
    assert target[start : start + (1 << 20)] == shared[start : start + (1 << 20)]
print("whole")
"""
"""`mmap` with -1 is shared memory: it does not count as data of the process."""


def test_a_large_blob_is_written_and_read_with_little_memory_beside_its_own(s3: S3Server) -> None:
    """Given 160 MiB, the process may take 96 MiB more than it has for anything but these."""
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, s3.create_bucket()], stdout=subprocess.PIPE, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "whole\n")
