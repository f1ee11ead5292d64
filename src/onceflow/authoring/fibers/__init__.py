"""Durable fibers: Python functions whose continuation is data.

A function that is decorated with `@fiber` is rewritten, so that wherever it waits it can be saved as bytes and go on in
another process. It stays a native coroutine with native variables and native `try`, `with` and `for`; so exceptions,
tracebacks, debuggers and coverage are the interpreter's own, and code that does not wait runs at its usual speed.

    lowering/      what the interpreter keeps on its hidden stack across an await gets a name
    guards         how the function is entered again in the middle
    liveness       which variables need not be saved
    compiling      from a source to code and a table of points
    definitions    which durable functions there are, in which versions
    frames         what there is to save of a paused coroutine
    pickling       how that becomes bytes; rebuilding is the way back
    snapshots      the envelope around it
    running        Fiber: from one operation to the next
    changes        code that was edited while fibers are parked in it; needs is what that may have lost

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
