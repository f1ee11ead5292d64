"""Secrets: values that only tasks may see.

A `Secret` travels like any other argument or output, but what travels, and what the journal keeps, is a reference (the
name of an environment variable, the path of a file) or a sealed text (see `sealed_bytes`). The clear text exists where
code asks for it with `get()`, and from then on that process masks it in what it prints, logs and raises (see
`secret_masks`).
"""

from __future__ import annotations

import hmac
import os
from typing import Any, Generic, Literal, NoReturn, Self, TypeVar, overload

from onceflow.errors import InvalidOption, SecretUnavailable
from onceflow.values import sealed_bytes, secret_masks

T = TypeVar("T", str, bytes)

MARK = __name__.encode()
"""Stands in every pickle that holds a secret."""


class Secret(Generic[T]):
    """A value that never reaches the journal, logs or pages in clear.

    `Secret.env("API_TOKEN")` and `Secret.file("/run/secrets/token")` are resolved where `get()` is called, mostly in a
    task: only the name is kept. `Secret("hunter2")` holds a text, or bytes; it is kept sealed with the key of the home
    directory (`secrets.key`). Pass secrets to tasks as they are, and call `get()` where the clear text is needed:

        @task
        def fetch(url: str, token: Secret[str]) -> bytes:
            return download(url, headers={"Authorization": f"Bearer {token.get()}"})

        run(fetch.bind("https://example.org", Secret.env("API_TOKEN")))

    What a task prints, logs or raises after that shows `****` instead of the clear text. A task that returns the clear
    text itself gives it away: outputs are not masked.
    """

    __slots__ = ("_clear", "_name", "_sealed", "_source")
    __hash__ = None  # type: ignore[assignment]  # its clear text must not show in the order of a set

    def __init__(self, value: T) -> None:
        if not isinstance(value, (str, bytes)):
            problem = f"it holds a text or bytes, not a {type(value).__qualname__}; make a text of it first"
            raise InvalidOption("Secret", problem, kind="value")
        self._fill("literal", clear=_marked(value))

    def _fill(
        self,
        source: Literal["literal", "env", "file"],
        name: str = "",
        clear: bytes | None = None,
        sealed: bytes | None = None,
    ) -> Self:
        self._source = source
        self._name = name
        """Of the variable, or the path of the file."""
        self._clear = clear
        """Of a literal, if it is known here. Its first byte says whether it is a text."""
        self._sealed = sealed
        """Of a literal, as it was sealed last."""
        return self

    @staticmethod
    def env(name: str) -> Secret[str]:
        """The value of an environment variable, as the worker has it: that of the process that opened the engine, when
        its first worker was started."""
        _check_name(name, "Secret.env", "the name of a variable")
        return _refer("env", name)

    @staticmethod
    def file(path: str | os.PathLike[str]) -> Secret[str]:
        """The content of a text file on the worker's host, without the line break at its end. It is read whenever it is
        asked for, so it may be renewed at any time."""
        name = os.fspath(path)
        _check_name(name, "Secret.file", "the path of a file")
        return _refer("file", os.path.abspath(name))

    @overload
    def get(self: Secret[str]) -> str: ...
    @overload
    def get(self: Secret[bytes]) -> bytes: ...
    def get(self) -> str | bytes:
        """The clear text. Raises `SecretUnavailable` if there is none here."""
        value = self._resolve()
        secret_masks.hide(value)
        return value

    def _resolve(self) -> str | bytes:
        if self._source == "env":
            if self._name not in os.environ:
                raise SecretUnavailable(repr(self), "there is no such environment variable here")
            return os.environ[self._name]
        if self._source == "file":
            try:
                with open(self._name, encoding="utf-8") as file:
                    return file.read().removesuffix("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise SecretUnavailable(repr(self), f"it cannot be read: {error}") from error
        clear = self._opened()
        return clear[1:].decode("utf-8", "surrogatepass") if clear[:1] == b"s" else clear[1:]

    def _opened(self) -> bytes:
        if self._clear is None:
            assert self._sealed is not None
            self._clear = sealed_bytes.unseal(self._sealed)
        return self._clear

    def identity(self) -> bytes:
        """Equal for secrets that count as the same argument of a run. Does not reveal the clear text."""
        if self._source != "literal":
            return f"{self._source} {self._name}".encode("utf-8", "surrogateescape")
        return sealed_bytes.fingerprint(self._opened())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source != "literal":
            return _refer, (self._source, self._name)
        if self._sealed is None or not sealed_bytes.is_sealed_for_here(self._sealed):
            self._sealed = sealed_bytes.seal(self._opened())
        return _hold, (self._sealed,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self._source != "literal" or other._source != "literal":
            return (self._source, self._name) == (other._source, other._name)
        return hmac.compare_digest(self._opened(), other._opened())

    def __repr__(self) -> str:
        return f"Secret({secret_masks.MASK})" if self._source == "literal" else f"Secret.{self._source}({self._name!r})"

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is not iterable; get() gives its clear text")


def _refer(source: Literal["env", "file"], name: str) -> Secret[str]:
    secret: Secret[str] = Secret.__new__(Secret)
    return secret._fill(source, name)


def _hold(sealed: bytes) -> Secret[Any]:
    """Opened on request: inspection needs no key."""
    secret: Secret[Any] = Secret.__new__(Secret)
    return secret._fill("literal", sealed=sealed)


def _check_name(name: Any, what: str, kind: str) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidOption(what, f"it takes {kind}, not {name!r}", kind="value")


def _marked(value: str | bytes) -> bytes:
    return b"s" + value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b"b" + value
