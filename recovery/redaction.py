"""Which parts of messages an export is without, and whose messages have them all the same (ADR 66).

Must never know how an export is written or read: commands that show events import this alone.
"""

from typing import Final

REDACTABLE: Final = ("bodies", "headers")


class Redaction(tuple[str, ...]):
    """Which of REDACTABLE an export is without; empty if nothing is left out.

    `shown` are the addresses (id and name) whose messages have all of it. The pieces of large
    bodies are events without an address, so they are left out of all messages.
    """

    shown: tuple[tuple[int, str], ...] = ()

    def of(self, address: int, *, is_large: bool = False) -> tuple[str, ...]:
        """Return what was left out of a message of this address."""
        if all(address != known for known, _ in self.shown):
            return self
        return tuple(part for part in self if is_large and part == "bodies")


NOTHING: Final = Redaction()
