"""Sealing: what is sealed can be read with its key only, and never changed unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.errors import SecretUnavailable
from onceflow.values import sealed_bytes
from onceflow.values.sealed_bytes import KEY_FILE, Key
from tests.conftest import NOBODY

KEY = Key(b"k" * 32)


@given(st.binary(max_size=300))
def test_what_is_sealed_can_be_opened_again(text: bytes) -> None:
    assert KEY.unseal(KEY.seal(text)) == text


@given(st.binary(max_size=100), st.integers(min_value=0), st.integers(1, 255))
def test_what_was_changed_cannot_be_opened(text: bytes, place: int, change: int) -> None:
    sealed = bytearray(KEY.seal(text))
    sealed[place % len(sealed)] ^= change
    assert KEY.unseal(bytes(sealed)) is None


@given(st.binary(max_size=100), st.integers(1, 60))
def test_what_was_cut_cannot_be_opened(text: bytes, missing: int) -> None:
    assert KEY.unseal(KEY.seal(text)[:-missing]) is None


def test_another_key_does_not_open_it() -> None:
    assert Key(b"x" * 32).unseal(KEY.seal(b"text")) is None


def test_the_same_text_is_never_sealed_alike_but_has_one_fingerprint() -> None:
    assert KEY.seal(b"text") != KEY.seal(b"text")
    assert KEY.fingerprint(b"text") == KEY.fingerprint(b"text") != KEY.fingerprint(b"test")
    assert Key(b"x" * 32).fingerprint(b"text") != KEY.fingerprint(b"text")


def test_sealed_texts_tell_little_about_their_length() -> None:
    assert len({len(KEY.seal(bytes(size))) for size in range(57)}) == 1


def test_the_key_of_a_home_is_made_once_and_for_its_user_only(tmp_path: Path) -> None:
    with sealed_bytes.using(tmp_path):
        sealed = sealed_bytes.seal(b"text")
    file = tmp_path / KEY_FILE
    content = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    with sealed_bytes.using(tmp_path):
        assert sealed_bytes.is_sealed_for_here(sealed)
        assert sealed_bytes.unseal(sealed_bytes.seal(b"more")) == b"more"
    assert file.read_bytes() == content
    assert sealed_bytes.unseal(sealed) == b"text"
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_processes_and_threads_that_make_a_key_at_once_agree_on_one(tmp_path: Path) -> None:
    # given
    together = threading.Barrier(8)
    sealed: list[bytes] = []

    def seal() -> None:
        with sealed_bytes.using(tmp_path):
            together.wait()
            sealed.append(sealed_bytes.seal(b"text"))

    threads = [threading.Thread(target=seal) for _ in range(8)]
    # when
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # then
    with sealed_bytes.using(tmp_path):
        assert all(sealed_bytes.is_sealed_for_here(one) for one in sealed)


def test_outside_of_homes_a_process_has_a_key_of_its_own(tmp_path: Path) -> None:
    sealed = sealed_bytes.seal(b"text")
    assert sealed_bytes.unseal(sealed) == b"text"
    with sealed_bytes.using(tmp_path):
        assert not sealed_bytes.is_sealed_for_here(sealed)
    with sealed_bytes.using(tmp_path / "nowhere"):
        assert sealed_bytes.is_sealed_for_here(sealed)


def test_another_process_cannot_open_it_without_the_key(tmp_path: Path) -> None:
    with sealed_bytes.using(tmp_path):
        sealed = sealed_bytes.seal(b"text")
    program = "import sys; from pathlib import Path; from onceflow.values import sealed_bytes\n"
    program += "for home in sys.argv[2:]: sealed_bytes.know(Path(home))\n"
    program += "print(sealed_bytes.unseal(bytes.fromhex(sys.argv[1])))"

    def open_it(*homes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, sealed.hex(), *homes]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    assert open_it(str(tmp_path)).stdout == "b'text'\n"
    assert "SecretUnavailable: a Secret is not available: it was sealed with a key that is not in" in open_it().stderr


def test_a_damaged_key_is_told(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("no key")
    with sealed_bytes.using(tmp_path), pytest.raises(SecretUnavailable, match=r"secrets\.key is damaged"):
        sealed_bytes.seal(b"text")


@pytest.mark.parametrize("flaw", ["owner", "mode"])
def test_a_key_that_another_user_could_write_is_not_used(
    tmp_path: Path, give_away: Callable[[Path], None], flaw: str
) -> None:
    with sealed_bytes.using(tmp_path):
        sealed_bytes.seal(b"text")
    if flaw == "owner":
        give_away(tmp_path / KEY_FILE)
    else:
        (tmp_path / KEY_FILE).chmod(0o666)

    with sealed_bytes.using(tmp_path), pytest.raises(SecretUnavailable, match="run code as you"):
        sealed_bytes.seal(b"text")

    sealed_bytes.know(tmp_path, [NOBODY, os.geteuid()])
    with sealed_bytes.using(tmp_path):
        sealed_bytes.seal(b"text")


def test_a_worker_trusts_the_owners_that_its_engine_trusts(
    tmp_path: Path, give_away: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sealed_bytes.using(tmp_path):
        sealed_bytes.seal(b"text")
    give_away(tmp_path / KEY_FILE)
    monkeypatch.setattr(sealed_bytes, "_served", None)
    monkeypatch.setenv("ONCEFLOW_TRUSTED_OWNERS", str(NOBODY))

    sealed_bytes.work_for(tmp_path)

    assert sealed_bytes.unseal(sealed_bytes.seal(b"text")) == b"text"
