"""Messages between the engine's pool and the agents of the nodes.

Each call carries a list of messages. Jobs and outcomes are those of the local backend; large values in them are numbers
(`store`).
"""

from __future__ import annotations

import msgspec

from onceflow.backends.local.messages import Job, RefOut
from onceflow.backends.local.reports import Died, Ended, MetLost, Printed, Progressed, Raised
from onceflow.data.places import Live
from onceflow.values.functions import Shipped
from onceflow.values.variables import Step


class Start(msgspec.Struct, tag=1, array_like=True):
    """To an agent: functions it does not know yet, and jobs. `path` is the engine's `sys.path`, if that has changed."""

    functions: list[Shipped]
    jobs: list[Job]
    path: list[str] | None = None


class Follow(msgspec.Struct, tag=2, array_like=True):
    """To an agent: these run behind a job that it was just given, each with the output of the one before it."""

    token: int
    jobs: list[Job]


class Alone(msgspec.Struct, tag=3, array_like=True):
    """To an agent: a job for a worker that has been started for it, and is about to join."""

    name: str
    job: Job


class Stop(msgspec.Struct, tag=4, array_like=True):
    token: int
    now: bool


class Changed(msgspec.Struct, tag=5, array_like=True):
    """To an agent: something was committed to a task variable."""


class Told(msgspec.Struct, tag=6, array_like=True):
    """To an agent: what was asked for under this number."""

    number: int
    value: bytes | None


class Size(msgspec.Struct, tag=7, array_like=True):
    """To an agent: how many workers it may have."""

    workers: int


class Renew(msgspec.Struct, tag=8, array_like=True):
    """To an agent: the user's modules have changed, so fresh workers are wanted."""


class Return(msgspec.Struct, tag=9, array_like=True):
    """To an agent: at most so many of the jobs that no worker has are wanted elsewhere. Answered by `Returned`."""

    most: int


class Withdraw(msgspec.Struct, tag=10, array_like=True):
    """To an agent: this job is not to start. If it has, it goes on; else it is answered by `Reported` with `Ended`."""

    token: int


class Read(msgspec.Struct, tag=1, array_like=True):
    """From an agent: a job asks for the value of a task variable."""

    number: int
    token: int
    name: str


class Wanted(msgspec.Struct, tag=2, array_like=True):
    """From an agent: a worker needs what the program's `__main__` has under this name."""

    number: int
    name: str


class Done(msgspec.Struct, tag=3, array_like=True, gc=False):
    """From an agent: a job has returned. As `reports.Finished`."""

    token: int
    parts: list[bytes | Live]
    started: float
    ended: float
    worker: int
    graph: bool
    annotations: str | None
    refs: list[RefOut]
    writes: list[Step]


class Reported(msgspec.Struct, tag=4, array_like=True, gc=False):
    """From an agent: what else became of a job. One of them."""

    raised: Raised | None = None
    lost: MetLost | None = None
    died: Died | None = None
    ended: Ended | None = None


class Said(msgspec.Struct, tag=5, array_like=True):
    """From an agent: what jobs printed."""

    pieces: list[Printed]


class Moved(msgspec.Struct, tag=6, array_like=True):
    progress: Progressed


class Gone(msgspec.Struct, tag=7, array_like=True):
    """From an agent: jobs did not find these values."""

    numbers: list[int]


class Began(msgspec.Struct, tag=8, array_like=True):
    """From an agent: these jobs run, since when."""

    jobs: list[tuple[int, float]]


class Death(msgspec.Struct, tag=9, array_like=True):
    """From an agent: a worker died without having been asked to."""

    pid: int
    status: int | None


class Crowd(msgspec.Struct, tag=10, array_like=True):
    """From an agent: how many workers it has now, and how many more it has asked Ray for."""

    workers: int
    awaited: int


class Made(msgspec.Struct, tag=11, array_like=True):
    """From an agent: a job is about to make an actor of this class, which needs so much."""

    token: int
    name: str
    kind: str
    cpus: float
    memory: int
    idle: float


class Returned(msgspec.Struct, tag=12, array_like=True):
    """From an agent: it does not have these jobs any more, and has not started them."""

    tokens: list[int]


ToAgent = Start | Follow | Alone | Stop | Changed | Told | Size | Renew | Return | Withdraw
FromAgent = Read | Wanted | Done | Reported | Said | Moved | Gone | Began | Death | Crowd | Made | Returned

encode = msgspec.msgpack.Encoder().encode
to_agent = msgspec.msgpack.Decoder(list[ToAgent]).decode
from_agent = msgspec.msgpack.Decoder(list[FromAgent]).decode
printed = msgspec.msgpack.Decoder(list[Printed]).decode
"""What the keeper passes on, of actors."""
