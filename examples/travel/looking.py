"""Requests that only look: tasks without an effect, of which nothing is saved but the result."""

from __future__ import annotations

from typing import Literal

from onceflow import Secret, task, workflow
from travel.luck import PATIENT, unlucky
from travel.world import database, hashed

By = Literal["price", "rating", "distance"]


@task(effect="none", checkpoint=False, retry=PATIENT)
@unlucky
def nearby(city: str, distance: int) -> list[str]:
    with database() as db:
        rows = db.execute(
            "SELECT id FROM item WHERE kind = 'hotel' AND city = %s AND distance <= %s ORDER BY distance LIMIT 20",
            (city, distance),
        )
        return [id for (id,) in rows]


@task(effect="none", checkpoint=False, retry=PATIENT)
@unlucky
def best(city: str, by: By) -> list[str]:
    order = {"price": "price", "rating": "rating DESC", "distance": "distance"}[by]
    with database() as db:
        rows = db.execute(
            f"SELECT id FROM item WHERE kind = 'hotel' AND city = %s ORDER BY {order} LIMIT 5".encode(), (city,)
        )
        return [id for (id,) in rows]


@task(effect="none", checkpoint=False, retry=PATIENT)
@unlucky
def profiles(hotels: list[str]) -> list[tuple[str, int, int]]:
    with database() as db:
        return db.execute(
            "SELECT id, price, rating FROM item WHERE id = ANY (%s) AND capacity > 0 ORDER BY price", (hotels,)
        ).fetchall()


@task(effect="none", checkpoint=False, retry=PATIENT)
@unlucky
def is_customer(name: str, password: Secret[str]) -> bool:
    with database() as db:
        row = db.execute("SELECT password FROM customer WHERE name = %s", (name,)).fetchone()
    return row is not None and row[0] == hashed(password.get())


@workflow
def search(city: str, distance: int) -> list[tuple[str, int, int]]:
    return profiles.bind(nearby.bind(city, distance))


@workflow
def recommend(city: str, by: By) -> list[tuple[str, int, int]]:
    return profiles.bind(best.bind(city, by))


@workflow
def user(name: str, password: Secret[str]) -> bool:
    return is_customer.bind(name, password)
