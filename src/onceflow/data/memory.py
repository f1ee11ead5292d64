"""Shared memory: what the standard library does not offer.

`mmap.mmap` keeps a descriptor for as long as something is mapped, and a process may have few of them. What is mapped
here needs none.

A sealed segment cannot be written through any descriptor or mapping that is made from now on, nor change its size.
Mappings that were made before stay writable: that of the worker which fills it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import pickle
import resource
import sys
from collections.abc import Callable, Iterator

from onceflow.data.places import whole_pages

_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
_SIZE = 0x2 | 0x4
"""F_SEAL_SHRINK, F_SEAL_GROW."""
_FUTURE_WRITE = 0x10
_SEAL = 0x1

_MADV_POPULATE_WRITE = 23

_FAILED = ctypes.c_void_p(-1).value

_library = ctypes.CDLL(None, use_errno=True)
_library.mmap.restype = ctypes.c_void_p
_library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of_memory.restype = ctypes.py_object
_view_of_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_PYBUF_WRITE = 0x200


def anonymous_file(name: str) -> int:
    """A descriptor of memory that exists as long as a process has it open. `name` is what the kernel shows."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    import tempfile  # slow to import, and not needed on Linux

    descriptor, path = tempfile.mkstemp(prefix=f"{name}-")
    os.unlink(path)
    return descriptor


def seal(descriptor: int) -> None:
    """From now on it can be changed only through a mapping that exists already. Systems that cannot forbid writing
    (Linux before 5.1, gVisor) keep at least its size; where there is no `memfd`, readers only promise to change
    nothing."""
    if hasattr(os, "memfd_create"):
        try:
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _SIZE | _FUTURE_WRITE | _SEAL)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _SIZE | _SEAL)


class Writable:
    """The memory of a segment as its owner sees it. The caller that closes it must make sure that it is unused."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._address = _map(descriptor, 0, size, mmap.PROT_READ | mmap.PROT_WRITE)
        self.size = size
        self.view: memoryview = _view_of_memory(self._address, size, _PYBUF_WRITE)

    def populate(self, offset: int, size: int) -> None:
        """Makes sure that there is memory; raises if there is none left (otherwise writing would be fatal)."""
        if _library.madvise(self._address + offset, whole_pages(size), _MADV_POPULATE_WRITE):
            code = ctypes.get_errno()
            if code != errno.EINVAL:  # an older kernel, or another one: it does without
                raise OSError(errno.ENOMEM if code == errno.EFAULT else code, os.strerror(code))

    def close(self) -> None:
        self.view.release()
        unmap(self._address, self.size)


@contextlib.contextmanager
def sealed_file(name: str) -> Iterator[int]:
    """A descriptor of a new segment, which is sealed when it has been written. Closed if writing it raises."""
    descriptor = anonymous_file(name)
    try:
        yield descriptor
        seal(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def filled(name: str, size: int, fill: Callable[[memoryview], None]) -> int:
    """A descriptor of a sealed segment of this size, which `fill` has written. Raises if there is no memory left."""
    with sealed_file(name) as descriptor:
        os.ftruncate(descriptor, size)
        if size:
            writable = Writable(descriptor, whole_pages(size))
            try:
                writable.populate(0, size)
                fill(writable.view[:size])
            finally:
                writable.close()
    return descriptor


def map_readable(descriptor: int, offset: int, size: int) -> int:
    """The address at which it is mapped, read-only."""
    return _map(descriptor, offset, size, mmap.PROT_READ)


def read_ahead(address: int, size: int) -> None:
    """All of it will be needed soon. (It comes from a disk.)"""
    _library.madvise(address, size, mmap.MADV_WILLNEED)


def unmap(address: int, size: int) -> None:
    _library.munmap(address, size)


def is_sealed(descriptor: int) -> bool:
    """Whether it is one of ours: its size will not change."""
    try:
        seals: int = fcntl.fcntl(descriptor, _F_GET_SEALS)
    except OSError:  # a file
        return False
    return seals & _SIZE == _SIZE


Room = ctypes.Array[ctypes.c_ubyte]
"""Some memory, as an object that lives as long as it is referenced."""


def room(address: int, size: int) -> Room:
    """Of the memory at this address at least so much as was asked for: see `view`."""
    return _type_of(size).from_address(address)


def view(room: Room, size: int) -> memoryview:
    """Its first bytes, read-only. (Of ctypes' own formats memoryview can make little; this is plain bytes.)"""
    return pickle.PickleBuffer(room).raw()[:size].toreadonly()


_types: dict[int, type[Room]] = {}


def _type_of(length: int) -> type[Room]:
    """An array of at least so many bytes: few types, because making one takes longer than mapping."""
    bits = (length - 1).bit_length()
    found = _types.get(bits)
    if found is None:
        found = _types[bits] = ctypes.c_ubyte * (1 << bits)
    return found


def _map(descriptor: int, offset: int, size: int, protection: int) -> int:
    address: int = _library.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, offset)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return address


def raise_descriptor_limit() -> int:
    """This process may have as many descriptors as the system allows it; returns how many. Not for a user's process:
    there may be code in it that goes through all possible descriptors, or that uses `select`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS takes no number beyond its own limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
