"""Environments of peers: made when they are needed, kept while they are right, and a reason if there can be none."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from bench import field, venvs
from tests.bench import common


@pytest.fixture(autouse=True)
def venvs_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venvs, "VENVS", tmp_path)


def test_an_environment_is_made_once_and_has_nothing_in_it_that_was_not_asked_for(tmp_path: Path) -> None:
    told: list[str] = []

    python = venvs.python_of("peer", None, told.append)
    again = venvs.python_of("peer", None, told.append)

    assert again == python
    assert len(told) == 1
    assert subprocess.run([python, "-c", "import onceflow"], cwd=tmp_path, capture_output=True, check=False).returncode


def test_an_environment_that_is_not_what_is_wanted_is_made_anew(tmp_path: Path) -> None:
    told: list[str] = []
    python = venvs.python_of("peer", None, told.append)
    (tmp_path / "peer" / venvs.STAMP).write_text("Python 2.7\n")
    (tmp_path / "peer" / "left over").touch()

    assert venvs.python_of("peer", None, told.append) == python

    assert len(told) == 2
    assert not (tmp_path / "peer" / "left over").exists()


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    requirements = tmp_path / "peer.txt"
    requirements.write_text("a-package-that-nobody-has-made==1.0\n")
    peer = field.PEERS["dask"]
    monkeypatch.setitem(field.PEERS, "dask", dataclasses.replace(peer, requirements=requirements))
    told: list[str] = []

    with field.prepared(["dask"], [], 1, False, told.append) as prepared:
        missing = prepared.peers[0].missing

    assert missing.startswith("cannot be installed here: ERROR: No matching distribution found for a-package")
    assert told[-1] == f"dask is left out, because it {missing}"
    assert not (tmp_path / "dask" / venvs.STAMP).exists()


def test_every_peer_has_its_program_and_says_exactly_what_it_needs() -> None:
    for name, peer in field.PEERS.items():
        assert (common.ROOT / "bench" / "peers" / f"{name}.py").exists()
        if peer.requirements:
            assert all("==" in line for line in peer.requirements.read_text().splitlines())
            assert peer.version[0].isdigit()
