"""URLs as they are printed, logged, raised and shown in reprs: without anything that may be secret.

A URL is shown only as far as it can be read for certain. In one that is malformed, it is uncertain where a password
begins and ends: a slash too few, a password with `@` or `/` in it, an `@` that was forgotten. Of such a URL nothing is
shown but its scheme. Queries are never shown.
"""

from __future__ import annotations

import re

HIDDEN = "…"

_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::\d+)?"
_PLAIN = re.compile(
    rf"(postgres(?:ql)?://)(?:([\w.+-]*)(?::[^@/]*)?@)?({_HOST}(?:,{_HOST})*)(/[\w.+~-]*)?(?:\?[^@]*)?", re.ASCII
)
"""A URL of a PostgreSQL database that can be shown: scheme, user, hosts, database."""

_HOSTS = r"(?:[^@/:?,\[\]]*|\[[^@/\]]*\])(?::\d*)?"
_POSTGRES = re.compile(
    rf"postgres(?:ql)?://(?:[^@/:]*(?::[^@/]*)?@)?{_HOSTS}(?:,{_HOSTS})*(?:/[^@?]*)?(?:\?([^=&]+=[^=&]*(?:&|$))*)?"
)
"""A URL that libpq reads in the one way in which it can be meant. What is wrong with another one, libpq would quote."""

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES_SCHEME = re.compile("(postgres(?:ql)?):")
_SUSPECT = re.compile("@|://|passw|secret|token|postgres(ql)?:", re.IGNORECASE)


def redacted(url: str) -> str:
    """A PostgreSQL database, without its password: what errors call the place."""
    plain = _PLAIN.fullmatch(url)
    if plain is None:
        return shown(url)
    scheme, user, hosts, database = plain.groups()
    return f"{scheme}{f'{user}@' if user else ''}{hosts}{database or ''}"


def shown(value: object) -> str:
    """Something that should be a URL, but is none that can be read: its scheme, or what it is."""
    if not isinstance(value, str):
        return f"a value of type {type(value).__name__}"
    scheme = _SCHEME.match(value) or _POSTGRES_SCHEME.match(value)
    return f"a text without a scheme ({HIDDEN})" if scheme is None else f"{scheme.group()}{HIDDEN}"


def may_be_secret(value: object) -> bool:
    """Whether it looks like a URL or a connection string, or has one in it."""
    return bool(_SUSPECT.search(value if isinstance(value, str) else repr(value)))


def check_postgres(url: str) -> None:
    """Raises `ValueError` unless it is the URL of a PostgreSQL database and can be read in one way only."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError(f"it is the URL of a PostgreSQL database, postgresql://{HIDDEN}, and this is {shown(url)}")
    if not _POSTGRES.fullmatch(url) or _BAD_ESCAPE.search(url):
        raise ValueError(
            "it is no valid URL of a PostgreSQL database, postgresql://user:password@host:port/database?name=value. "
            "Special characters are written as in %40 for @, %2F for /, %25 for %"
        )
