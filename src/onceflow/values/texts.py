"""Texts on their way to a terminal or a log: whatever users call their tasks, a line stays a line."""

from __future__ import annotations


def is_plain_text(value: object) -> bool:
    """Whether it is a text that is not empty and has an encoding (one with lone surrogates, as in the name of a file
    that is not UTF-8, has none)."""
    return (
        isinstance(value, str) and bool(value) and (value.isascii() or value.encode(errors="ignore").decode() == value)
    )


def one_line(text: str) -> str:
    """Without line breaks, or anything that a terminal would take for more than text."""
    return " ".join([visible(word) for word in text.split()])


def visible(text: str) -> str:
    return text if text.isprintable() else "".join([c if c.isprintable() else ascii(c)[1:-1] for c in text])


def as_size(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
