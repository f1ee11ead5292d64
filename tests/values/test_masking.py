"""Masking: texts of secrets are found wherever they would show."""

from __future__ import annotations

import pytest

from onceflow.values import secret_masks


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_texts", {}), ("_found", None), ("listeners", [])):
        monkeypatch.setattr(secret_masks, name, value)


def test_nothing_is_masked_as_long_as_there_is_no_secret() -> None:
    assert secret_masks.mask("hunter2") == "hunter2"
    assert secret_masks.mask_bytes(b"hunter2") == b"hunter2"
    assert not secret_masks.reveals(b"hunter2")
    assert secret_masks.uncertain(b"hunter2") == 0


def test_a_text_is_masked_everywhere() -> None:
    secret_masks.hide("hunter2")
    assert secret_masks.mask("a hunter2, hunter22 and Hunter2") == "a ****, ****2 and Hunter2"
    assert secret_masks.mask_bytes(b"hunter2\xff") == b"****\xff"
    assert secret_masks.reveals(b"xhunter2")


def test_the_longest_text_counts() -> None:
    secret_masks.hide("hunter")
    secret_masks.hide("hunter-and-more")
    assert secret_masks.mask("hunter-and-more") == "****"


def test_a_text_is_masked_as_python_shows_it_and_line_by_line() -> None:
    secret_masks.hide("a 'quoted' \\ text\nsecond line")
    assert secret_masks.mask(repr("a 'quoted' \\ text\nsecond line")) == '"****"'
    assert secret_masks.mask("only the second line") == "only the ****"


def test_bytes_are_masked_too() -> None:
    secret_masks.hide(b"\x00\xffsecret")
    assert secret_masks.mask_bytes(b"<\x00\xffsecret>") == b"<****>"
    assert secret_masks.mask(str({"key": b"\x00\xffsecret"})) == "{'key': b'****'}"


def test_short_texts_are_left_alone() -> None:
    secret_masks.hide("abc")
    assert secret_masks.mask("abc") == "abc"


def test_what_may_be_the_beginning_of_a_secret_is_known() -> None:
    secret_masks.hide("hunter2")
    assert secret_masks.uncertain(b"say hunt") == 4
    assert secret_masks.uncertain(b"say hunter2") == 0
    assert secret_masks.uncertain(b"h") == 1
    assert secret_masks.uncertain(b"hunt\n") == 0
    assert secret_masks.uncertain(b"") == 0


def test_listeners_hear_of_a_secret_once() -> None:
    heard: list[bytes] = []
    secret_masks.listeners.append(heard.extend)
    secret_masks.hide("hunter2")
    secret_masks.hide("hunter2")
    assert heard == [b"hunter2"]


def test_the_latest_are_remembered() -> None:
    for number in range(secret_masks.MOST + 1):
        secret_masks.hide(f"secret-{number:06}")
    assert secret_masks.mask("secret-000000") == "secret-000000"
    assert secret_masks.mask("secret-000001") == "****"
