"""Runs that are being paused."""

from __future__ import annotations

from tests.driver.common import Drive, effect


def test_what_died_while_its_run_is_being_paused_has_begun() -> None:
    """Its handlers are not asked any more; but it may have had its effect."""
    drive = Drive(effect.options(catch=True).bind(1))
    drive.host.worker_deaths = 1
    drive.commit()
    drive.driver.pause()
    drive.die("effect")
    drive.driver.proceed()
    drive.host.flush()
    assert [kind for kind in drive.kinds if kind.startswith(("begun", "withdrawn"))] == ["begun effect"]
    assert drive.run.rows["effect"].begun
