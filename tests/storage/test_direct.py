"""Writing past the page cache: the same bytes, whatever the memory and the file system can do."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.storage import direct_io

PAGE = mmap.PAGESIZE


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    yield descriptor
    os.close(descriptor)


def aligned(data: bytes) -> memoryview:
    memory = mmap.mmap(-1, len(data) + PAGE)
    memory[: len(data)] = data
    return memoryview(memory)[: len(data)]


@pytest.mark.parametrize("size", [1, PAGE, 3 * PAGE + 7, direct_io.CHUNK + PAGE + 1])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("offset", [0, PAGE, 10])
def test_all_bytes_are_written_where_they_belong(file: int, size: int, shift: int, offset: int) -> None:
    data = os.urandom(size + shift)
    flags = fcntl.fcntl(file, fcntl.F_GETFL)

    direct_io.write(file, aligned(data)[shift:], offset)

    assert os.pread(file, size + 100, offset) == data[shift:]
    assert os.fstat(file).st_size == offset + size
    assert fcntl.fcntl(file, fcntl.F_GETFL) == flags


def test_a_file_system_that_cannot_do_it_is_written_as_usual(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.fcntl

    def refuse(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL and argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    direct_io.write(file, aligned(b"x" * (2 * PAGE)))

    assert os.pread(file, 3 * PAGE, 0) == b"x" * (2 * PAGE)


def test_a_system_that_writes_only_some_bytes_at_once_is_asked_again(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(20 * PAGE)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, view, offset: real(file, bytes(view)[: PAGE + 100], offset))

    direct_io.write(file, aligned(data))

    assert os.pread(file, 21 * PAGE, 0) == data


def test_a_full_disk_is_an_error(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)

    with pytest.raises(OSError, match="No space left"):
        direct_io.write(file, aligned(b"x" * PAGE))
