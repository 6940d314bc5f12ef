"""Senders that wait for room, in line at the address they wait for: first come, first served.

A sender is a link of a connection. It waits in one line at a time, because its commands come one
after the other; other links of its connection are not concerned. Volatile: no part of the logical
state. Must never know how full an address is.
"""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

Sender: TypeAlias = tuple[int, int]
"""The id of a connection, and the number of a link by which it sends; 0 where a protocol has no
links."""


class SentByLink(Protocol):
    """A command of a sender: `engine.commands` has several."""

    connection: int
    link: int


def sender_of(command: SentByLink) -> Sender:
    """Return the sender of a command."""
    return command.connection, command.link


class WaitingSenders:
    """Senders whose command was refused because an address is full, in order."""

    __slots__ = ("_by_connection", "_lines", "_places", "serving")

    def __init__(self) -> None:
        self._lines: dict[str, dict[Sender, None]] = {}
        # The address that each waits for, and since when.
        self._places: dict[Sender, tuple[str, int]] = {}
        self._by_connection: dict[int, set[int]] = {}
        # The sender whose turn it is: it may continue as long as there is room.
        self.serving: Sender | None = None

    def stand(self, sender: Sender, address: str, now: int) -> None:
        """Make a sender wait for an address, at the end unless it waits there already."""
        if self.address_of(sender) != address:
            self.leave(sender)
            self._lines.setdefault(address, {})[sender] = None
            self._places[sender] = address, now
            self._by_connection.setdefault(sender[0], set()).add(sender[1])

    def leave(self, sender: Sender) -> None:
        """Stop a sender from waiting, if it did."""
        place = self._places.pop(sender, None)
        if place is not None:
            address = place[0]
            line = self._lines[address]
            del line[sender]
            if not line:
                del self._lines[address]
            links = self._by_connection[sender[0]]
            links.remove(sender[1])
            if not links:
                del self._by_connection[sender[0]]

    def leave_all(self, connection: int) -> None:
        """Stop all senders of a connection from waiting."""
        for link in list(self._by_connection.get(connection, ())):
            self.leave((connection, link))

    def first(self, address: str) -> Sender | None:
        """Return the sender that is next for an address, None if nobody waits for it."""
        line = self._lines.get(address)
        return next(iter(line)) if line else None

    def must_wait(self, sender: Sender, address: str) -> bool:
        """Whether others come before this sender.

        The broker itself, which has no connection, waits behind nobody: nothing would wake it.
        """
        if not self._lines or sender == self.serving or not sender[0]:
            return False
        first = self.first(address)
        return first is not None and first != sender

    def address_of(self, sender: Sender) -> str | None:
        """Return what a sender waits for, None if it does not wait."""
        place = self._places.get(sender)
        return place[0] if place is not None else None

    @property
    def count(self) -> int:
        """How many senders wait."""
        return len(self._places)

    def addresses(self) -> list[str]:
        """Return the addresses that somebody waits for."""
        return list(self._lines)

    def length(self, address: str) -> int:
        """Return how many wait for an address."""
        return len(self._lines.get(address, ()))

    def waiting(self) -> Iterator[tuple[Sender, str, int]]:
        """Yield each sender with what it waits for, and since when."""
        for sender, (address, since) in self._places.items():
            yield sender, address, since
