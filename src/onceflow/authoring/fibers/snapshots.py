"""Snapshots: fibers as bytes.

    FBR1 | flags | HMAC-SHA256, if signed | length of the header | header | body

The header is JSON and tells where the fiber stands, for tools that must not unpickle anything. The body is a pickle of
all frames, innermost first, so that each refers to one that is already there. With a key, the snapshot is signed
together with whatever the caller binds it to (the fiber's id and a sequence number, say): loading it elsewhere fails.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Iterable
from typing import Any

from onceflow.authoring.fibers import culprits, describing, frames, pickling, rebuilding
from onceflow.authoring.fibers.describing import FrameInfo
from onceflow.authoring.fibers.points import ABI
from onceflow.errors import BadSnapshot, OnceflowError

MAGIC = b"FBR1"
SIGNED = 1
DIGEST = 32
LARGEST_FULL = 16_384
"""Bytes. A larger snapshot leaves out what nobody can read any more."""
PYTHON = "{}.{}".format(*sys.version_info)


def dumps(routine: Any, op: Any, *, full: bool, key: bytes | None, bound_to: bytes) -> bytes:
    """Raises NotPersistable."""
    chain = list(frames.chain(routine))
    routines = [frame.routine for frame in reversed(chain)]
    body = _body(routines, routine, full)
    described = []
    for frame in chain:
        version, info = frame.definition.version, describing._describe(frame)
        described.append(
            {
                "ref": version.ref,
                "version": version.version,
                "file": info.file,
                "line": info.line,
                "label": info.label,
                "locals": info.locals,
            }
        )
    header = json.dumps({"abi": ABI, "python": PYTHON, "frames": described, "op": describing.short(op)}).encode()
    content = len(header).to_bytes(4, "big") + header + body
    if key is None:
        return MAGIC + b"\0" + content
    return MAGIC + bytes([SIGNED]) + _digest(key, content, bound_to) + content


def _body(routines: list[Any], routine: Any, full: bool) -> bytes:
    if full:
        try:
            body, _ = pickling.dumps(routines, full=True)
        except Exception:
            full = False  # a variable that nobody can read any more may be what cannot be saved
        else:
            if len(body) <= LARGEST_FULL:
                return body
            full = False
    try:
        return pickling.dumps(routines, full=full)[0]
    except Exception as error:
        raise culprits.explain(routine, error, full=full) from error


def loads(data: bytes, *, key: bytes | None, bound_to: bytes, allow: Iterable[type] | None) -> tuple[Any, Any]:
    """The outermost coroutine, which waits, and the operation for which it does."""
    _, body = _opened(data, key, bound_to)
    outer = vars(rebuilding.loading).copy()
    rebuilding.loading.__init__()  # type: ignore[misc]
    try:
        routines = pickling.loads(body, allow)
        rebuilding.finish()
        outermost = routines[-1]
        rebuilding.start_generators(outermost)
    except OnceflowError:
        raise
    except Exception as error:
        raise BadSnapshot(f"snapshot cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        vars(rebuilding.loading).update(outer)
    return outermost, outermost.send(None)


def _opened(data: bytes, key: bytes | None, bound_to: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + 1
    if data[: len(MAGIC)] != MAGIC or len(data) < start + 4:
        raise BadSnapshot("these bytes are not a snapshot of a fiber")
    if data[start - 1] & SIGNED:
        if key is None:
            raise BadSnapshot("the snapshot is signed: loading it takes the key")
        given, content = data[start : start + DIGEST], data[start + DIGEST :]
        if not hmac.compare_digest(given, _digest(key, content, bound_to)):
            raise BadSnapshot("the snapshot was changed, belongs to another fiber, or was signed with another key")
    elif key is not None:
        raise BadSnapshot("the snapshot is not signed, and only signed ones are loaded with a key")
    else:
        content = data[start:]
    length = int.from_bytes(content[:4], "big")
    return _header(content[4 : 4 + length]), content[4 + length :]


def _header(text: bytes) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise BadSnapshot("the header of the snapshot cannot be read") from error
    if header["abi"] > ABI:
        raise BadSnapshot(f"the snapshot has ABI {header['abi']}, and this onceflow knows up to {ABI}")
    return header


def _digest(key: bytes, content: bytes, bound_to: bytes) -> bytes:
    return hmac.digest(key, hashlib.sha256(bound_to).digest() + content, "sha256")


def header_of(data: bytes) -> dict[str, Any]:
    """What a snapshot tells of itself. Nothing is unpickled, and nothing verified."""
    start = len(MAGIC) + 1
    if data[: len(MAGIC)] != MAGIC or len(data) < start + 4:
        raise BadSnapshot("these bytes are not a snapshot of a fiber")
    content = data[start + (DIGEST if data[start - 1] & SIGNED else 0) :]
    return _header(content[4 : 4 + int.from_bytes(content[:4], "big")])


def describe_snapshot(data: bytes) -> list[FrameInfo]:
    """Where the fiber of a snapshot stands, outermost function first. Nothing is unpickled."""
    return [
        FrameInfo(frame["ref"].partition(":")[2], frame["file"], frame["line"], frame["label"], frame["locals"])
        for frame in header_of(data)["frames"]
    ]
