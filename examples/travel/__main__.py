"""`python -m travel`: serves some requests, and looks whether the books are in order."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack

from onceflow import Engine
from onceflow.testing.servers.postgres import PostgresServer
from travel import luck
from travel.customers import MIX, serve
from travel.trips import VARIANTS
from travel.world import close, create, problems


def main() -> int:
    parser = argparse.ArgumentParser(description="A travel agency on PostgreSQL.")
    parser.add_argument("--database", metavar="URL", help="of PostgreSQL (default: a server of its own)")
    parser.add_argument("--requests", type=int, default=200, metavar="N")
    parser.add_argument("--clients", type=int, default=8, metavar="N", help="requests at a time")
    parser.add_argument("--reserve-only", action="store_true", help="nothing but trips")
    parser.add_argument("--variant", choices=VARIANTS, default="overlapped", help="how trips are written")
    parser.add_argument("--failures", default="0", metavar="RATE", help="of all attempts, such as 0.1")
    options = parser.parse_args()
    os.environ[luck.RATE] = options.failures
    with ExitStack() as opened:
        url = options.database or opened.enter_context(PostgresServer()).create_database()
        create(url)
        with Engine() as engine:
            served = serve(
                engine,
                url,
                options.requests,
                clients=options.clients,
                variant=options.variant,
                reserve_only=options.reserve_only,
            )
        found = problems(url)
        close(url)
    print(", ".join([f"{served[kind]} {kind}" for kind in MIX]))
    print(f"{served['ordered']} trips ordered, {served['reserve'] - served['ordered']} refused")
    print("\n".join(found) or "the books are in order")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
