"""Handlers, errors as values and transactions."""

from typing import assert_type

from onceflow import run, task, transaction, workflow
from onceflow.handlers import Decision, FailedAttempt, Handler, handler, ignore, retry


@task
def price(city: str) -> int:
    return len(city)


value, error = price.options(catch=True).bind("Rome")
assert_type(value, int | None)
assert_type(error, Exception | None)
assert_type(run(price.options(catch=True).bind("Rome")), tuple[int | None, Exception | None])
assert_type(price.options(handlers=[handler(KeyError, ignore(0))]).bind("Rome"), int)
assert_type(handler((KeyError, OSError), retry(3)), Handler)
assert_type(retry(3), Decision)


@handler(KeyError)
def unknown(error: KeyError, failure: FailedAttempt) -> int:
    return failure.failures


assert_type(unknown, Handler)


@transaction
def booking(city: str) -> int:
    return price.bind(city)


@transaction(retry=2, handlers=[unknown])
def again(city: str) -> int:
    return price.bind(city)


assert_type(booking.bind("Rome"), int)
assert_type(again.bind("Rome"), int)
assert_type(booking.options(catch=True).bind("Rome"), tuple[int | None, Exception | None])


@workflow(handlers=[unknown])
def trip(city: str) -> int:
    return booking.bind(city)


assert_type(trip.bind("Rome"), int)
handler(3, ignore(0))  # E: call-overload
booking.bind(1)  # E: arg-type
