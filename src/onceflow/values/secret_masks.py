"""Masking: the texts of secrets that this process has seen, replaced by `****` wherever they would be kept or shown.

It finds a text as it is, as Python would show it, and each of its lines. It does not find what was cut in two, encoded
(base64, URLs) or computed from it, nor texts of less than four characters, which occur everywhere.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable

SHORTEST = 4
"""Characters of a text that is masked."""

MOST = 1000
"""Texts that are remembered: those that were seen last."""

MASK = "****"

listeners: list[Callable[[list[bytes]], None]] = []
"""Called with texts that have just become known."""

_lock = threading.Lock()
_texts: dict[bytes, None] = {}
_found: re.Pattern[bytes] | None = None
"""Finds all of them; None if there are none, or it has to be made anew."""


def hide(value: str | bytes) -> None:
    """From now on this is masked."""
    new = [text for text in _forms(value) if text not in _texts]
    if new:
        learn(new)
        for listener in listeners:
            listener(new)


def learn(texts: Iterable[bytes]) -> None:
    """From now on these are masked, as they are."""
    global _found
    with _lock:
        for text in texts:
            _texts.pop(text, None)
            _texts[text] = None
        while len(_texts) > MOST:
            del _texts[next(iter(_texts))]
        _found = None


def mask(text: str) -> str:
    if not _texts:
        return text
    return mask_bytes(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")


def mask_bytes(content: bytes) -> bytes:
    return _pattern().sub(MASK.encode(), content) if _texts else content


def occurring(content: bytes) -> list[bytes]:
    """What there is in it that has to be masked."""
    return sorted(set(_pattern().findall(content))) if _texts else []


def reveals(content: bytes) -> bool:
    """Whether there is something in it that has to be masked."""
    return bool(_texts) and _pattern().search(content) is not None


def uncertain(content: bytes) -> int:
    """How many bytes at its end, in its last line, may be the beginning of something that has to be masked, and is not
    there as a whole."""
    if not _texts:
        return 0
    line = len(content) - content.rfind(b"\n") - 1
    for size in range(min(max(map(len, _texts)) - 1, line), 0, -1):
        end = content[-size:]
        if any(len(text) > size and text.startswith(end) for text in _texts):
            return size
    return 0


def _pattern() -> re.Pattern[bytes]:
    global _found
    with _lock:  # what is learned meanwhile must not be forgotten
        if _found is None:
            _found = re.compile(b"|".join([re.escape(text) for text in sorted(_texts, key=len, reverse=True)]))
        return _found


def _forms(value: str | bytes) -> set[bytes]:
    forms = set()
    for whole in {value, repr(value).removeprefix("b")[1:-1]}:
        content = whole.encode(errors="surrogatepass") if isinstance(whole, str) else whole
        forms |= {content, *[line.strip() for line in content.splitlines()]}
    return {form for form in forms if len(form) >= SHORTEST}


def _renew_lock() -> None:
    """Another thread may have held it when this process was forked."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
