"""Human approval: an order is prepared, somebody is asked, and nothing is held until there is an answer.

    python examples/approval.py order tea      asks, and ends: the order waits in the journal
    python examples/approval.py approve tea    answers, goes on with the order, and prints how it came out

Leave out the second line for a week, reboot, kill what you like: the order is prepared once, and shipped once.
"""

import sys
from dataclasses import dataclass

from onceflow import configure, resume, run_async, send_event, task, wait_event, workflow


@dataclass
class Decision:
    approved: bool
    by: str


@task
def prepare(item: str) -> str:
    print(f"{item} is packed; please approve")
    return item


@task
def ship(item: str, decision: Decision) -> str:
    return f"{item} {'shipped' if decision.approved else 'unpacked'}, as {decision.by} said"


@workflow
def order(item: str) -> str:
    packed = prepare.bind(item)
    return ship.bind(packed, wait_event("decision", Decision, after=[packed]))


if __name__ == "__main__":
    verb, item = sys.argv[1:] or ("both", "tea")
    configure(recover=True)
    if verb in ("order", "both"):
        handle = run_async(order.bind(item), name=f"order-{item}")
        for event in handle:
            if event.kind == "status" and event.detail == "waiting":
                break
    if verb in ("approve", "both"):
        send_event(f"order-{item}", "decision", {"approved": True, "by": "ann"})
        print(resume(f"order-{item}"))
