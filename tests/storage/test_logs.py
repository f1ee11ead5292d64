"""Logs: appended, read while they grow, and cut at their beginning."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from onceflow.storage import logs, orphans
from onceflow.storage.home import Home
from onceflow.storage.logs import MOST_OPEN, SEGMENTS, Reader, Writer
from tests.storage.common import commit, create

LINE = b"x" * 99 + b"\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def open_files() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return found


def test_what_was_appended_is_read_once(folder: Path) -> None:
    writer, reader = Writer(folder, 10_000), Reader(folder / "a")
    assert list(reader.lines()) == []
    writer.append("a", b"one\ntwo\n")
    assert list(reader.lines()) == [b"one\n", b"two\n"]
    writer.append("a", b"three\n")
    writer.append("b", b"another log\n")
    assert list(reader.lines()) == [b"three\n"]
    assert list(reader.lines()) == []
    writer.close_all()


def test_a_writer_that_appends_nothing_makes_nothing(folder: Path) -> None:
    Writer(folder, 10_000).close_all()
    assert not folder.exists()


def test_a_log_is_gone_on_with_by_another_writer(folder: Path) -> None:
    for text in (b"one\n", b"two\n"):
        writer = Writer(folder, 10_000)
        writer.append("a", text)
        writer.close_all()
    assert list(Reader(folder / "a").lines()) == [b"one\n", b"two\n"]
    assert logs.starts(folder / "a") == [0]


def test_a_line_that_was_cut_short_is_ended_by_the_next_writer(folder: Path) -> None:
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "0.jsonl").write_bytes(b"whole\nhal")
    reader = Reader(folder / "a")
    assert list(reader.lines()) == [b"whole\n"]
    writer = Writer(folder, 10_000)
    writer.append("a", b"next\n")
    assert list(reader.lines()) == [b"hal\n", b"next\n"]
    writer.close_all()


def test_a_log_never_takes_much_more_than_it_may(folder: Path) -> None:
    limit = 10 * len(LINE)
    writer = Writer(folder, limit)
    for _ in range(1000):
        writer.append("a", LINE)
        assert logs.size(folder / "a") <= limit + len(LINE)
    assert len(logs.starts(folder / "a")) <= SEGMENTS + 3
    writer.close_all()


def test_what_was_dropped_is_counted(folder: Path) -> None:
    writer = Writer(folder, 10 * len(LINE))
    for _ in range(100):
        writer.append("a", LINE)
    reader = Reader(folder / "a")
    left = sum(map(len, reader.lines()))
    assert reader.dropped + left == 100 * len(LINE)
    writer.close_all()


def test_a_reader_that_was_overtaken_knows_how_much_it_missed(folder: Path) -> None:
    writer, reader = Writer(folder, 10 * len(LINE)), Reader(folder / "a")
    writer.append("a", 3 * LINE)
    read = sum(map(len, reader.lines()))
    assert (read, reader.dropped) == (300, 0)
    for _ in range(100):
        writer.append("a", LINE)
    read += sum(map(len, reader.lines()))
    assert read + reader.dropped == 103 * len(LINE)
    assert reader.dropped
    writer.close_all()


def test_the_limit_holds_for_a_log_that_another_writer_began(folder: Path) -> None:
    for _ in range(50):
        writer = Writer(folder, 10 * len(LINE))
        writer.append("a", 5 * LINE)
        writer.close_all()
    assert logs.size(folder / "a") <= 15 * len(LINE)


def test_few_files_are_kept_open(folder: Path) -> None:
    writer = Writer(folder, 10_000)
    for number in range(5 * MOST_OPEN):
        writer.append(str(number), LINE)
    assert 0 < sum(path.startswith(str(folder)) for path in open_files()) <= MOST_OPEN
    writer.close_all()
    assert not any(path.startswith(str(folder)) for path in open_files())
    assert len(logs.listed(folder)) == 5 * MOST_OPEN


def test_a_full_disk_is_told_and_what_comes_later_is_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(folder, 10_000)
    writer.append("a", LINE)
    really = os.write

    def write(descriptor: int, data: memoryview) -> int:
        if len(data) > 50:
            return really(descriptor, data[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(logs.os, "write", write)
        with pytest.raises(OSError, match="No space"):
            writer.append("a", LINE)
    writer.append("a", b"later\n")
    assert list(Reader(folder / "a").lines()) == [LINE, LINE[:50] + b"\n", b"later\n"]
    writer.close_all()


def test_files_of_others_are_left_alone(folder: Path) -> None:
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "notes.txt").write_text("mine\n")
    writer = Writer(folder, 10_000)
    writer.append("a", LINE)
    assert list(Reader(folder / "a").lines()) == [LINE]
    writer.close_all()


def test_only_old_logs_of_runs_that_are_gone_are_orphans(tmp_path: Path) -> None:
    with Home(tmp_path / "home", durability="process") as home:
        folder = logs.of_runs(home.path)
        writer = Writer(folder, 10_000)
        for run in ("known", "young", "old"):
            writer.append(run, LINE)
        writer.close_all()
        (folder / "notes.txt").write_text("of somebody else")
        os.utime(folder / "notes.txt", (0, 0))
        commit(home.journal, create("known"))
        for run in ("known", "old"):
            os.utime(folder / run / "0.jsonl", (0, 0))
        assert home.collect_orphans() == orphans.Collected(1, len(LINE))
        assert logs.listed(folder) == ["known", "young"]
