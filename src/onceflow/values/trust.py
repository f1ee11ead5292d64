"""Trust in files: what is unpickled, or says where pickles are, must not be the work of another user.

A file or folder is trusted if it belongs to this user or to root and no one else can write to it. A path is trusted if
that holds for what is there, for every folder above it, and for every symbolic link on the way: then no other user can
exchange a part of it, neither before nor after the check, so nothing is lost by opening it by its name afterwards.
Root gets no exception: to root, the files of any other user are foreign.

- A sticky folder (`/tmp`) may be writable for all if it is above: in it, others can neither rename nor remove what is
  not theirs. It cannot be a home directory itself.
- The group may write if this user is its only member, as on systems that give each user such a group. If there is an
  access control list, the group's bits are the limit of the whole list, so then it may not.
- Owners that a setting names are trusted whatever the mode: for mounted checkouts and volumes, and for file systems
  that make up owners and modes. This user's files then have a folder of their own (`own_folder`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from onceflow.errors import StorageNotTrusted

if TYPE_CHECKING:  # a worker has no use for it
    from pathlib import Path

Name = str | os.PathLike[str]

ROOT = 0
"""The user id of the superuser, which can do everything anyway."""

MOST_LINKS = 40
"""Symbolic links on one path, as Linux has it."""

VARIABLE = "ONCEFLOW_TRUSTED_OWNERS"

ANOTHER_HOME = "choose another home directory"
"""What the user can do instead of mending a home directory."""

_private_groups: dict[tuple[int, int], bool] = {}
"""User and group → whether that user is the only member."""


def check_path(path: Name, owners: Collection[int] = (), instead: str = ANOTHER_HOME) -> bool:
    """Raises `StorageNotTrusted` unless only trusted users can change what is at this absolute path, or put something
    else there. False if nothing is there; then this holds for the folders that are.

    `owners` are trusted beside this user and root. `instead` is what the error proposes beside mending.
    """
    above = os.sep
    found = os.lstat(above)
    _refuse(above, found, owners, path, instead, is_above=True)
    waiting = os.fspath(path).split(os.sep)[::-1]
    links = 0
    while waiting:
        part = waiting.pop()
        if part in ("", os.curdir):
            continue
        here = os.path.dirname(above) if part == os.pardir else os.path.join(above, part)
        try:
            found = os.lstat(here)
        except FileNotFoundError:
            return False
        _refuse(here, found, owners, path, instead, is_above=True)
        if not stat.S_ISLNK(found.st_mode):
            above = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        target = os.readlink(here)
        above = os.sep if target.startswith(os.sep) else above
        waiting.extend(target.split(os.sep)[::-1])
    _refuse(above, found, owners, path, instead)
    return True


def check_inside(path: Name, owners: Collection[int] = ()) -> None:
    """The same for something in a folder that is trusted."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        check_path(path, owners)
    else:
        _refuse(os.fspath(path), found, owners, path, ANOTHER_HOME)


def check_opened(descriptor: int, path: Name, owners: Collection[int] = (), instead: str = ANOTHER_HOME) -> None:
    """The same for an open file, whatever its name stands for now. `path` is what the error calls it."""
    _refuse(os.fspath(path), os.fstat(descriptor), owners, path, instead, descriptor)


def own_folder(path: Path, owners: Collection[int]) -> Path:
    """Where this user keeps its files: at this path, or in a folder of its own if a trusted owner has that."""
    own = f"uid-{os.geteuid()}"
    if path.name == own or not owners:
        return path
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return path
    return path / own if owner in owners and owner != os.geteuid() else path


def flaw(place: str | int, found: os.stat_result, owners: Collection[int] = ()) -> str | None:
    """Why others could change this file or folder, given as a path or a descriptor; None if they could not."""
    if found.st_uid in owners:
        return None
    if found.st_uid not in (os.geteuid(), ROOT):
        return f"it belongs to {user_name(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        return None  # symbolic links cannot be written to; their mode means nothing
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_IWOTH:
        return f"every user can write to it (mode {mode:04o})"
    if mode & stat.S_IWGRP and not _is_private(found.st_gid, place):
        return f"{_group_name(found.st_gid)} can write to it (mode {mode:04o})"
    return None


def read_owners(value: Any) -> tuple[int, ...]:
    """User ids, from names and ids: a list, or a text with commas or blanks between them. Raises `TypeError` or
    `ValueError`."""
    given: Iterable[Any] = value.replace(",", " ").split() if isinstance(value, str) else value
    if isinstance(value, int):
        given = [value]
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise TypeError(f"it is a list of users, by name or id, not {value!r}")
    return tuple(sorted({_user_id(user) for user in given}))


def user_name(user: int) -> str:
    import pwd  # seldom needed

    try:
        return f"user {pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"user {user}"


def _user_id(user: Any) -> int:
    if isinstance(user, str) and user.isdecimal():
        return int(user)
    if isinstance(user, int) and not isinstance(user, bool) and user >= 0:
        return user
    if not isinstance(user, str):
        raise TypeError(f"it is a list of users, by name or id, and {user!r} is none")
    import pwd  # seldom needed

    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {user!r}") from None


def _refuse(
    here: str,
    found: os.stat_result,
    owners: Collection[int],
    path: Name,
    instead: str,
    descriptor: int | None = None,
    *,
    is_above: bool = False,
) -> None:
    reason = flaw(here if descriptor is None else descriptor, found, owners)
    if reason is None or (is_above and _is_sticky(found) and found.st_uid in (os.geteuid(), ROOT)):
        return
    if stat.S_ISLNK(found.st_mode):
        reason = f"the symbolic link {here} is not trusted: {reason}"
    elif here != os.fspath(path):
        reason = f"{here} is not trusted: {reason}"
    raise StorageNotTrusted(
        os.fspath(path), f"{reason}, so that others could run code as you", _advice(here, found, instead)
    )


def _is_sticky(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)


def _advice(here: str, found: os.stat_result, instead: str) -> str:
    import shlex  # seldom needed

    trusting = f"set {VARIABLE}={found.st_uid} if you trust that user"
    if found.st_uid in (os.geteuid(), ROOT):
        mend = f"take the right to write away from others (chmod go-w {shlex.quote(here)})"
        trusting = f"set {VARIABLE}={found.st_uid} if you trust whoever can write there"
    elif stat.S_ISLNK(found.st_mode):
        mend = "make a link of your own"
    else:
        mend = f"make it yours if you know all of its content (chown -R {os.geteuid()} {shlex.quote(here)})"
    return f"{instead[0].upper()}{instead[1:]}, or {mend}, or {trusting}."


def _group_name(group: int) -> str:
    import grp  # seldom needed

    try:
        return f"group {grp.getgrgid(group).gr_name}"
    except KeyError:
        return f"group {group}"


def _is_private(group: int, place: str | int) -> bool:
    """Whether the right of this group to write admits only this user and root."""
    if _has_access_list(place):
        return False
    user = os.geteuid()
    if (user, group) not in _private_groups:
        _private_groups[user, group] = _is_only_member(user, group)
    return _private_groups[user, group]


def _is_only_member(user: int, group: int) -> bool:
    import grp  # seldom needed
    import pwd

    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:  # no such group, or a member of it that cannot be known
        return False
    members |= {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group}
    return user in members and members <= {user, ROOT}


def _has_access_list(place: str | int) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    try:
        os.getxattr(place, "system.posix_acl_access")
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True
