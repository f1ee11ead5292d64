"""The jobs that no worker has yet.

Jobs of one kind that need the same stand in one line: if there is no room for one of them there is none for the others,
so they need not be examined. Jobs that say nothing of what they need, almost all, have lines that are there from the
beginning. There are as many other lines as there are different needs: few, unless each job states its own. So that a
turn of the pool costs the same however many there are, only some are looked at, and a line that was served goes behind
the others. In each line runs take turns (`fair_queue`).
"""

from __future__ import annotations

from itertools import chain, islice

from onceflow.backends.local.fair_queue import Line, Shares
from onceflow.backends.local.messages import Job

LOOK = 32
"""Lines of jobs with needs that are looked at in one turn, for lanes and to share."""


class Queues:
    """All lines."""

    def __init__(self) -> None:
        self.lane = Line()
        """Jobs for lanes that say nothing of what they need."""
        self.sharing = Line(), Line()
        """Jobs that share and say nothing: async ones, threads."""
        self.needy = 0
        """How many jobs say what they need."""
        self._lines: tuple[dict[Kind, Line], dict[Kind, Line]] = {}, {}
        """Their lines, for lanes and to share. None is empty."""
        self.shares = Shares()
        """The share that each run has had, as long as there are different needs."""

    def __len__(self) -> int:
        return len(self.lane) + sum(map(len, self.sharing)) + self.needy

    def holds(self, job: Job) -> bool:
        line = self._line(job)
        return line is not None and job in line

    def find_needy(self, token: int) -> Job | None:
        """The job, if it is queued and says what it needs."""
        for lines in self._lines:
            for line in lines.values():
                found = line.find(token)
                if found is not None:
                    return found
        return None

    def lines(self, *, share: bool) -> list[Line]:
        """The next ones to look at. None is empty."""
        silent = self.sharing if share else (self.lane,)
        return [*[line for line in silent if line], *islice(self._lines[share].values(), LOOK)]

    def first(self, most: int) -> list[int]:
        """The tokens of those that would be next, for lanes before those that share."""
        lines = [*self.lines(share=False), *self.lines(share=True)]
        return [job.token for job in islice(chain.from_iterable(lines), most)]

    def add(self, job: Job) -> None:
        self._join(job).add(job)

    def put_back(self, job: Job) -> None:
        """A worker had it and did not start it."""
        self._join(job).returned[job.token] = job

    def _join(self, job: Job) -> Line:
        """The line that the job is about to stand in."""
        if job.cpus is not None or job.memory:
            self.needy += 1
        line = self._line(job)
        return self._open_line(job) if line is None else line

    def take(self, jobs: list[Job]) -> None:
        """A worker has these."""
        for job in jobs:
            line = self._line(job)
            assert line is not None
            line.take(job)
            if not self.needy:
                continue
            self.shares.note(job)
            if job.needy:
                self.needy -= 1
                del self._lines[job.shares][_kind(job)]
                if line:
                    self._lines[job.shares][_kind(job)] = line

    def remove(self, token: int) -> bool:
        """Whether it was queued."""
        if self.lane.remove(token) or any(line.remove(token) for line in self.sharing):
            return True
        for lines in self._lines:
            for kind, line in lines.items():
                if line.remove(token):
                    self.needy -= 1
                    if not line:
                        del lines[kind]
                    return True
        return False

    def _line(self, job: Job) -> Line | None:
        if job.cpus is not None or job.memory:
            return self._lines[job.shares].get(_kind(job))
        if (job.is_async or job.threads) and not job.alone:
            return self.sharing[job.threads]
        return self.lane

    def _open_line(self, job: Job) -> Line:
        line = self._lines[job.shares][_kind(job)] = Line()
        return line


Kind = tuple[bool, float | None, int]


def _kind(job: Job) -> Kind:
    return job.threads, job.cpus, job.memory
