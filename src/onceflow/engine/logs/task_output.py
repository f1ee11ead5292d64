"""Output of jobs (prints and logs), on its way into the logs of their runs and to the terminal.

It comes in pieces. Lines are put together here, so that readers see complete ones; a rest is kept until the line
is complete, the job ends, or it is too long. In each turn of the loop everything new is stored, with one write for each
run, and then shown: so what a task printed is there before the end of the task is visible.

To store it must never harm a run. If it cannot be done, that is reported once, and counted; when it can be done again,
the log says what is missing in it.

Everything here happens in the loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from onceflow.backends.local.reports import Printed
from onceflow.engine.logs import terminal_lines
from onceflow.engine.logs.task_lines import LogLine
from onceflow.storage.logs import Writer

LONGEST = 64 * 1024
"""Characters of a line that is kept back until it is complete."""

logger = logging.getLogger(__name__)


class Statistics(msgspec.Struct, frozen=True):
    stored: int
    """Bytes."""
    lost: int
    """Pieces that could not be stored."""


class Printing:
    """`title` gives the name of a run if it has to be shown, because it is not the only one. `unowned` gets what
    belongs to no job."""

    def __init__(
        self,
        folder: Path,
        limit: int,
        *,
        show: bool,
        title: Callable[[str], str | None],
        unowned: Callable[[LogLine], None],
    ) -> None:
        self._writer = Writer(folder, limit)
        self._show = show
        self._title = title
        self._unowned = unowned
        self._encoder = msgspec.json.Encoder()
        self.new: list[tuple[str, LogLine]] = []
        """What `turn` has yet to store, each with the run; the empty one for what belongs to no job."""
        self.rests: dict[int, dict[str, tuple[str, LogLine]]] = {}
        """Job → stream → the run, and the beginning of a line."""
        self.runs: set[str] = set()
        """Those of which something was stored, or was to be."""
        self._lost: dict[str, int] = {}
        """Run → pieces that could not be stored since something could."""
        self._told = False
        self._stored = self._failed = 0

    def add(self, piece: Printed, run: str, task: str, attempt: str, *, undo: bool = False) -> None:
        """A job has printed this. What belongs to no job has no run."""
        text, time = piece.text, piece.time
        if piece.stream == "log":
            self.new.append((run, LogLine(time, task, attempt, "log", text, piece.level, piece.logger, undo)))
            return
        rests = self.rests.get(piece.token)
        if rests is not None and piece.stream in rests:
            rest = rests.pop(piece.stream)[1]
            text, time = rest.text + text, rest.time
        cut = text.rfind("\n") + 1
        if cut:
            self.new.append((run, LogLine(time, task, attempt, piece.stream, text[: cut - 1], undo=undo)))
        if cut < len(text):
            left = (run, LogLine(time, task, attempt, piece.stream, text[cut:], undo=undo))
            if len(text) - cut > LONGEST:
                self.new.append(left)
            else:
                self.rests.setdefault(piece.token, {})[piece.stream] = left

    def end(self, token: int) -> None:
        """The job has ended: what it wrote of a line is all there will be."""
        self.new.extend(self.rests.pop(token, {}).values())

    def turn(self) -> None:
        """Stores and shows what is new."""
        new, self.new = self.new, []
        runs: dict[str, list[LogLine]] = {}
        for run, line in new:
            if run:
                runs.setdefault(run, []).append(line)
            else:
                self._unowned(line)
        for run, lines in runs.items():
            self._store(run, lines)
        if self._show:
            terminal_lines.show([(self._title(run), line) for run, line in new])

    def ended(self, run: str) -> None:
        """The run is not driven here any more."""
        self.runs.discard(run)
        self._writer.close(run)
        self._lost.pop(run, None)

    def close(self) -> None:
        for token in list(self.rests):
            self.end(token)
        self.turn()
        self._writer.close_all()
        if self._failed:
            logger.warning("%s pieces of what tasks printed could not be stored", self._failed)

    def statistics(self) -> Statistics:
        return Statistics(self._stored, self._failed)

    def _store(self, run: str, lines: Sequence[LogLine]) -> None:
        self.runs.add(run)
        missed = self._lost.get(run)
        told = [] if missed is None else [_missed(lines[0].time, missed)]
        content = self._encoder.encode_lines([*told, *lines])
        try:
            self._writer.append(run, content)
        except OSError as error:
            self._failed += len(lines)
            self._lost[run] = (missed or 0) + len(lines)
            if not self._told:
                self._told = True
                logger.warning("what tasks print cannot be stored (%s); they go on", error)
        else:
            self._stored += len(content)
            self._lost.pop(run, None)


def _missed(time: float, pieces: int) -> LogLine:
    return LogLine(time, "", "", "missed", f"{pieces} piece{'s' * (pieces != 1)} of output could not be stored")
