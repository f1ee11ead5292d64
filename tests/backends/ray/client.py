"""A program with a cluster that has a server for clients, all on the loopback address, and a client: the tests of
`tests.conformance`, or those of them that `-k` chooses, run through it.

    python -m tests.backends.ray.client [-k <expression>]

Ends with the status of these tests, or with 1 if something listened elsewhere.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from ray.cluster_utils import Cluster

from tests.backends.ray import sockets
from tests.conformance.test_conformance import CLIENT

LOOPBACK = "127.0.0.1"

STORE = 100 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    settings = {
        "num_cpus": 2,
        "object_store_memory": STORE,
        "include_dashboard": False,
        "node_ip_address": LOOPBACK,
        "ray_client_server_port": port,
    }
    os.environ.setdefault("GRPC_POLL_STRATEGY", "poll")  # Ray's server forks amid gRPC's threads, and epoll1 minds
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    try:
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance", *arguments]
        status = subprocess.run(tests, env={**os.environ, CLIENT: f"ray://{LOOPBACK}:{port}"}, check=False).returncode
        processes = [process.process.pid for all in cluster.head_node.all_processes.values() for process in all]
        elsewhere = sockets.elsewhere(processes)
    finally:
        cluster.shutdown()
    print(f"elsewhere than on the loopback address: {elsewhere}")
    return status or bool(elsewhere)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
