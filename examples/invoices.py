"""Send the invoices of a month: many runs at once, and none of them twice.

    python examples/invoices.py

Each invoice is a run of its own, and its name is an idempotency key. Start the program as often as you like, also in
two terminals at once, or from a job that fires twice: an invoice that was sent is not sent again, one that was
interrupted goes on, and one that failed is tried once more. The world outside is the folder outbox.
"""

from __future__ import annotations

from pathlib import Path

from onceflow import TaskFailed, current, run_many, task, workflow

OUTBOX = Path("outbox")
CUSTOMERS = {"ann": 120, "bob": 80, "cem": 0, "dora": 45, "eve": 310}
"""Customer → euros."""


class NothingToPay(Exception):
    """There is no such thing as an empty invoice."""


@task.pure
def write(customer: str, euros: int) -> str:
    if not euros:
        raise NothingToPay(customer)
    return f"{customer} owes {euros} euros"


# Irrevocable. A mail service takes two messages with one key for one; here the key is the name of a file.
@task(retry=5)
def send(invoice: str) -> str:
    OUTBOX.mkdir(exist_ok=True)
    (OUTBOX / current().key.replace("/", "-")).write_text(f"{invoice}\n")
    return invoice


@workflow
def invoice(customer: str, month: str, euros: int) -> str:
    return send.bind(write.bind(customer, euros))


def main(month: str = "2026-08") -> None:
    names = [f"invoice-{month}-{customer}" for customer in CUSTOMERS]
    invoices = [invoice.bind(customer, month, euros) for customer, euros in CUSTOMERS.items()]
    results = run_many(invoices, names=names, return_exceptions=True)
    for result in results:
        print(f"not sent: {result.__cause__!r}" if isinstance(result, TaskFailed) else f"sent: {result}")
    failed = [name for name, result in zip(names, results, strict=True) if isinstance(result, TaskFailed)]
    print("to look at:", ", ".join(failed))


if __name__ == "__main__":
    main()
