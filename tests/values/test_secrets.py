"""`Secret`: shown to nobody, pickled only in sealed form, resolved where somebody asks."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceflow import Secret
from onceflow.errors import InvalidOption, SecretUnavailable
from onceflow.values import sealed_bytes
from onceflow.values.fingerprint import Walk


@pytest.mark.parametrize("clear", ["hunter2-clear", "zwölf ☃ \n", "", b"\x00\xffbytes"])
def test_a_literal_is_pickled_in_sealed_form(clear: Any) -> None:
    secret = Secret(clear)
    pickled = pickle.dumps({"deep": [secret]}, 5)
    assert pickle.loads(pickled)["deep"][0].get() == secret.get() == clear
    if clear:
        assert (clear if isinstance(clear, bytes) else clear.encode()) not in pickled


def test_nobody_sees_a_literal() -> None:
    secret = Secret("hunter2-clear")
    assert repr(secret) == str(secret) == f"{secret}" == f"{secret!s:>5}".strip() == "Secret(****)"
    assert "hunter2" not in repr(pickle.loads(pickle.dumps(secret)))
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    with pytest.raises(TypeError, match="not iterable"):
        list(secret)
    with pytest.raises(TypeError):
        hash(secret)


def test_secrets_are_equal_if_their_texts_are() -> None:
    assert Secret("a text") == Secret("a text") == pickle.loads(pickle.dumps(Secret("a text")))
    assert Secret("a text") != Secret("another")
    assert Secret("a text") != Secret(b"a text")
    assert Secret("a text") != "a text"
    assert Secret.env("A") == Secret.env("A") != Secret.env("B")
    assert copy.deepcopy([Secret("a text")]) == [Secret("a text")]


def test_a_variable_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.env("ONCEFLOW_TEST_TOKEN")
    assert repr(secret) == "Secret.env('ONCEFLOW_TEST_TOKEN')"
    with pytest.raises(SecretUnavailable, match="no such environment variable here"):
        secret.get()
    monkeypatch.setenv("ONCEFLOW_TEST_TOKEN", "from-the-environment")
    pickled = pickle.dumps(secret)
    assert b"from-the-environment" not in pickled
    assert pickle.loads(pickled).get() == "from-the-environment"


def test_a_file_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    secret = Secret.file(tmp_path / "token")
    with pytest.raises(SecretUnavailable, match="cannot be read"):
        secret.get()
    (tmp_path / "token").write_text("from-a-file\n")
    assert pickle.loads(pickle.dumps(secret)).get() == "from-a-file"
    (tmp_path / "token").write_text("renewed")
    assert secret.get() == "renewed"


@pytest.mark.parametrize("value", [17, None, ["text"]])
def test_a_literal_is_a_text_or_bytes(value: Any) -> None:
    with pytest.raises(InvalidOption, match="it holds a text or bytes"):
        Secret(value)


@pytest.mark.parametrize("name", ["", 17, None])
def test_a_reference_needs_a_name(name: Any) -> None:
    with pytest.raises(InvalidOption):
        Secret.env(name)


def test_the_same_secret_is_the_same_argument_as_far_as_its_home_tells(tmp_path: Path) -> None:
    def seen(secret: Secret[Any]) -> bytes:
        return Walk().encode([secret])

    with sealed_bytes.using(tmp_path):
        assert seen(Secret("a text")) == seen(Secret("a text"))
        assert seen(Secret("a text")) != seen(Secret("another")) != seen(Secret.env("A"))
        there = seen(Secret("a text"))
    assert seen(Secret("a text")) != there


def test_a_secret_is_sealed_once_for_each_home(tmp_path: Path) -> None:
    secret = Secret("a text")
    with sealed_bytes.using(tmp_path):
        first = pickle.dumps(secret)
        assert pickle.dumps(secret) == first
    assert pickle.dumps(secret) != first
