"""The instructions of a `Run` to its driver. Commands are carried out in order.

**Durable commands.** A command whose `durable` is true reaches the world outside, so it is carried out only after
every record that was appended before it has been committed. All others may be carried out at once: if a crash takes
the records before them, it takes what they did as well. That is all the driver needs to know about waiting for saves,
and why a *begun* record shares the commit of the saves it waits for.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from onceflow.core.model import records
from onceflow.errors import OnceflowError

Status = records.Status


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append this record to the journal (together with the value, for `records.Saved`)."""

    record: records.Record
    durable: ClassVar[bool] = False


class Start(msgspec.Struct, frozen=True, gc=False):
    """Start an attempt of the node. `private`: only an undo may read its output."""

    node: str
    attempt: int
    durable: bool
    private: bool = False


class Ask(msgspec.Struct, frozen=True, gc=False):
    """The node could start, and needs admission. Answered by `Admitted`."""

    node: str
    durable: ClassVar[bool] = False


class Stop(msgspec.Struct, frozen=True, gc=False):
    """End this attempt. Answered by `Ended` (or by `Finished` or `Raised` if it was quicker)."""

    node: str
    attempt: int
    durable: ClassVar[bool] = False


class Withdraw(msgspec.Struct, frozen=True, gc=False):
    """If no worker has started this attempt yet, none shall: answered by `Ended(started=False)`. If one has, it goes
    on, and is answered as ever."""

    node: str
    attempt: int
    durable: ClassVar[bool] = False


class Save(msgspec.Struct, frozen=True, gc=False):
    """Bring this part of the output to where it survives. Answered by `Saved` or `SaveFailed`. Asked again if that
    failed; and for a ref that was lost and is shared again, whatever has become of the save before."""

    node: str
    part: int
    attempt: int
    durable: ClassVar[bool] = False


class Give(msgspec.Struct, frozen=True, gc=False):
    """The output of this attempt is what a handler gave when `cause` failed. It never ran."""

    node: str
    attempt: int
    cause: str
    durable: ClassVar[bool] = False


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Wait as the retry policy says after this many failures. Answered by `Elapsed`."""

    node: str
    attempt: int
    failures: int
    durable: ClassVar[bool] = False


class Undo(msgspec.Struct, frozen=True, gc=False):
    """Call the rollback function. `finished` is the attempt whose output it may see, None if no attempt finished."""

    node: str
    attempt: int
    finished: int | None
    durable: ClassVar[bool] = True


class Drop(msgspec.Struct, frozen=True, gc=False):
    """Forget what attempts up to this one left of the node's output and its saves: they belong to a past that is no
    longer true. (By the time it is carried out, the node may be running again.)"""

    node: str
    through: int
    durable: ClassVar[bool] = True


class Release(msgspec.Struct, frozen=True, gc=False):
    """No task can need this output in memory any more (its saves stay). `private`: the one rebuilt for undos."""

    node: str
    private: bool = False
    durable: ClassVar[bool] = False


class Need(msgspec.Struct, frozen=True, gc=False):
    """For a run over a part of a graph: a member needs the lost output of this node outside it. Answered by `Given`."""

    node: str
    durable: ClassVar[bool] = False


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """The value that this attempt returned is invalid: the attempt counts as having raised this error, for good."""

    node: str
    attempt: int
    error: OnceflowError
    durable: ClassVar[bool] = False


class Stuck(msgspec.Struct, frozen=True, gc=False):
    """No node of the run can make progress. The run fails, and this node counts as having failed with this error."""

    node: str
    error: OnceflowError
    durable: ClassVar[bool] = False


class Park(msgspec.Struct, frozen=True, gc=False):
    """The undo of this node keeps failing: the run waits for a user (`RetryUndo`)."""

    node: str
    durable: ClassVar[bool] = True


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The run is over. `failed`: nodes whose failure ended it. `kept`: undoable effects that were kept because
    something irrevocable has begun below them. `uncertain`: irrevocable attempts that were ended and may have
    happened."""

    status: Status
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    durable: ClassVar[bool] = True


Command = (
    Append
    | Start
    | Ask
    | Stop
    | Withdraw
    | Save
    | Give
    | Wait
    | Undo
    | Drop
    | Release
    | Need
    | Refuse
    | Stuck
    | Park
    | Finish
)
