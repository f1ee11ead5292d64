"""`python -m travel`: serves some requests, and looks whether the books are in order."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack

from onceflow import Engine
from onceflow.testing.servers.postgres import PostgresServer
from travel import luck, world
from travel.customers import MIX, serve
from travel.trips import VARIANTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="travel", description="A travel agency on PostgreSQL.")
    parser.add_argument("--database", metavar="URL", help="of PostgreSQL (default: a server of its own, for this once)")
    parser.add_argument("--journal", choices=["home", "database"], default="home", help="where runs are kept")
    parser.add_argument("--requests", type=int, default=200, metavar="N")
    parser.add_argument("--clients", type=int, default=8, metavar="N", help="requests at a time")
    parser.add_argument("--reserve-only", action="store_true", help="nothing but trips")
    parser.add_argument("--variant", choices=VARIANTS, default="overlapped", help="how trips are written")
    parser.add_argument("--failures", default="0", metavar="RATE", help="of all attempts, such as 0.1")
    options = parser.parse_args()
    with ExitStack() as opened:
        home = None
        url = options.database
        if url is None:
            url = opened.enter_context(PostgresServer()).create_database()
            home = opened.enter_context(tempfile.TemporaryDirectory())  # what is known of trips goes with them
        os.environ.update({world.DATABASE: url, luck.RATE: options.failures})
        world.create()
        opened.callback(world.close)
        with Engine(home, journal=url if options.journal == "database" else None) as engine:
            served = serve(
                engine,
                options.requests,
                clients=options.clients,
                variant=options.variant,
                reserve_only=options.reserve_only,
            )
        problems = world.problems()
    print(", ".join([f"{served[kind]} {kind}" for kind in MIX]))
    print(f"{served['ordered']} trips ordered, {served['reserve'] - served['ordered']} refused")
    print("\n".join(problems) or "the books are in order")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
