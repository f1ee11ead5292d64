"""Those who make requests."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from onceflow import Engine, Secret
from travel.looking import recommend, search, user
from travel.trips import VARIANTS
from travel.world import CITIES, CUSTOMERS, FLIGHTS, HOTELS

MIX = {"search": 0.6, "recommend": 0.39, "user": 0.005, "reserve": 0.005}
"""How often each request is made."""


def request(number: int, variant: str, *, reserve_only: bool) -> tuple[str, Any]:
    """What request of this number is, and its workflow: the same one whenever it is asked."""
    chance = random.Random(number)
    kind = "reserve" if reserve_only else chance.choices(list(MIX), list(MIX.values()))[0]
    city = chance.choice(CITIES)
    match kind:
        case "search":
            return kind, search.bind(city, chance.randint(50, 500))
        case "recommend":
            return kind, recommend.bind(city, chance.choice(["price", "rating", "distance"]))
        case "user":
            who = chance.randrange(CUSTOMERS)
            return kind, user.bind(f"customer {who}", Secret(f"password {chance.choice([who, 'forgotten'])}"))
        case _:
            customer = f"customer {chance.randrange(CUSTOMERS)}"
            hotel, flight = f"hotel {chance.randrange(HOTELS)} {city}", f"flight {chance.randrange(FLIGHTS)} {city}"
            return kind, VARIANTS[variant].bind(customer, hotel, flight)


def serve(
    engine: Engine, count: int, *, clients: int = 8, variant: str = "overlapped", reserve_only: bool = False
) -> Counter[str]:
    """Serves so many requests, some at a time. Returns how many there were of each kind, and how many trips were
    ordered."""
    served: Counter[str] = Counter()

    def one(number: int) -> tuple[str, Any]:
        kind, node = request(number, variant, reserve_only=reserve_only)
        return kind, engine.run(node, name=f"{kind}-{number}", on_failure="undo")

    with ThreadPoolExecutor(clients) as threads:
        for kind, result in threads.map(one, range(count)):
            served[kind] += 1
            served["ordered"] += kind == "reserve" and result
    return served
