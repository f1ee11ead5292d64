"""The connection to a Ray cluster: an existing one by its address, or one that is started here for development.

A process has one connection to Ray. If the program has made it already, that is the one; else it is made when it is
first needed, and lasts as long as the process, because making it takes seconds.
"""

from __future__ import annotations

import logging
import os
import threading

from onceflow.errors import MissingPackage, WorkersUnavailable

LOCAL = "ray"
"""The backend that is the cluster that `RAY_ADDRESS` names, or one that is started here."""

ADDRESS = "RAY_ADDRESS"

STORE = 512 * 1024 * 1024
"""Bytes of a cluster's object store that is started here, at most. Beyond it Ray writes to disk."""

LOOPBACK = "127.0.0.1"

ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray looks at this when it is imported. If it is off, nothing of a cluster that is started here listens, or is
reached, elsewhere than on the loopback address; its own default is an address that other hosts can reach."""

_connecting = threading.Lock()
_connected: str | None = None
"""The address that this process has been connected to here."""
_started = False
"""Whether that cluster was started here."""


def prepare(backend: str) -> None:
    """Imports Ray, which from then on ends its connection when the program ends: whatever is to be closed before that
    has to be registered later. Raises `MissingPackage`."""
    if backend == LOCAL and not os.environ.get(ADDRESS):
        os.environ.setdefault(ALONE, "0")
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise MissingPackage("ray", f"the backend {backend!r}", "ray") from error


def connect(backend: str, cpus: int | None, store: int | None) -> bool:
    """Whether nodes may join the cluster: not one that was started here, to which `cpus` and `store` apply. Raises
    `MissingPackage`, `WorkersUnavailable`."""
    global _connected, _started
    prepare(backend)
    import ray

    with _connecting:
        if ray.is_initialized():
            if _connected not in (None, backend):
                raise WorkersUnavailable(
                    f"this process is connected to the Ray cluster {_connected!r}, and a process can have only one"
                )
            return not _started
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        _started = backend == LOCAL and not os.environ.get(ADDRESS)
        try:
            if not _started:
                ray.init(
                    os.environ[ADDRESS] if backend == LOCAL else backend,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            else:
                ray.init(
                    "local",
                    num_cpus=cpus,
                    object_store_memory=min(STORE, store or STORE),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _node_ip_address=LOOPBACK,
                )
        except Exception as error:
            raise WorkersUnavailable(f"no way to the Ray cluster {backend!r}: {error}") from error
        _connected = backend
        return not _started
