"""Timers of waits for events that may come in time."""

from __future__ import annotations

from onceflow import wait_event
from tests.driver.common import Drive, effect


def test_a_wait_has_one_timer_however_many_events_come_for_others() -> None:
    drive = Drive(effect.bind(wait_event("order", str, timeout=3600)))
    for _ in range(5):
        drive.driver.look_for_mail()
    assert len(drive.host.timers) == 1


def test_a_wait_has_another_timer_when_the_clock_was_looked_at_too_early() -> None:
    drive = Drive(effect.bind(wait_event("order", str, timeout=3600)))
    _, ring = drive.host.timers.pop()
    drive.host.clock += 30
    ring()
    assert len(drive.host.timers) == 1
