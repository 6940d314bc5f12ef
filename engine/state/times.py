"""About when the messages of histories were sent: marks of the time, with the LSN of each.

A message was sent soon after the last mark before it: within a fiftieth of its age, or GRAIN_US if
that is more. So a few thousand marks are enough for years. Part of the state. Must never know
messages.
"""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final, TypeAlias

GRAIN_US: Final = 10_000
"""Marks are so far apart at least, in microseconds."""
AGE_SHIFT: Final = 8
"""Old marks are apart by at least their age divided by 2 to this power. A part of the meaning of a
journal, like MARKS_MAX."""
SOON_SHIFT: Final = 6
"""A message was sent after its mark by at most its age divided by 2 to this power. Marks that are
forgotten one after the other add up, but each time their distance has doubled."""
MARKS_MAX: Final = 8192
"""When there are so many marks, those that come too soon after others are forgotten."""
NEVER: Final = (1 << 63) - 1

Mark: TypeAlias = tuple[int, int]
"""A time, in microseconds since 1970, and the LSN of the event that marked it."""
_TIME: Final = itemgetter(0)


class Times:
    """Marks in order. Times rise: when the clock was set back, the marks after that are gone."""

    __slots__ = ("marks",)

    def __init__(self, marks: list[Mark] | None = None) -> None:
        self.marks: list[Mark] = marks if marks is not None else []

    def needs_mark(self, now: int) -> bool:
        """Whether what is decided now is to be preceded by a mark."""
        return not self.marks or abs(now - self.marks[-1][0]) >= GRAIN_US

    def add(self, time: int, lsn: int) -> None:
        """Add a mark, behind all that are not later."""
        marks = self.marks
        while marks and marks[-1][0] > time:
            marks.pop()
        marks.append((time, lsn))
        if len(marks) >= MARKS_MAX:
            self._thin(time)

    def _thin(self, now: int) -> None:
        kept: list[Mark] = []
        for mark in self.marks:
            apart = max(GRAIN_US, (now - mark[0]) >> AGE_SHIFT)
            if not kept or mark[0] - kept[-1][0] >= apart:
                kept.append(mark)
        self.marks = kept

    def before(self, time: int, now: int) -> int:
        """Return an LSN up to which every message was sent before a time; 0 for none.

        Messages after it may have been sent soon before that time, too.
        """
        at = bisect_right(self.marks, time, key=_TIME)
        if not at:
            return 0
        begins, lsn = self.marks[at - 1]
        if time - begins <= GRAIN_US + ((now - begins) >> SOON_SHIFT):
            return lsn
        # Nothing was sent from some time before on, up to the next mark.
        return self.marks[at][1] if at < len(self.marks) else NEVER

    def since(self, time: int) -> int:
        """Return an LSN after which no message was sent before a time.

        Messages up to it may have been sent since.
        """
        at = bisect_left(self.marks, time, key=_TIME)
        return self.marks[at][1] if at < len(self.marks) else NEVER
