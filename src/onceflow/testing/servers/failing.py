"""An HTTP proxy that breaks what it passes on, for tests of how clients handle that.

    with FailingProxy(server.address, lambda request: "no answer" if request.number == 3 else None) as proxy:
        engine = Engine(blobs=server.create_bucket(proxy.address))

Each request is passed on, or suffers one of these:

- `"error"`: it is answered with 503, and not passed on;
- `"cut"`: the connection is closed, and it is not passed on;
- `"no answer"`: it is passed on, but the connection is closed instead of the answer;
- `"half an answer"`: the connection is closed in the middle of the answer's body;
- `"silence"`: it is passed on and answered never, until the client gives up.
"""

from __future__ import annotations

import http.client
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

Fault = Literal["error", "cut", "no answer", "half an answer", "silence"]

SILENCE = 30.0
"""Seconds after which a client that still waits is cut off."""

_OF_A_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "server", "date"})


class Request(NamedTuple):
    number: int
    """From 1 on."""
    method: str
    path: str


class FailingProxy:
    """Serves from threads of this process. A context manager; `close` is what its end calls. `fault` is asked for each
    request, from any thread."""

    def __init__(self, address: str, fault: Callable[[Request], Fault | None] = lambda request: None) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self.fault = fault
        self.counts: Counter[Fault | None] = Counter()
        """How often each fault was made."""
        self._numbers = itertools.count(1)
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def decide(self, method: str, path: str) -> Fault | None:
        fault = self.fault(Request(next(self._numbers), method, path))
        self.counts[fault] += 1
        return fault

    def pass_on(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self._target, timeout=SILENCE)
        try:
            connection.request(method, path, body, dict(headers.items()))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def keep_silent(self) -> None:
        self._closing.wait(SILENCE)


class _Server(ThreadingHTTPServer):
    proxy: FailingProxy
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away: that is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.decide(self.command, self.path)
        if fault == "error":
            self._answer(503, [], b"<Error><Code>SlowDown</Code><Message>Please try again</Message></Error>")
            return
        if fault == "cut":
            self.close_connection = True
            return
        status, headers, content = proxy.pass_on(self.command, self.path, self.headers, body)
        if fault == "silence":
            proxy.keep_silent()
        if fault in ("no answer", "silence"):
            self.close_connection = True
            return
        self._answer(status, headers, content, half=fault == "half an answer")

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, *, half: bool = False) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)
        self.wfile.flush()
        if half:
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """It is never read."""
