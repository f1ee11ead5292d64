"""Durable fibers: Python functions whose continuation is data.

A function that is decorated with `@fiber` is rewritten, so that wherever it waits it can be saved as bytes and go on in
another process. It stays a native coroutine with native variables and native `try`, `with` and `for`; so exceptions,
tracebacks, debuggers and coverage are the interpreter's own, and code that does not wait runs at its usual speed.

- `decorator`: `fiber` and `version_of`
- `sources`: where a function is written, and its name in another process
- `code_hash`: the version of a function's code
- `restrictions`: what a durable function must not contain
- `scopes`: which variables a function has, and which its inner functions share
- `nodes`: helpers for syntax trees
- `lowering`: everything that the interpreter keeps on its hidden stack across an await gets a name
- `assignment`: which variables have a value at an await
- `liveness`: which variables need not be saved
- `guards`: how a function is entered again in the middle
- `compiler`: from a source to code and a table of points
- `points`: points and versions, as data that can be stored
- `definitions`: the durable functions of this process, by name, version and code
- `runtime`: what generated code calls
- `ops`: what a fiber waits for
- `durable_coroutine`: `Fiber`, from one operation to the next
- `frames`: the state of a paused coroutine
- `pickling`: the state of a coroutine as bytes
- `rebuilding`: a coroutine from its bytes; the names of its functions stand in every snapshot
- `snapshots`: the format of a snapshot: header, versions, signature
- `exceptions`: exceptions and tracebacks as data
- `culprits`: which value cannot be saved, in which frame
- `changes`: code that was edited while fibers are parked in it
- `needs`: what edited modules may have lost
- `description`: where a fiber is paused, for users

This is a library of its own: it knows nothing of engines.
"""

from onceflow.authoring.fibers.changes import Move, report
from onceflow.authoring.fibers.decorator import fiber, version_of
from onceflow.authoring.fibers.definitions import register as register_version
from onceflow.authoring.fibers.description import FrameInfo
from onceflow.authoring.fibers.durable_coroutine import Fiber
from onceflow.authoring.fibers.ops import Op
from onceflow.authoring.fibers.points import ABI, Point, Version
from onceflow.authoring.fibers.snapshots import describe_snapshot, header_of

__all__ = [
    "ABI",
    "Fiber",
    "FrameInfo",
    "Move",
    "Op",
    "Point",
    "Version",
    "describe_snapshot",
    "fiber",
    "header_of",
    "register_version",
    "report",
    "version_of",
]
