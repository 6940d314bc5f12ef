"""What a browser has still to read, beyond its cursors: the state of `engine.browsing`.

All of it is volatile: it ends with the browser, which a restart ends too. It remembers only the
next messages in flight, so that a browser takes little memory, however much its queue holds.
Must never know how messages are read.
"""

from typing import Final, TypeAlias

from daybook.engine.message import PRIORITIES, Entry, Message

Key: TypeAlias = tuple[int, int]
"""The place of an entry in the order in which a browser reads: by level, then by position."""

BEFORE_ALL: Final[Key] = (-1, 0)
BEHIND_ALL: Final[Key] = (PRIORITIES, 0)

END_OF_BROWSE: Final = Message(0, 0, 0, 0, 0, b"", b"")
"""What the receiver of a browser is handed behind the last message; no message has the id 0."""

FLYING_MAX: Final = 100
"""How many messages in flight a browser remembers at a time; it looks for further ones later."""


class Tour:
    """The way of one browser through its queue.

    `ends` says whether it ends behind the last message; `is_over` that it has. `flying` are the
    next messages in flight, in order, of those up to `until`; further ones are not known. `waits`
    says that there is a message for it that it could not take for want of credit.
    """

    __slots__ = ("ends", "flying", "in_sequence", "is_over", "until", "waits")

    def __init__(self, *, ends: bool, in_sequence: bool) -> None:
        self.ends: Final = ends
        self.in_sequence: Final = in_sequence
        self.is_over = False
        self.flying: list[int] = []
        self.until = BEFORE_ALL
        self.waits = False

    def key_of(self, entry: Entry) -> Key:
        """Return the place of an entry: by arrival alone in sequence, else by priority first."""
        return (0 if self.in_sequence else PRIORITIES - 1 - entry.level), entry.position

    def forget_flying(self) -> None:
        """Forget what is in flight, so that it is looked for when the browser reads on."""
        self.flying = []
        self.until = BEFORE_ALL
