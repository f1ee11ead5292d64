"""Masking: texts of secrets are found wherever they would show."""

from __future__ import annotations

import pytest

from onceflow.values import masking


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_texts", {}), ("_found", None), ("listeners", [])):
        monkeypatch.setattr(masking, name, value)


def test_nothing_is_masked_as_long_as_there_is_no_secret() -> None:
    assert masking.mask("hunter2") == "hunter2"
    assert masking.mask_bytes(b"hunter2") == b"hunter2"
    assert not masking.reveals(b"hunter2")
    assert masking.uncertain(b"hunter2") == 0


def test_a_text_is_masked_everywhere() -> None:
    masking.hide("hunter2")
    assert masking.mask("a hunter2, hunter22 and Hunter2") == "a ****, ****2 and Hunter2"
    assert masking.mask_bytes(b"hunter2\xff") == b"****\xff"
    assert masking.reveals(b"xhunter2")


def test_the_longest_text_counts() -> None:
    masking.hide("hunter")
    masking.hide("hunter-and-more")
    assert masking.mask("hunter-and-more") == "****"


def test_a_text_is_masked_as_python_shows_it_and_line_by_line() -> None:
    masking.hide("a 'quoted' \\ text\nsecond line")
    assert masking.mask(repr("a 'quoted' \\ text\nsecond line")) == '"****"'
    assert masking.mask("only the second line") == "only the ****"


def test_bytes_are_masked_too() -> None:
    masking.hide(b"\x00\xffsecret")
    assert masking.mask_bytes(b"<\x00\xffsecret>") == b"<****>"
    assert masking.mask(str({"key": b"\x00\xffsecret"})) == "{'key': b'****'}"


def test_short_texts_are_left_alone() -> None:
    masking.hide("abc")
    assert masking.mask("abc") == "abc"


def test_what_may_be_the_beginning_of_a_secret_is_known() -> None:
    masking.hide("hunter2")
    assert masking.uncertain(b"say hunt") == 4
    assert masking.uncertain(b"say hunter2") == 0
    assert masking.uncertain(b"h") == 1
    assert masking.uncertain(b"hunt\n") == 0
    assert masking.uncertain(b"") == 0


def test_listeners_hear_of_a_secret_once() -> None:
    heard: list[bytes] = []
    masking.listeners.append(heard.extend)
    masking.hide("hunter2")
    masking.hide("hunter2")
    assert heard == [b"hunter2"]


def test_the_latest_are_remembered() -> None:
    for number in range(masking.MOST + 1):
        masking.hide(f"secret-{number:06}")
    assert masking.mask("secret-000000") == "secret-000000"
    assert masking.mask("secret-000001") == "****"
