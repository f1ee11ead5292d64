"""A worker on Ray: an actor whose process joins the agent of its node, and runs jobs until the agent dismisses it."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import ray
import ray.actor

from onceflow.backends.local import output_sender, worker_process
from onceflow.backends.local.actors import messages
from onceflow.backends.local.messages import Receiver, Spawn
from onceflow.backends.local.reports import STANDARD
from onceflow.backends.ray.objects import RayObjects
from onceflow.backends.ray.reaper import MARK, mark_of
from onceflow.backends.ray.store import Store

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class RayWorker:
    """A Ray actor. Its methods run in the main thread of its process, one at a time."""

    def place(self) -> str:
        """The node that it is on."""
        return str(ray.get_runtime_context().get_node_id())

    def serve(
        self,
        door: str,
        name: str,
        mark: str,
        keeper: Any,
        agent: Any,
        environment: Mapping[str, str],
        preload: Sequence[str],
    ) -> None:
        """Does not return: the process ends when the agent wants it to, and dies with it (`worker_startup`). `door` is
        where that lets workers in; `name` says which job this one is for, if it is for one."""
        os.environ.update(environment)
        os.environ[MARK] = mark_of(door, mark)
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        with contextlib.suppress(PermissionError):  # it leads a group already
            os.setpgid(0, 0)
        for module in preload:
            with contextlib.suppress(Exception):  # its users are notified
                importlib.import_module(module)
        connection = messages.connect(door)
        connection.send(f"{mark} {name}".encode())
        received = Receiver[Spawn](connection, Spawn).receive()
        if received is None:
            os._exit(0)
        wish, (lane, side, channel, page, _, *pipes) = received  # the lifeline is only kept open
        readers, writers = pipes[::2], pipes[1::2]
        output_sender.take_over(writers)
        streams = dict(zip(readers, STANDARD, strict=False))
        ways = socket.socket(fileno=lane), socket.socket(fileno=side), socket.socket(fileno=channel)
        worker_process.run(*ways, page, streams, wish, RayObjects(Store(keeper), agent), _leave)


def _leave() -> NoReturn:
    """Ends an actor as Ray wants it: else the program sees a message that a worker has died unexpectedly. Whatever
    keeps the process from that is ended by another thread (`worker_process.LEAVING`)."""
    exit_actor: Any = ray.actor.exit_actor
    exit_actor()
    raise AssertionError("it has ended")
