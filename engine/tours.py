"""What a browser has still to read, beyond its cursors: the state of `engine.browsing`.

All of it is volatile: it ends with the browser, which a restart ends too. What is in flight is
remembered once for all browsers of a queue (`engine.flights`). Must never know how messages are
read.
"""

from typing import Final, TypeAlias

from daybook.engine.message import PRIORITIES, Entry, Message

Key: TypeAlias = tuple[int, int]
"""The place of an entry in the order in which a browser reads: by level, then by position."""

BEHIND_ALL: Final[Key] = (PRIORITIES, 0)

END_OF_BROWSE: Final = Message(0, 0, 0, 0, 0, b"", b"")
"""What the receiver of a browser is handed behind the last message; no message has the id 0."""


class Tour:
    """The way of one browser through its queue.

    `ends` says whether it ends behind the last message; `is_over` that it has. `waits` says that
    there is a message for it that it could not take for want of credit.
    """

    __slots__ = ("ends", "in_sequence", "is_over", "waits")

    def __init__(self, *, ends: bool, in_sequence: bool) -> None:
        self.ends: Final = ends
        self.in_sequence: Final = in_sequence
        self.is_over = False
        self.waits = False

    def key_of(self, entry: Entry) -> Key:
        """Return the place of an entry: by arrival alone in sequence, else by priority first."""
        return self.key_at(entry.level, entry.position)

    def key_at(self, level: int, position: int) -> Key:
        """Return the place of a position of a level."""
        return (0 if self.in_sequence else PRIORITIES - 1 - level), position
