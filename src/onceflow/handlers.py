"""Handlers: what becomes of a task that raises and is not tried again, said once and used in many places.

- `handler(errors, decision)`, or as a decorator of a function that decides: a `Handler`, for the option `handlers=[…]`.
- `retry(count)`, `ignore(value)`, `break_()`, `terminate()`: the decisions, each a `Decision`.
- `FailedAttempt`: what the function of a handler learns beside the exception.
"""

from onceflow.authoring.handlers import Decision, FailedAttempt, Handler, break_, handler, ignore, retry, terminate

__all__ = ["Decision", "FailedAttempt", "Handler", "break_", "handler", "ignore", "retry", "terminate"]
