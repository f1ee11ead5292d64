"""Secrets in what jobs print, log and tell: masked before anybody can keep it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow import Secret, current
from onceflow.backends.local.output_sender import CHUNK
from onceflow.backends.local.reports import Printed, Progressed
from tests.backends.common import Loop, running_pool

CLEAR = "a-clear-text"


class Heard:
    def __init__(self) -> None:
        self.printed: list[Printed] = []
        self.progressed: list[Progressed] = []

    def text(self, stream: str) -> str:
        return "".join([event.text for event in self.printed if event.stream == stream])


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def loop(tmp_path: Path, heard: Heard) -> Iterator[Loop]:
    with running_pool(tmp_path, 1, printed=heard.printed.extend, progressed=heard.progressed.append) as opened:
        yield opened


def clear() -> str:
    """Known to the worker as a secret from now on."""
    return Secret(CLEAR).get()


def print_it() -> None:
    print("out", clear(), end="|")
    print("err", clear(), file=sys.stderr)
    logging.getLogger("shop").warning("log %s", clear())


def test_streams_and_records_are_masked(loop: Loop, heard: Heard) -> None:
    loop.call(print_it)
    assert heard.text("stdout") == "out ****|"
    assert heard.text("stderr") == "err ****\n"
    assert heard.text("log") == "log ****"


def print_past_python() -> None:
    os.write(1, f"written {clear()} by hand\n".encode())
    subprocess.run(["echo", clear()], check=True)
    os.write(2, clear().encode())


def test_what_goes_past_pythons_streams_is_masked(loop: Loop, heard: Heard) -> None:
    loop.call(print_past_python)
    assert heard.text("stdout") == "written **** by hand\n****\n"
    assert heard.text("stderr") == "****"


def print_in_pieces() -> None:
    text = clear()
    sys.stdout.write("flushed " + text[:5])
    sys.stdout.flush()
    sys.stdout.write(text[5:] + "\n")
    sys.stdout.write("x" * (CHUNK - 3) + text[:6])
    sys.stdout.write(text[6:] + "\n")
    sys.stdout.write("y" * (CHUNK - 3) + text + "\n")


def test_a_secret_is_masked_across_the_borders_of_pieces(loop: Loop, heard: Heard) -> None:
    loop.call(print_in_pieces)
    fill = CHUNK - 3
    assert heard.text("stdout") == f"flushed ****\n{'x' * fill}****\n{'y' * fill}****\n"


def tell_progress() -> None:
    current().progress(1, 2, f"with {clear()}")


def test_notes_of_progress_are_masked(loop: Loop, heard: Heard) -> None:
    loop.call(tell_progress, context={"run": "r", "task": "t", "attempt": "1.1", "key": "k"})
    assert heard.progressed[-1].note == "with ****"


class Picky(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = {"nested": [detail]}


def raise_it() -> None:
    try:
        raise OSError(5, "bad", f"/path/{clear()}")
    except OSError as error:
        error.add_note(f"a note of {clear()}")
        raise Picky(7, f"no {clear()} here") from error


def test_exceptions_with_their_causes_are_masked(loop: Loop) -> None:
    with pytest.raises(Picky, match=r"7: no \*\*\*\* here") as caught:
        loop.call(raise_it)
    assert caught.value.detail == {"nested": ["no **** here"]}
    cause = caught.value.__cause__
    assert isinstance(cause, OSError)
    assert CLEAR not in repr(cause.__dict__) + str(cause) + str(cause.filename)
