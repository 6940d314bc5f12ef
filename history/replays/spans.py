"""The span of a replay of chosen messages, over all its runs, and the messages left to send (ADR
68).

The first run fixes the end of the span. Once all of it is sent, the next run begins another one,
which leaves out what the span before took. Must never know how messages are sent.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

import msgspec

from daybook.history.moments import last_lsn
from daybook.history.replays.fates import Chosen, Request
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of

VERSION = 1


class Progress(msgspec.Struct):
    """The progress of a replay: all up to `done` are confirmed; counts are those of all runs.

    `to_lsn` of the request is the end of the span. `before` is the end of the span before, 0 for
    none. `refused` counts, by reason, messages that the broker accepted and no queue took.
    """

    request: Request
    destination: str
    broker: str
    data_id: str
    name: str = ""
    done: int = 0
    sent: int = 0
    duplicates: int = 0
    incomplete: int = 0
    refused: dict[str, int] = {}
    before: int = 0
    is_complete: bool = False
    version: int = VERSION

    def is_of(self, begun: "Progress") -> bool:
        """Whether this is the progress of a replay that begins so; an open end fits any."""
        asked = begun.request
        if not asked.to_lsn:
            asked = msgspec.structs.replace(asked, to_lsn=self.request.to_lsn)
        mine = (self.request, self.destination, self.broker, self.data_id, self.name)
        return mine == (asked, begun.destination, begun.broker, begun.data_id, begun.name)

    def fix_span(self, disk: Disk, *, may_extend: bool) -> None:
        """Set the end of the span to that of history: in the first run, and in the first one after
        all was sent, if the span `may_extend`. Raises JournalError."""
        to_lsn = self.request.to_lsn
        end = max(last_lsn(disk), first_lsn_of(disk))
        if to_lsn and not (self.is_complete and may_extend and end > to_lsn):
            return
        self.request = msgspec.structs.replace(self.request, to_lsn=end)
        self.before, self.done, self.is_complete = to_lsn, 0, False

    def choose(self, choose: "Choose") -> Chosen:
        """Choose the messages of the span without those that the span before took."""
        request, before = self.request, self.before
        if not before:
            return choose(request, None, None)
        if not request.only:
            from_lsn = max(request.from_lsn, before + 1)
            return choose(msgspec.structs.replace(request, from_lsn=from_lsn), None, None)
        # A message from before may have met its fate since.
        earlier = msgspec.structs.replace(request, to_lsn=before)
        return choose(request, None, choose(earlier, before, None).messages)

    def left(self, chosen: Chosen) -> int:
        """Return how many of the chosen messages are not confirmed yet."""
        return len(chosen.messages) - bisect_left(chosen.messages, self.done + 1)

    def since(self, begun: "Progress") -> "Progress":
        """Return the progress with the counts since an earlier one alone."""
        refused = Counter(self.refused)
        refused.subtract(begun.refused)
        return msgspec.structs.replace(
            self,
            sent=self.sent - begun.sent, duplicates=self.duplicates - begun.duplicates,
            incomplete=self.incomplete - begun.incomplete, refused=dict(+refused),
        )  # fmt: skip

    def copy(self) -> "Progress":
        """Return a copy that later counts do not change."""
        return msgspec.structs.replace(self, refused=dict(self.refused))


Choose = Callable[[Request, int | None, "array[int] | None"], Chosen]
"""Chooses the messages of a request, by their fates at an event or at the end, without some."""
