"""From a URL to the blobs that are kept there.

    s3://bucket/prefix?region=eu-central-1        S3, or what speaks its protocol (`endpoint=https://…`)
    gs://bucket/prefix                            Google Cloud Storage
    az://container/prefix?account_name=account    Azure Blob Storage
    file:///mnt/shared/blobs                      a folder
    memory:///                                    memory of this process, for tests

What stands in the query are options: those of the store and of its HTTP client are `obstore`'s, under its names, and
`patience` is the seconds for which something that fails is tried again. Credentials do not belong there but into the
environment, where `obstore` looks for them (`AWS_ACCESS_KEY_ID`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_KEY`,
… or what the machine itself is given): a URL is shown, logged, and written into files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from onceflow.errors import InvalidOption, MissingPackage
from onceflow.storage import failures, obstore_errors, private_files
from onceflow.storage.blobs import Blobs
from onceflow.storage.object_store import PATIENCE, ObjectStoreBlobs

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "file", "memory")

FLAGS = frozenset({"allow_http", "allow_invalid_certificates", "http1_only", "http2_only", "randomize_addresses"})
"""Options of the HTTP client that are true or false."""

CLIENT = FLAGS | {
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
"""All of its options."""

NO_CREDENTIALS = "credentials belong into the environment, not into the URL"

_SECRET = re.compile(
    "secret|token|passw|pwd|credential|sas|^sig|-signature$|bearer|access.?key|(^|_)key", re.IGNORECASE
)
_BUCKET = re.compile(r"[\w.-]*")
_ACCOUNT = re.compile(r"[\w.-]*(@[\w.-]+)?")
_LOGIN = re.compile("//[^/]*@")


def check(url: Any) -> str:
    """Raises `ValueError` or `TypeError` if it can be no place for blobs."""
    if not isinstance(url, str):
        raise TypeError(f"it is a URL, not a value of type {type(url).__name__}")
    try:
        parts = urlsplit(url)
    except ValueError:  # which quotes it
        raise ValueError("it cannot be read as a URL") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"it is a URL that starts with {', '.join(f'{scheme}:' for scheme in SCHEMES)}")
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if _SECRET.search(name):
            what = name if value and name.isidentifier() else "an option"
            raise ValueError(f"{what} looks like a credential: {NO_CREDENTIALS}")
        if _LOGIN.search(value):
            raise ValueError(f"an option is a URL with a login in it: {NO_CREDENTIALS}")
    if parts.scheme != "file":
        place = _ACCOUNT if parts.scheme in ("abfs", "abfss", "adl") else _BUCKET
        if not place.fullmatch(parts.netloc) or "@" in parts.path:
            raise ValueError(f"what comes after {parts.scheme}: is no bucket and prefix: {NO_CREDENTIALS}")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ValueError("a folder is given as file:///its/path")
    elif parts.scheme != "memory" and not parts.netloc:
        raise ValueError(f"it names no bucket: {parts.scheme}://bucket/prefix")
    return url


def below(url: str, folder: str) -> str:
    """The same place, one folder deeper."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{folder}"))


def without_options(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query="", fragment="")).rstrip("/")


def folder_of(url: str | None) -> Path | None:
    """The folder of a `file:` URL; None for any other."""
    return Path(unquote(urlsplit(url).path)) if url is not None and url.startswith("file:") else None


def open_folder(url: str, trusted_owners: Collection[int] = ()) -> Blobs:
    """The blobs of a `file:` URL."""
    folder = folder_of(url)
    assert folder is not None
    with failures.told(folder):
        private_files.make_folders(folder)
    return Blobs(folder, without_options(url) + "/", trusted_owners)


def open_object_store(url: str) -> ObjectStoreBlobs:
    """The blobs of any other URL. Nothing is asked of the store yet. Raises `InvalidOption` if there is no such
    option."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise MissingPackage("obstore", f"keeping blobs at {without_options(url)}", "cloud") from error
    parts = urlsplit(url)
    options: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    place = without_options(url)
    try:
        patience = float(options.pop("patience", PATIENCE))
        client = {name: _client_value(name, options.pop(name)) for name in CLIENT if name in options}
        conditional = options.get("conditional_put") != "disabled"
        if parts.scheme == "memory":
            store = from_url("memory:///")
        else:
            store = from_url(place, config=options, client_options=client, retry_config=_retries(patience))  # type: ignore[call-overload]
    except (BaseError, ValueError, TypeError) as error:
        raise InvalidOption("blobs", f"{place} cannot be used: {obstore_errors.said(error)}", kind="setting") from None
    return ObjectStoreBlobs(store, place, patience=patience, conditional=conditional)


def _retries(patience: float) -> dict[str, Any]:
    from datetime import timedelta

    backoff = {"init_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=5), "base": 2}
    return {"max_retries": 10, "retry_timeout": timedelta(seconds=patience), "backoff": backoff}


def _client_value(name: str, value: str) -> Any:
    if name not in FLAGS:
        return value
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{name} is true or false")
    return value.lower() == "true"
