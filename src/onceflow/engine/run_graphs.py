"""Running graphs: from a node to a result or a handle; and going on with runs that exist."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from onceflow.engine.handles import Feed, Redirected
from onceflow.engine.options import CommonRunOptions, RerunOptions, RunOptions, check_known
from onceflow.engine.parts import Parts
from onceflow.engine.queues.management import defined, waiting_elsewhere
from onceflow.engine.submission import new_id, prepare
from onceflow.errors import InvalidOption, NameTaken, OnceflowError, QueueFull, RunInterrupted
from onceflow.values import sealed_bytes

if TYPE_CHECKING:
    from onceflow.engine.handles import Completion, RunHandle
    from onceflow.engine.submission import Submission
    from onceflow.storage.journal import RunRow

R = TypeVar("R")

MOST_OPENING = 500
"""Runs of `run_many` that are submitted and not yet durable."""

logger = logging.getLogger(__name__)


class Running(Parts):
    """What an engine can do with graphs: run them, go on with them, and wait for them."""

    _adopters: set[threading.Thread]
    """Threads that are about to hand over runs that are to be driven here."""
    _display: contextlib.AbstractContextManager[None]
    """Entered while a caller waits for a run."""

    def _handle(self, completion: Completion, feed: Feed) -> RunHandle[Any]:
        raise AssertionError("an engine makes handles")

    def run(self, node: R, **options: Unpack[RunOptions]) -> R:
        """Runs the graph that leads to this node, and returns its result. See `onceflow.run`."""
        self._check_usable()
        self._hub.warm_up()
        submission = self._prepare(node, options)
        result: R = self._result(submission, self._begin(submission))
        return result

    def run_async(self, node: R, **options: Unpack[RunOptions]) -> RunHandle[R]:
        """Like `run`, but returns as soon as the run is durable: from then on it can be resumed whatever happens."""
        self._check_usable()
        self._hub.warm_up()
        return self._start(self._prepare(node, options))

    def run_many(
        self,
        nodes: Iterable[R],
        *,
        names: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        return_exceptions: bool = False,
        **options: Unpack[CommonRunOptions],
    ) -> list[R]:
        """Runs many graphs at once, and returns their results in order. See `onceflow.run_many`."""
        check_known(options, CommonRunOptions, "run_many")
        given = list(nodes)
        named: list[str | None] = [None] * len(given) if names is None else list(names)
        if len(named) != len(given):
            raise InvalidOption("names", f"there are {len(named)} names for {len(given)} graphs", kind="setting")
        if names is not None and len(set(named)) != len(named):
            raise InvalidOption("names", "each run needs a name of its own", kind="setting")
        told = [metadata] * len(given) if metadata is None or isinstance(metadata, Mapping) else list(metadata)
        if len(told) != len(given):
            raise InvalidOption("metadata", f"there are {len(told)} for {len(given)} graphs", kind="setting")
        self._check_usable()
        self._hub.warm_up()
        begun: list[tuple[Submission | None, Completion] | Exception] = []
        for node, name, about in zip(given, named, told, strict=True):
            self._wait_for_room(begun)
            try:
                submission = self._prepare(node, {**options, "name": name, "metadata": about})
                # Without a name it is certain to be a new run, and need not be remembered: there may be many.
                begun.append((None if name is None else submission, self._begin(submission)))
            except Exception as error:  # what is no graph, or not a safe one, is no concern of the others
                begun.append(error)
        with self._display:
            return self._results(begun, return_exceptions)

    def resume(self, run: str) -> Any:
        """Continues a run that has failed, was interrupted, cancelled, undone or is paused, by id or name, and returns
        its result. A run that has succeeded is not run again; a run in progress elsewhere is waited for.

        The current code is used: saved outputs stay as they are, the rest runs with the functions as they are now.
        """
        self._check_usable()
        row = self._listing.row(run)
        completion = self._hub.expect(row.id, row.name)
        self._attach(row, completion, in_background=False)
        self.wait(completion)
        return completion.value(self.map_blob)

    def resume_async(self, run: str) -> RunHandle[Any]:
        """Like `resume`, but returns a handle and does not wait."""
        self._check_usable()
        return self._resume_in_background(self._listing.row(run))

    def resume_all(self) -> list[RunHandle[Any]]:
        """Continues every interrupted run in the home directory. Returns a handle for each, oldest first."""
        self._check_usable()
        return self._resume_all(self._listing.interrupted())

    def rerun(self, run: str, **options: Unpack[RerunOptions]) -> Any:
        """Runs a run again, by id or name, from a task on, as a new run, and returns its result. That task and all its
        descendants run again, with the current code; all other saved outputs are reused. The new run never undoes
        effects of the first one.

            rerun("trip-17", from_task="pay")

        With a `node`, the new run is of that graph, and reuses the outputs of equal tasks: tasks with the same name,
        options and arguments above which everything is the same. Options and metadata are those of the first run,
        unless given. Raises `NoSuchTask`.
        """
        handle = self.rerun_async(run, **options)
        handle.wait()
        return handle.result()

    def rerun_async(self, run: str, **options: Unpack[RerunOptions]) -> RunHandle[Any]:
        """Like `rerun`, but returns as soon as the new run is durable."""
        from onceflow.engine.run_commands import rerun  # few programs run a run again

        check_known(options, RerunOptions, "rerun")
        self._check_usable()
        made = rerun.create(self._listing.row(run), home=self._home, id=self._new_id, **options)
        return self.resume_async(made)

    def map_blob(self, reference: str) -> memoryview:
        """For handles."""
        return self._home.blobs.map(reference)

    def wait(self, completion: Completion) -> None:
        """For handles. Ctrl-C stops the run and keeps what it has: what has an effect may finish. A second one does not
        wait. A run that another engine drives goes on; it is only waited for no longer."""
        with self._display:
            self._wait(completion)

    def show_progress(self) -> contextlib.AbstractContextManager[None]:
        """For handles. Entered by callers that wait without `wait`."""
        return self._display

    # -- how -----------------------------------------------------------------------------------------------------------

    def _start(self, submission: Submission) -> RunHandle[Any]:
        feed = Feed()
        completion = self._begin(submission, feed)
        completion.wait_until_accepted()
        while isinstance(completion.error, Redirected):
            completion = self._join(submission, feed)
            completion.wait_until_accepted()
        return self._handle(completion, feed)

    def _wait(self, completion: Completion) -> None:
        try:
            completion.wait()
        except KeyboardInterrupt:
            if self._reach.is_driven_elsewhere(completion.run):  # nothing of it runs here
                raise
            reason = RunInterrupted(completion.run, "it was stopped from the keyboard")
            self._hub.drain(completion.run, reason)
            logger.warning(
                "stopping run %s: tasks with an effect may finish; press Ctrl-C again to stop them at once",
                completion.name or completion.run,
            )
            try:
                completion.wait()
            finally:
                self._hub.interrupt(completion.run, reason)
                completion.wait()
            raise

    def _wait_for(self, run: str, completion: Completion) -> None:
        """Returns when the run has come to rest, whichever engine drives it."""
        self._attaching.wait_for(run, completion)

    def _wait_for_room(self, begun: Sequence[tuple[Submission | None, Completion] | Exception]) -> None:
        """Before another one is submitted: what only waits takes memory, and the garbage collector's time."""
        if len(begun) >= MOST_OPENING:
            earlier = begun[-MOST_OPENING]
            if not isinstance(earlier, Exception):
                earlier[1].wait_until_accepted()
        self._hub.wait_for_room()

    def _result(self, submission: Submission | None, completion: Completion) -> Any:
        self.wait(completion)
        while submission is not None and isinstance(completion.error, Redirected):
            completion = self._join(submission)
            self.wait(completion)
        return completion.value(self.map_blob)

    def _results(
        self, begun: list[tuple[Submission | None, Completion] | Exception], return_exceptions: bool
    ) -> list[Any]:
        results: list[Any] = []
        failure: Exception | None = None
        for one in begun:
            try:
                if isinstance(one, Exception):
                    raise one
                results.append(self._result(*one))
            except Exception as error:
                failure = failure or error
                results.append(error)
        if failure is not None and not return_exceptions:
            raise failure
        return results

    def _resume_in_background(self, row: RunRow) -> RunHandle[Any]:
        feed = Feed()
        completion = self._hub.expect(row.id, row.name, [feed])
        self._attach(row, completion, in_background=True)
        return self._handle(completion, feed)

    def _resume_all(self, rows: Sequence[RunRow]) -> list[RunHandle[Any]]:
        feeds = [(row, Feed()) for row in rows]
        begun = [(row, self._hub.expect(row.id, row.name, [feed]), feed) for row, feed in feeds]
        if begun:
            self._hub.warm_up()
            rows_and_completions = [(row, completion) for row, completion, _ in begun]
            self._aside(lambda: self._attach_all(rows_and_completions), "onceflow resume all", adopts=True)
        return [self._handle(completion, feed) for _, completion, feed in begun]

    def _prepare(self, node: object, options: RunOptions) -> Submission:
        check_known(options, RunOptions, "a run")
        with sealed_bytes.using(self._home.path):
            return prepare(node, home=self._home, id=self._new_id, **options)

    def _new_id(self) -> str:
        return new_id()

    def _begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        """Hands a new run over, unless its name is known to be taken."""
        completion = self._hub.expect(submission.run, submission.name, () if feed is None else (feed,))
        if submission.name is not None and self._home.journal.find_name(submission.name) is not None:
            completion.end(None, Redirected())
        else:
            self._refuse_if_full(submission)
            self._hub.submit(submission, completion)
        return completion

    def _refuse_if_full(self, submission: Submission) -> None:
        """Raises `QueueFull` if too many runs wait already."""
        most = self.settings.max_pending
        if most is not None and self._hub.waiting_runs() >= most:
            raise QueueFull(None, most)
        self._refuse_if_queue_is_full(submission.settings.queue)

    def _refuse_if_queue_is_full(self, queue: str | None) -> None:
        row = None if queue is None else self._home.journal.get_standing("queue", queue)
        limit = None if row is None else defined(row).limits.max_pending
        if queue is None or row is None or limit is None:
            return
        from onceflow.engine.queues.pending import count_submitted  # few runs wait in queues

        waiting = self._hub.waiting_runs(queue) + waiting_elsewhere(row, self._home)
        if waiting >= limit or waiting + count_submitted(self._home, queue, limit - waiting) >= limit:
            raise QueueFull(queue, limit)

    def _join(self, submission: Submission, feed: Feed | None = None) -> Completion:
        """The run that has the name already. Raises `NameTaken` if that is another graph's."""
        assert submission.name is not None
        row = self._home.journal.find_name(submission.name)
        if row is None:  # it was deleted meanwhile
            return self._begin(submission, feed)
        if row.digest != submission.graph.digest:
            raise NameTaken(submission.name, row.id)
        completion = self._hub.expect(row.id, row.name, () if feed is None else (feed,))
        completion.accept()
        self._attach(row, completion, submission, in_background=feed is not None)
        return completion

    def _attach(
        self, row: RunRow, completion: Completion, again: Submission | None = None, *, in_background: bool
    ) -> None:
        self._hub.warm_up()
        if not in_background:
            self._attaching.attach(row.id, completion, again)
            return

        def attach() -> None:
            try:
                self._attaching.attach(row.id, completion, again)
            except Exception as error:  # whatever it is, a caller waits
                completion.end(None, as_ours(error, row.id))

        self._aside(attach, f"onceflow attach {row.id}", adopts=self._attaching.can_be_driven(row))

    def _attach_all(self, begun: list[tuple[RunRow, Completion]]) -> None:
        """One after the other, which takes little time each; runs that another engine drives are waited for
        elsewhere."""
        for row, completion in begun:
            try:
                now = self._home.journal.get_run(row.id)
                waits = now is not None and not self._attaching.can_be_driven(now)
                self._attach(row, completion, in_background=waits)
            except Exception as error:
                completion.end(None, as_ours(error, row.id))

    def _aside(self, work: Callable[[], None], name: str, *, adopts: bool) -> None:
        """Have something done while the caller goes on. `adopts`: it hands over runs that are to be driven here."""

        def do() -> None:
            try:
                work()
            finally:
                self._adopters.discard(thread)

        thread = threading.Thread(target=do, name=name, daemon=True)
        if adopts:
            self._adopters.add(thread)
        thread.start()


def as_ours(error: Exception, run: str) -> OnceflowError:
    if isinstance(error, OnceflowError):
        return error
    ours = RunInterrupted(run, f"{type(error).__name__}: {error}")
    ours.__cause__ = error
    return ours
