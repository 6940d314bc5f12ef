"""The recall of a new queue: how far it is with the messages that were sent before it existed.

Part of the state, except for the attributes marked *volatile*. Must never know how messages are
found (`engine.entries.recalls`).
"""

from typing import Final, NamedTuple

NOTHING_YET: Final = 0


class Start(NamedTuple):
    """From where on a queue wants history: after an event, and since a time in milliseconds since
    1970."""

    after: int = 0
    since: int = 0


ALL_OF_IT: Final = Start()


class Recall:
    """A queue gets the messages with after < id <= until; `position` in `history` was the last.

    Histories are read in the order of their ids, each from its first message on. One of them may be
    the queue of retained messages, `retained` (0 for none); there `after` means nothing.
    """

    __slots__ = ("after", "ahead", "histories", "history", "position", "retained", "seen", "until")

    def __init__(
        self,
        after: int,
        until: int,
        history: int = NOTHING_YET,
        position: int = NOTHING_YET,
        retained: int = 0,
    ) -> None:
        self.retained = retained
        self.after = after
        self.until = until
        self.history = history
        self.position = position
        # Volatile: the ids of the histories still to be read, the last one first, None as long as
        # nobody looked; up to where the last of them was read; and how many messages were recalled
        # since the index had all of them.
        self.histories: list[int] | None = None
        self.seen = position
        self.ahead = 0

    def floor(self, history: int) -> int:
        """Return up to which message this needs nothing more of a history."""
        if history < self.history:
            return self.until
        if self.histories is not None and (not self.histories or history < self.histories[-1]):
            return self.until
        if self.histories is not None and history == self.histories[-1]:
            return max(self.after, self.seen)
        return max(self.after, self.position) if history == self.history else self.after

    def values(self) -> tuple[int, ...]:
        """Return what is part of the state, in the order of the parameters."""
        first = self.after, self.until, self.history, self.position
        return (*first, self.retained) if self.retained else first
