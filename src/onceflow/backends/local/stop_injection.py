"""Raising `Stopped` inside a job that runs, from the worker's side thread.

The main thread is reached with a signal, which also wakes it from most system calls. Other threads are reached with an
exception that the interpreter raises when they come to their next bytecode; from a system call nothing wakes them.

Neither may hit anything but the job it is meant for, and nothing may come out of `run`. The rules:

- A job is *told* to stop at most once, and `Stopped` is raised at most once. So code that has caught it is safe from
  then on.
- It can be raised at any bytecode between the first and the last line of the `try` in `run`; that is all of our code
  which has to expect it. Before and after, the signal's handler finds that no job runs, or another one; and an
  exception that a thread has not noticed yet is taken back.
- The two threads agree without a lock, or with one that is never held for long, on whether a job that was about to
  begin or to end was told: the second thread sees what the first has written.

A job that was told counts as stopped, whatever it returns or raises: the caller wanted it to end, and cannot know how
much of what it was to do it has done.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

from onceflow.backends.local.job_runner import Functions, execute
from onceflow.backends.local.messages import Job, Outcome
from onceflow.backends.local.objects import Objects
from onceflow.errors import Stopped
from onceflow.values.context import job_token, running

SIGNAL = signal.SIGRTMAX - 2
"""Not used by other code, as far as we know: debuggers, profilers and timers use others."""


class MainThread:
    """The jobs of the lane. To be made in the main thread."""

    def __init__(self, known: Functions, objects: Objects) -> None:
        self._known = known
        self._objects = objects
        self._runs = 0
        """The token of the job that may be interrupted; 0 if there is none."""
        self._told: set[int] = set()
        """Tokens of jobs that are to stop. Of those that have ended or were given back some remain; that is all."""
        self._ident = threading.get_ident()
        signal.signal(SIGNAL, self._raise_if_told)

    def run(self, job: Job) -> Outcome:
        """Whatever happens, there is an outcome."""
        token = job.token
        job_token.set(token)
        outcome: Outcome | None = None
        try:
            self._runs = token
            if self._told:
                self._raise_if_told()
            outcome = execute(job, self._known, self._objects, self._objects.offer)
            self._runs = 0
        except Stopped:
            running.set(None)
        if outcome is None or (self._told and token in self._told):
            self._told.discard(token)
            return stopped(token)
        return outcome

    def stop(self, token: int) -> None:
        """From another thread. A job that does not run here, or not any more, is not harmed."""
        self._told.add(token)
        if self._runs == token:
            signal.pthread_kill(self._ident, SIGNAL)

    def has_told(self, token: int) -> bool:
        return token in self._told

    def _raise_if_told(self, *_: object) -> None:
        token = self._runs
        if token and token in self._told:
            self._runs = 0
            raise Stopped


class OtherThreads:
    """Jobs that run in threads of their own."""

    def __init__(self, known: Functions, objects: Objects) -> None:
        self._known = known
        self._objects = objects
        self._lock = threading.Lock()
        self._idents: dict[int, int | None] = {}
        """Token → the thread that may be interrupted; None if it has not begun."""
        self._told: set[int] = set()

    def expect(self, token: int) -> None:
        """To be called before the thread is started that will call `run`."""
        self._idents[token] = None

    def run(self, job: Job) -> Outcome:
        """Whatever happens, there is an outcome."""
        token = job.token
        job_token.set(token)
        outcome: Outcome | None = None
        try:
            with self._lock:
                if token in self._told:
                    raise Stopped
                self._idents[token] = threading.get_ident()
            outcome = execute(job, self._known, self._objects, self._objects.leave)
        except Stopped:
            pass
        while not self._is_over(token):
            pass
        if token in self._told:
            self._told.discard(token)
            return stopped(token)
        assert outcome is not None
        return outcome

    def stop(self, token: int) -> bool:
        """From another thread. Whether the job is, or will be, in a thread here."""
        with self._lock:
            if token not in self._idents:
                return False
            self._told.add(token)
            ident = self._idents[token]
            if ident is not None:
                _set_exception(ctypes.c_ulong(ident), ctypes.py_object(Stopped))
        return True

    def has_told(self, token: int) -> bool:
        return token in self._told

    def _is_over(self, token: int) -> bool:
        """Whether nothing can be raised any more. Until then it may be, but only once."""
        try:
            with self._lock:
                self._idents.pop(token, None)
            if token in self._told:
                _set_exception(ctypes.c_ulong(threading.get_ident()), None)
        except Stopped:
            return False
        return True


_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc


def stopped(token: int) -> Outcome:
    now = time.time()
    return Outcome(token, now, now, [], cancelled=True, children=_has_children())


def _has_children() -> bool:
    """Whether this worker has child processes. Orphans of them are its children, too (`forkserver`)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
