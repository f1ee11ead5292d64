"""A server of one's own that speaks S3's protocol, on a free port of the loopback interface. It stores in memory.

    with S3Server() as server:
        engine = Engine(blobs=server.create_bucket())

It is `moto`'s, in a process of its own, which ends with this one. It takes any credentials; clients want some, so
`environment` has those that a test may set.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import urllib.request
from typing import Self

from onceflow.errors import MissingPackage, OnceflowError

_PROGRAM = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").disabled = True
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
"""Its standard input closes when the process that started it is gone."""

SECONDS = 10.0
"""For stopping."""


class S3Server:
    """Started on creation. A context manager; `close` is what its end calls."""

    environment = {  # noqa: RUF012
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_REGION": "us-east-1",
    }

    def __init__(self) -> None:
        if importlib.util.find_spec("moto") is None:
            raise MissingPackage("moto[s3,server]", "starting an S3 server", "test")
        self._buckets = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | self.environment,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        """As in `http://127.0.0.1:40123`."""
        if not self.address:
            self.close()
            raise OnceflowError("moto's server does not start")

    def create_bucket(self, address: str | None = None, **options: str) -> str:
        """The URL of a new, empty bucket, as the setting `blobs` takes it. `address` is where clients find the server,
        if something stands between; `options` are put into the URL."""
        self._buckets += 1
        bucket = f"onceflow-{os.getpid()}-{self._buckets}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/{bucket}", method="PUT")):
            pass
        options = {"endpoint": address or self.address, "allow_http": "true"} | options
        return f"s3://{bucket}/some/prefix?{'&'.join([f'{name}={value}' for name, value in options.items()])}"

    def close(self) -> None:
        """Closing twice is harmless."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
