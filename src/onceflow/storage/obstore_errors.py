"""Converts errors of object stores to errors of onceflow, and says which of them are worth a retry."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from onceflow.errors import StorageError, StorageReadOnly

T = TypeVar("T")

FIRST_PAUSE = 0.05
"""Seconds until it is tried again; each pause is twice as long as the one before."""

LONGEST_PAUSE = 5.0

logger = logging.getLogger(__name__)

_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist|NoSuchContainer", re.IGNORECASE)
_REFUSED = re.compile(r"status code: 4(?!08|09|29)\d\d")
"""What the client did wrong is wrong the next time, too. (But for a time-out, a conflict, and too many requests.)"""
_CODE = re.compile(r"<Code>(.*?)</Code>\s*(?:<Message>(.*?)</Message>)?", re.DOTALL)
_USER = re.compile(r"(https?://)[^/\s\"]*@")
_QUERY = re.compile(r"(https?://[^\s?\"]+)\?[^\s\"]*")


class Passing(Exception):
    """Raised by an action that should be tried again."""


def retry(action: Callable[[], T], url: str, what: str, patience: float) -> T:
    """Does it, and again if it fails in passing, for so many seconds. What does not exist, or does already, is raised
    as it is; everything else as an error that says what was to be done where."""
    from obstore.exceptions import BaseError

    pause, end = FIRST_PAUSE, time.monotonic() + patience
    while True:
        try:
            return action()
        except (BaseError, Passing, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and not is_about_the_bucket(error):
                raise
            if not _passes(error) or time.monotonic() + pause > end:
                raise storage_error(error, url, what) from error
            logger.debug("%s: %s; it is tried again in %.2f s", url, said(error), pause)
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE)


def storage_error(error: Exception, url: str, what: str) -> StorageError:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    kind = StorageReadOnly if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) else StorageError
    return kind(url, f"{what}: {said(error)}")


def is_about_the_bucket(error: Exception) -> bool:
    """Whether not only the object is missing."""
    return bool(_NO_BUCKET.search(str(error)))


def said(error: Exception) -> str:
    """What it says, in a line, and without what may be secret: logins in URLs, and queries, which carry signatures."""
    text = str(error).partition("\n\nDebug source")[0]
    answer = _CODE.search(text)
    if answer is not None:
        text = f"{text[: answer.start()].partition('<?xml')[0].rstrip('< ')} {': '.join(filter(None, answer.groups()))}"
        text = text.replace("<Error>", "")
    return _QUERY.sub(r"\1", _USER.sub(r"\1", " ".join(text.split())))


def _passes(error: Exception) -> bool:
    from obstore import exceptions

    if isinstance(error, Passing):
        return True
    if not isinstance(error, (exceptions.GenericError, exceptions.JoinError)):
        return False
    return not _REFUSED.search(str(error))
