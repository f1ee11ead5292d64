"""Chores are done in order, all of them, and nobody waits for them."""

from __future__ import annotations

import threading

from onceflow.data.background import Chores


def test_chores_are_done_one_after_the_other_in_another_thread() -> None:
    chores = Chores()
    gate = threading.Event()
    done: list[tuple[int, bool]] = []
    chores.add(lambda: gate.wait() and None)
    for number in range(5):
        chores.add(lambda number=number: done.append((number, threading.current_thread() is threading.main_thread())))  # type: ignore[misc]

    assert done == []
    gate.set()
    chores.wait()

    assert done == [(number, False) for number in range(5)]


def test_without_chores_there_is_no_thread() -> None:
    chores = Chores()
    threads: list[threading.Thread] = []
    chores.add(lambda: threads.append(threading.current_thread()))
    chores.wait()

    threads[0].join()
    chores.add(lambda: threads.append(threading.current_thread()))
    chores.wait()

    assert threads[0] is not threads[1]
