"""Checks names from a journal before they become a part of a path or a URL.

A journal may come from elsewhere, or have been changed by hand. Ids of runs and engines name files and folders of the
home directory, and references name blobs; so each of them has to be a plain name, and a reference stays within the
folder of its store. Anything else is `StorageDamaged`, raised before a path is made of it: nothing is opened, killed or
deleted by such a name.
"""

from __future__ import annotations

import re

from onceflow.errors import StorageDamaged

LONGEST = 128
"""Characters of an id."""

_PLAIN = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_AUTHOR = r"[0-9]{1,19}\.[A-Za-z0-9_-]+"
_NAME = r"[A-Za-z0-9._%-]*"
_FILE = rf"(?:{_AUTHOR}\.[0-9]{{1,19}}-[0-9a-f]{{8}}|~{_AUTHOR}\.[0-9]{{1,19}})\.{_NAME}"
_REFERENCE = re.compile(rf"{_PLAIN.pattern}/{_FILE}")
"""`<run>/<epoch>.<engine>.<size>-<checksum>.<name>`, as `blobs` makes them, and what is yet to become one."""


def is_plain(name: str) -> bool:
    """Whether it can be the id of a run or an engine."""
    return _PLAIN.fullmatch(name) is not None


def check_run(id: str) -> str:
    """The same. Raises `StorageDamaged` if it can be no id of a run."""
    if id.isalnum() and id.isascii() and len(id) <= LONGEST:  # the usual ones, quickly: it is asked for every row
        return id
    if _PLAIN.fullmatch(id) is None:
        raise StorageDamaged(f"run {id!r}", "the journal has a run whose id is no plain name", run=id)
    return id


def check_engine(id: str, run: str = "") -> str:
    """The same. Raises `StorageDamaged` if it can be no id of an engine. `run` is the one that names it, if any."""
    if id.isalnum() and id.isascii() and len(id) <= LONGEST:  # as above
        return id
    if _PLAIN.fullmatch(id) is None:
        whose = f"run {run} belongs to" if run else "the journal names"
        raise StorageDamaged(f"engine {id!r}", f"{whose} an engine whose id is no plain name", run=run)
    return id


def check_identity(id: str) -> str:
    """The same. Raises `StorageDamaged` if it can be no identity of a journal."""
    if _PLAIN.fullmatch(id) is None:
        raise StorageDamaged(f"journal {id!r}", "its identity is no plain name, so it can have no folder for blobs")
    return id


def check_reference(reference: str, run: str, task: str = "") -> str:
    """The same. Raises `StorageDamaged` if it can be no reference of this run to a blob. Whether it leads to the right
    place is for the store to say (`in_folder`)."""
    url, _, path = reference.rpartition(":")
    *above, folder, file = ["", *path.split("/")]
    named = f"{folder}/{file}" if url else reference
    if _REFERENCE.fullmatch(named) is None or {".", ".."} & {*above}:
        reason = f"run {run} refers to this, which can be none of its saved values"
        raise StorageDamaged(reference, reason, run=run, task=task)
    return reference


def is_reference(path: str) -> bool:
    """Whether it names a blob within the folder of a store."""
    return _REFERENCE.fullmatch(path) is not None


def in_folder(reference: str, folder: str) -> str:
    """The part of a reference that names a blob within the folder of a store. References to that start with `folder`,
    which ends with a slash or is empty. Raises `StorageDamaged` if it leads anywhere else."""
    path = reference[len(folder) :] if reference.startswith(folder) else ""
    if _REFERENCE.fullmatch(path) is None:
        raise StorageDamaged(reference, f"this is not the name of a saved value in {folder or 'the folder of blobs'}")
    return path
