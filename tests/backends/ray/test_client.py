"""Through Ray's client, from a process that is no part of the cluster: see `client`."""

from __future__ import annotations

import subprocess
import sys

import pytest

SOME = "effect or failure or large or refs_are or passed_on or cancelling or ask_for_more or prints"
"""Of the tests. The others have little to do with the way to the cluster."""


def conform(*arguments: str) -> None:
    command = [sys.executable, "-m", "tests.backends.ray.client", *arguments]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert process.returncode == 0, process.stdout


def test_what_conforms_elsewhere_does_so_through_a_client() -> None:
    conform("-k", SOME)


@pytest.mark.soak
def test_everything_else_does_so_too() -> None:
    conform()
