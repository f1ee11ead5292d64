"""Sealing: bytes that can be kept where others may look, and read only with a key.

Each home directory has a key of its own, 32 random bytes in `secrets.key`, for its user's eyes only. It protects a
journal that goes astray without that file: a copy for a colleague, a backup of the database. A copy of the whole home
directory has the key as well.

**The scheme** is made from one pseudo-random function, HMAC-SHA256, which is all that the standard library offers: a
keystream (the function of a random nonce and a counter) is added to the text, and a tag over nonce and result shows
whether it was changed (encrypt, then authenticate). For the two there are two keys, derived from the one in the file,
and a third one for `fingerprint`. The length is rounded up. A sealed text begins with the name of its key.

**Which key?** A worker seals for the home directory of its engine, an engine for its own (`using`). Code that belongs
to no home, such as a program that binds tasks before it opens an engine, seals with a key that lives as long as the
process; the home that keeps the bytes seals them anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Collection, Iterator
from contextvars import ContextVar

from onceflow.errors import SecretUnavailable, StorageNotTrusted
from onceflow.values import trust

Folder = str | os.PathLike[str]
"""A worker has no use for `pathlib`."""

KEY_FILE = "secrets.key"

_KEY, _NONCE, _TAG, _NAME = 32, 16, 32, 8
"""Bytes."""

_ROUND = 64
"""Bytes to a multiple of which a text is filled up, with its length before it."""


class Key:
    """What can be done with one key."""

    def __init__(self, secret: bytes) -> None:
        self.name = _derive(secret, b"name")[:_NAME]
        self._for_text = _derive(secret, b"text")
        self._for_tag = _derive(secret, b"tag")
        self._for_fingerprint = _derive(secret, b"fingerprint")

    def seal(self, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        filled = len(text).to_bytes(8, "big") + text
        filled += bytes(-len(filled) % _ROUND)
        hidden = self.name + nonce + self._add_stream(nonce, filled)
        return hidden + _prf(self._for_tag, hidden)

    def unseal(self, sealed: bytes) -> bytes | None:
        """None if it is not what was sealed with this key."""
        hidden, tag = sealed[:-_TAG], sealed[-_TAG:]
        if len(hidden) < _NAME + _NONCE or not hmac.compare_digest(tag, _prf(self._for_tag, hidden)):
            return None
        filled = self._add_stream(hidden[_NAME : _NAME + _NONCE], hidden[_NAME + _NONCE :])
        return filled[8 : 8 + int.from_bytes(filled[:8], "big")]

    def fingerprint(self, text: bytes) -> bytes:
        return _prf(self._for_fingerprint, text)

    def _add_stream(self, nonce: bytes, text: bytes) -> bytes:
        blocks = -(-len(text) // _TAG)
        stream = b"".join([_prf(self._for_text, nonce + block.to_bytes(8, "big")) for block in range(blocks)])
        added = int.from_bytes(text, "big") ^ int.from_bytes(stream[: len(text)], "big")
        return added.to_bytes(len(text), "big")


def seal(text: bytes) -> bytes:
    return _present_key().seal(text)


def is_sealed_for_here(sealed: bytes) -> bool:
    """Whether it was sealed with the key that `seal` would use now."""
    return sealed[:_NAME] == _present_key().name


def unseal(sealed: bytes) -> bytes:
    """With whichever key of those that this process can find. Raises `SecretUnavailable`."""
    name = sealed[:_NAME]
    if name not in _known:
        for home in list(_homes):
            _read(home)
    text = _known[name].unseal(sealed) if name in _known else None
    if text is None:
        places = ", ".join([_key_file(home) for home in _homes]) or "this process"
        raise SecretUnavailable(
            "a Secret", f"it was sealed with a key that is not in {places}. Bring that file back, or start anew"
        )
    return text


def fingerprint(text: bytes) -> bytes:
    """Equal for equal texts, as long as the key is the same. Says nothing about the text to those without the key."""
    return _present_key().fingerprint(text)


def know(home: Folder, trusted_owners: Collection[int] = ()) -> str:
    """What was sealed for this home directory can be read here, if the key is this user's, root's, or that of a trusted
    owner. Returns its path."""
    path = os.fspath(home)
    if trusted_owners or path not in _homes:
        _homes[path] = trusted_owners
    return path


def work_for(home: Folder) -> None:
    """From now on this process seals for a home directory: it is a worker there."""
    global _served
    _served = know(home, trust.read_owners(os.environ.get(trust.VARIABLE, "")))


@contextlib.contextmanager
def using(home: Folder) -> Iterator[None]:
    """What is sealed meanwhile, in this thread, is for this home directory."""
    before = _used.set(know(home))
    try:
        yield
    finally:
        _used.reset(before)


def use(home: Folder) -> None:
    """The same for the rest of this thread."""
    _used.set(know(home))


_used: ContextVar[str | None] = ContextVar("onceflow_sealing", default=None)
_served: str | None = None
_homes: dict[str, Collection[int]] = {}
"""Home directories whose keys may be used → users beside this one and root whose keys are trusted."""
_known: dict[bytes, Key] = {}
"""Name → key."""
_own: Key | None = None
"""The key of a process that seals for no particular home."""


def _present_key() -> Key:
    home = _used.get() or _served
    if home is None or not os.path.isdir(home):  # what is kept in memory needs no file
        return _own_key()
    return _read(home) or _create(home)


def _own_key() -> Key:
    global _own
    if _own is None:
        made = Key(os.urandom(_KEY))
        _known[made.name] = made
        _own = made
    return _own


def _key_file(home: str) -> str:
    return os.path.join(home, KEY_FILE)


def _read(home: str) -> Key | None:
    try:
        with open(_key_file(home), encoding="ascii") as file:
            trust.check_opened(file.fileno(), _key_file(home), _homes.get(home, ()))
            content = file.read().strip()
    except FileNotFoundError:
        return None
    except StorageNotTrusted as error:
        raise SecretUnavailable("a Secret", str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnavailable("a Secret", f"{_key_file(home)} cannot be read: {error}") from error
    try:
        secret = bytes.fromhex(content)
    except ValueError:
        secret = b""
    if len(secret) != _KEY:
        raise SecretUnavailable("a Secret", f"{_key_file(home)} is damaged. Bring it back from a backup")
    key = Key(secret)
    return _known.setdefault(key.name, key)


def _create(home: str) -> Key:
    """Of several processes that do so at once, one succeeds, and all take its key."""
    temporary = f"{_key_file(home)}.{os.urandom(8).hex()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # whatever the umask
            os.write(descriptor, os.urandom(_KEY).hex().encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, _key_file(home))
        os.unlink(temporary)
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise SecretUnavailable("a Secret", f"no key can be made in {home}: {error}") from error
    key = _read(home)
    assert key is not None
    return key


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return _prf(secret, b"onceflow 1 " + purpose)


def _prf(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, hashlib.sha256)
