"""Snapshots: fibers as bytes.

    FBR1 | flags | ABI | HMAC-SHA256, if signed | length of the header | header | body

The header is JSON and says where the fiber stands, for tools that must not unpickle anything. The body is a pickle of
all frames, innermost first, so that each refers to one that is already there. With a key, the snapshot is signed
together with whatever the caller binds it to (the fiber's id and a sequence number, say): loading it elsewhere fails.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from onceflow.authoring.fibers import culprits, description, frames, pickling, rebuilding
from onceflow.authoring.fibers.description import FrameInfo
from onceflow.authoring.fibers.points import ABI
from onceflow.errors import BadSnapshot, OnceflowError

UNSIGNED = b"FBR1\0"
SIGNED = b"FBR1\1"
DIGEST = 32
_encode = msgspec.json.Encoder().encode
LARGEST_FULL = 16_384
"""Bytes. A larger snapshot leaves out what cannot be read any more."""
PYTHON = "{}.{}".format(*sys.version_info)


def dumps(
    routine: Any, op: Any, *, full: bool, key: bytes | None, bound_to: bytes, aside: pickling.Aside | None = None
) -> bytes:
    """Raises NotPersistable."""
    chain = list(frames.chain(routine))
    body = _body(chain, routine, full, aside)
    header = _encode({"python": PYTHON, "frames": [_told(frame) for frame in chain], "op": description.short(op)})
    content = b"".join((bytes((ABI,)), len(header).to_bytes(4, "big"), header, body))
    if key is None:
        return UNSIGNED + content
    return b"".join((SIGNED, _digest(key, content, bound_to), content))


def _told(frame: frames.Paused) -> dict[str, Any]:
    version, point = frame.definition.version, frame.point
    return {
        "ref": version.ref,
        "version": version.version,
        "file": version.file,
        "line": frame.line,
        "label": point.label if point else None,
        "locals": description.shown(frame),
    }


def _body(chain: list[frames.Paused], routine: Any, full: bool, aside: pickling.Aside | None) -> bytes:
    innermost_first = chain[::-1]
    if full:
        try:
            body = pickling.dumps(innermost_first, full=True, aside=aside)
        except Exception:
            body = None  # a variable that cannot be read any more may be what cannot be saved
        if body is not None and len(body) <= LARGEST_FULL:
            return body
    if aside is not None:
        aside.handles.clear()
    try:
        return pickling.dumps(innermost_first, full=False, aside=aside)
    except Exception as error:
        raise culprits.explain(routine, error, None if aside is None else aside.kind) from error


def loads(
    data: bytes, *, key: bytes | None, bound_to: bytes, allow: Iterable[type] | None, handles: Sequence[Any] = ()
) -> tuple[Any, bool]:
    """The outermost coroutine, which goes to where it stood when it is started, and whether that is in the midst of
    it."""
    body = _verified(data, key, bound_to)
    before, loading = rebuilding.begin(handles)
    try:
        outermost = pickling.loads(body, allow, loading)[-1]
        rebuilding.finish(loading)
    except Exception as error:
        rebuilding.abandon(loading)
        if isinstance(error, OnceflowError):
            raise
        raise BadSnapshot(f"snapshot cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        rebuilding.end(before)
    return outermost, loading.frames[id(outermost)].number > 0


def _verified(data: bytes, key: bytes | None, bound_to: bytes) -> bytes:
    """The body of the snapshot."""
    content = _content(data)
    if data.startswith(SIGNED):
        if key is None:
            raise BadSnapshot("the snapshot is signed: loading it takes the key")
        given = data[len(SIGNED) : len(SIGNED) + DIGEST]
        if not hmac.compare_digest(given, _digest(key, content, bound_to)):
            raise BadSnapshot("the snapshot was changed, belongs to another fiber, or was signed with another key")
    elif key is not None:
        raise BadSnapshot("the snapshot is not signed, and only signed ones are loaded with a key")
    return body_of(data)


def _content(data: bytes) -> bytes:
    """ABI, header and body."""
    if data.startswith(SIGNED):
        content = data[len(SIGNED) + DIGEST :]
    elif data.startswith(UNSIGNED):
        content = data[len(UNSIGNED) :]
    else:
        raise BadSnapshot("these bytes are not a snapshot of a fiber")
    if len(content) < 5:
        raise BadSnapshot("these bytes are not a whole snapshot of a fiber")
    if content[0] > ABI:
        raise BadSnapshot(f"the snapshot has ABI {content[0]}, and this onceflow knows up to {ABI}")
    return content


def _digest(key: bytes, content: bytes, bound_to: bytes) -> bytes:
    return hmac.digest(key, hashlib.sha256(bound_to).digest() + content, "sha256")


def header_of(data: bytes) -> dict[str, Any]:
    """What a snapshot records about itself. Nothing is unpickled, and nothing verified."""
    content = _content(data)
    try:
        header: dict[str, Any] = json.loads(content[5 : 5 + int.from_bytes(content[1:5], "big")])
        return {"abi": content[0], **header}
    except (ValueError, TypeError, RecursionError) as error:
        raise BadSnapshot("the header of the snapshot cannot be read") from error


def body_of(data: bytes) -> bytes:
    """The pickles of a snapshot. Nothing is verified."""
    content = _content(data)
    return content[5 + int.from_bytes(content[1:5], "big") :]


def describe_snapshot(data: bytes) -> list[FrameInfo]:
    """Where the fiber of a snapshot stands, outermost function first. Nothing is unpickled."""
    return [
        FrameInfo(frame["ref"].partition(":")[2], frame["file"], frame["line"], frame["label"], frame["locals"])
        for frame in header_of(data)["frames"]
    ]
