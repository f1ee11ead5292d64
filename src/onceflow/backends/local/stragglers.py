"""Workers that make no progress: one that is silent for too long is asked to give back its waiting jobs, and one that
has to stop a job and does not is killed."""

from __future__ import annotations

from onceflow.backends.local.workers import Worker

OVERDUE = 0.010
"""Seconds. A worker that has been silent for this long, and four times as long as its jobs should take, is asked to
give back those that wait behind the one that runs."""

UNRESPONSIVE = 0.1
"""Seconds that a worker has to give back what it has not started before it is killed because of what it runs. Code
that does not release the interpreter lock keeps it from doing so."""

CONGESTED = 0.005
"""Seconds until a worker that had too much in its socket is tried again."""


def see_to(worker: Worker, now: float) -> float | None:
    """Returns when to look at it again."""
    if worker.owed:
        worker.catch_up()
    looks = [now + CONGESTED] if worker.owed else []
    if worker.stopping:
        deadline = min([_deadline(worker, token, now) for token in worker.stopping])
        if deadline <= now:
            worker.kill()
            return None
        looks.append(deadline)
    if worker.recalled is None and len(worker.queue) > 1:
        deadline = worker.heard + max(OVERDUE, 4 * worker.load.seconds)
        if now < deadline:
            looks.append(deadline)
        else:
            worker.recall(now)
    return min(looks, default=None)


def _deadline(worker: Worker, token: int, now: float) -> float:
    """When the worker has to be killed because of a job that is to stop, or looked at again.

    Of the jobs in the lane it is certain which one runs when the worker has given back the others, or has no others.
    One before the mark has ended, and its outcome is on its way; for one after it there is no need to kill the worker
    and with it another job: if it starts after all, that is seen soon."""
    deadline = worker.stopping[token]
    given = worker.queue.get(token)
    if given is None or deadline > now:
        return deadline
    if given.place != worker.mark:
        return now + UNRESPONSIVE
    if worker.answered or len(worker.queue) == 1:
        return deadline
    assert worker.recalled is not None
    return worker.recalled + UNRESPONSIVE
