"""Retention of a node that follows: what has left the leader leaves here too (ADR 118).

A node that follows has no limits of its own, carries nothing and archives nothing: the leader has
done all that, and its events say so. So this node brings its base up to there, from its own
segments, and removes them, as the leader did. A process does the first, a thread that nothing waits
for the rest. Fault model: the work may be interrupted anywhere, and is then repeated; without an
index that is far enough, or with a reader that holds a segment, all stays. Must never know who
leads.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Final

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.retention import SealedSegment, SegmentTable, remove_unpinned
from daybook.paging.retention.retirement import ADVANCE, command

PERIOD_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.05
AGAIN_SECONDS: Final = 10.0
"""How long after a failure it is tried again."""
ROUND_SEGMENTS: Final = 16
"""How many segments leave at once, so that a base that is far behind frees space soon."""


class StandbyRetention:
    """Removes what may leave until `stop`. `first` and `indexed` are set by the owner, at any time:
    events before the one may leave, and the index has those up to the other."""

    def __init__(
        self, data: Path, notice: Callable[[str], None], clock: Callable[[], int], *,
        period_seconds: float = PERIOD_SECONDS, again_seconds: float = AGAIN_SECONDS,
    ) -> None:  # fmt: skip
        """`notice` gets a sentence, in another thread; `clock` counts microseconds since 1970."""
        self.first = 0
        self.indexed = 0
        self.trouble = ""
        self._data: Final = data
        self._disk: Final = RealDisk(data / JOURNAL)
        self._segments: Final = SegmentTable(self._disk)
        self._notice: Final = notice
        self._clock: Final = clock
        self._period: Final = period_seconds
        self._again: Final = again_seconds
        self._stopping: Final = Event()
        self._thread: Final = Thread(target=self._run, name="standby-retention", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the work that is under way, and wait for that; call it in a thread that may wait."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        seconds = self._period
        while not self._stopping.wait(seconds):
            try:
                self._look()
                self.trouble, seconds = "", self._period
            except (JournalError, OSError) as error:
                text = str(error)
                if text != self.trouble:
                    self._notice(f"history that left the leader stays here for now: {text}")
                self.trouble, seconds = text, self._again

    def _look(self) -> None:
        """Remove the segments that may leave, a few at once."""
        if not self.first:
            return
        sealed, _ = self._segments.look()
        leaving = [each for each in sealed if each.last_lsn < min(self.first, self.indexed + 1)]
        if leaving:
            self._remove(leaving[:ROUND_SEGMENTS])

    def _remove(self, leaving: list[SealedSegment]) -> None:
        last_lsn = leaving[-1].last_lsn
        if not self._advance(last_lsn):
            return
        removed = remove_unpinned(self._disk, self._data, leaving, self._clock())
        if removed:
            self._notice(f"{len(removed)} segments, up to event {last_lsn}, left as on the leader")

    def _advance(self, last_lsn: int) -> bool:
        """Bring the base up to an event; return whether that was done. Raises JournalError."""
        with subprocess.Popen(
            command(ADVANCE, self._data, last_lsn), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            while not self._stopping.is_set():
                try:
                    _, said = process.communicate(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
            else:
                process.kill()
                return False
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if process.returncode:
            raise JournalError(last or f"the base cannot be made: code {process.returncode}")
        if last:
            self._notice(last)
        return True
