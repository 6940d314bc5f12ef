"""Connections that wait for room, in line at the address they wait for: first come, first served.

A connection waits in one line at a time, because its commands come one after the other. Volatile:
no part of the logical state. Must never know how full an address is.
"""


class Line:
    """Connections whose command was refused because an address is full, in order."""

    __slots__ = ("_address_of", "_lines", "serving")

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, None]] = {}
        self._address_of: dict[int, str] = {}
        # The connection whose turn it is: it may continue as long as there is room.
        self.serving = 0

    def stand(self, connection: int, address: str) -> None:
        """Make a connection wait for an address, at the end unless it waits there already."""
        if self._address_of.get(connection) != address:
            self.leave(connection)
            self._lines.setdefault(address, {})[connection] = None
            self._address_of[connection] = address

    def leave(self, connection: int) -> None:
        """Stop a connection from waiting, if it did."""
        address = self._address_of.pop(connection, None)
        if address is not None:
            line = self._lines[address]
            del line[connection]
            if not line:
                del self._lines[address]

    def first(self, address: str) -> int:
        """Return the connection that is next for an address, 0 if nobody waits for it."""
        line = self._lines.get(address)
        return next(iter(line)) if line else 0

    def must_wait(self, connection: int, address: str) -> bool:
        """Whether others come before this connection."""
        if not self._lines or connection == self.serving:
            return False
        first = self.first(address)
        return first not in (0, connection)

    def address_of(self, connection: int) -> str | None:
        """Return what a connection waits for, None if it does not wait."""
        return self._address_of.get(connection)

    def addresses(self) -> list[str]:
        """Return the addresses that somebody waits for."""
        return list(self._lines)

    def length(self, address: str) -> int:
        """Return how many wait for an address."""
        return len(self._lines.get(address, ()))
