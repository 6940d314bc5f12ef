"""The parts of messages that an export omits, and the addresses whose messages keep them (ADR 66).

Must never know how an export is written or read: commands that show events import this alone.
"""

from typing import Final

import msgspec

from daybook.texts import printable

REDACTABLE: Final = ("bodies", "headers")


class Redaction(msgspec.Struct, frozen=True):
    """The parts of REDACTABLE that an export omits, perhaps none.

    `shown` are the addresses (id and name) whose messages have all of it. The pieces of large
    bodies are events without an address, so they are left out of all messages.
    """

    parts: tuple[str, ...] = ()
    shown: tuple[tuple[int, str], ...] = ()

    @property
    def note(self) -> str:
        """A sentence about what an export omits, "" if it omits nothing."""
        if not self.parts:
            return ""
        parts = " and ".join(self.parts)
        names = ", ".join(printable(name) for _, name in self.shown)
        but = f", but for messages of {names} that are not large" if names else ""
        return f"{parts} were left out of this export{but}; it has only their hashes"

    def of(self, address: int, *, is_large: bool = False) -> tuple[str, ...]:
        """Return the omitted parts of a message of this address."""
        if all(address != known for known, _ in self.shown):
            return self.parts
        return tuple(part for part in self.parts if is_large and part == "bodies")


NOTHING: Final = Redaction()
