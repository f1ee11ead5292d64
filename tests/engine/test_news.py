"""News of the engine's thread for others: none are missed, whenever they come."""

from __future__ import annotations

import threading

from onceflow.engine.runtime.news import News
from tests.helpers.waiting import LONG


def test_news_that_came_before_the_wait_ends_it_at_once() -> None:
    news = News()
    known = news.number
    news.ring()
    news.wait(known, LONG)
    assert news.number != known


def test_news_that_comes_during_the_wait_ends_it() -> None:
    news = News()
    known = news.number
    waiter = threading.Thread(target=lambda: news.wait(known, 10 * LONG), daemon=True)
    waiter.start()
    while waiter.is_alive() and not news._waiting:
        pass
    news.ring()
    waiter.join(LONG)
    assert not waiter.is_alive()


def test_without_news_a_wait_ends_when_its_time_is_over() -> None:
    news = News()
    news.wait(news.number, 0.0)
    assert news.number == 0
