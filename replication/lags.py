"""How far behind a leader somebody is: in events, in bytes of the journal, and in time.

The leader notes at each tick which event it has. Times are therefore right to a tick, and of long
lags to less: only so many notes are kept. Must never know who is behind.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from daybook.journal.places import Place

NOTES_MAX: Final = 4096


class Lag(NamedTuple):
    """How many events, bytes and microseconds; all 0 if nothing is missing."""

    events: int = 0
    bytes: int = 0
    microseconds: int = 0


NO_LAG: Final = Lag()


class Lags:
    """The notes of one lead, which begins where the journal ends."""

    def __init__(self, now: int, lsn: int, end: Place) -> None:
        self._lsns: Final = [lsn]
        self._notes: Final = [(now, end)]

    def note(self, now: int, lsn: int, end: Place) -> None:
        """Note the last event that is on the disk of the leader, and where its journal ends."""
        if lsn <= self._lsns[-1]:
            return
        if len(self._lsns) == NOTES_MAX:
            del self._lsns[1::2], self._notes[1::2]
        self._lsns.append(lsn)
        self._notes.append((now, end))

    def since(self, lsn: int, now: int) -> int:
        """Return for how many microseconds the leader has had an event behind this one."""
        at = bisect_right(self._lsns, lsn)
        return max(0, now - self._notes[at][0]) if at < len(self._notes) else 0

    def place(self, lsn: int) -> Place:
        """Return where the journal ended when it had no event behind this one."""
        return self._notes[max(bisect_right(self._lsns, lsn) - 1, 0)][1]
