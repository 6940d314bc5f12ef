"""Limits on connections: in total, for each address, and for connections without a login.

Every accepted socket is counted here until it is closed, in total and for its address (for IPv6 the
/64 network, which usually belongs to one user). A socket without a login, and without one being
checked, is a stranger. Strangers are limited, in total and for each address; when there is one too
many, the oldest is closed. So a flood of silent sockets does not keep out clients that log in, not
even from the same address. Logins that are being checked are limited in `server.users.logins`.

Invariant: the cost of refusals does not grow with the number of attempts; the log has one line a
minute for each address, with a count. It must never know sockets or sessions.
"""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

import msgspec

from daybook.server.process.descriptors import Descriptors
from daybook.server.process.logs import logger
from daybook.server.process.tally import Tally

LOGGED_MAX: Final = 64
"""How many pairs of address and reason get their own line in the log in a minute."""
NETWORK_BITS: Final = 64
"""The prefix of an IPv6 address that identifies a network of one user."""

PENDING: Final = "too many connections have not logged in"

log = logger("admission")


class Limits(msgspec.Struct, frozen=True):
    """How many sockets there may be; 0 or less for no limit per address."""

    per_address: int
    pending: int
    pending_per_address: int


class Visitor(Protocol):
    """An accepted socket."""

    @property
    def has_logged_in(self) -> bool:
        """Whether a user is logged in on it, which holds until it is closed."""
        ...

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in on it, and no login is being checked."""
        ...

    def dismiss(self, why: str) -> None:
        """Tell the peer why, and close."""
        ...


class Admission:
    """Counts all sockets, and decides which are refused or closed.

    `count` is the number of sockets, `refused` the number of refused connections, `dismissed` the
    number of strangers that were closed to make room.
    """

    def __init__(
        self, descriptors: Descriptors, limits: Callable[[], Limits], clock: Callable[[], int]
    ) -> None:
        """`clock` returns microseconds."""
        self.descriptors: Final = descriptors
        self.count = 0
        self.refused = 0
        self.dismissed = 0
        self._limits: Final = limits
        self._clock: Final = clock
        self._by_network: Final[dict[str, int]] = {}
        # Sockets that may be strangers, oldest first; logins are looked up only when the limit is
        # reached.
        self._pending: Final[OrderedDict[Visitor, str]] = OrderedDict()
        self._pending_by_network: Final[dict[str, OrderedDict[Visitor, None]]] = {}
        self._tally: Final[Tally[tuple[str, str]]] = Tally(LOGGED_MAX)

    def refusal(self, address: str) -> str:
        """Return why no connection is accepted from an address now; "" if one is."""
        per_address = self._limits().per_address
        if 0 < per_address <= self._by_network.get(network_of(address), 0):
            return "your address has reached max-connections-per-address"
        if self.count >= self.descriptors.connections_max and not self._dismiss_oldest():
            return "the broker has reached max-connections"
        return ""

    def add(self, visitor: Visitor, address: str) -> None:
        """Count an accepted socket; if there are too many strangers, the oldest is closed."""
        network = network_of(address)
        limits = self._limits()
        of_network = self._pending_by_network.get(network)
        if of_network is not None and len(of_network) >= limits.pending_per_address:
            self._make_room(of_network, limits.pending_per_address, network)
        if len(self._pending) >= limits.pending:
            self._make_room(self._pending, limits.pending, "others")
        self.count += 1
        self._by_network[network] = self._by_network.get(network, 0) + 1
        self._pending[visitor] = network
        # The dict is created again if it was removed as empty.
        self._pending_by_network.setdefault(network, OrderedDict())[visitor] = None

    def count_own(self, change: int) -> None:
        """Count a connection that the broker itself opens (1), or that has ended (-1)."""
        self.count += change

    def remove(self, visitor: Visitor, address: str) -> None:
        """Stop counting a socket that was closed."""
        network = network_of(address)
        self.count -= 1
        left = self._by_network[network] - 1
        if left:
            self._by_network[network] = left
        else:
            del self._by_network[network]
        self._forget(visitor)

    def _forget(self, visitor: Visitor) -> None:
        network = self._pending.pop(visitor, None)
        if network is not None:
            of_network = self._pending_by_network[network]
            del of_network[visitor]
            if not of_network:
                del self._pending_by_network[network]

    def _make_room(
        self, pending: OrderedDict[Visitor, str] | OrderedDict[Visitor, None], most: int, whose: str
    ) -> None:
        """Forget sockets with a login; close the oldest stranger if the limit is still reached."""
        for visitor in [one for one in pending if one.has_logged_in]:
            self._forget(visitor)
        strangers = [one for one in pending if one.is_stranger]
        if len(strangers) >= most:
            self._dismiss(strangers[0], whose)

    def _dismiss_oldest(self) -> bool:
        """Close the oldest stranger of all; return whether there was one."""
        for visitor in [one for one in self._pending if one.has_logged_in]:
            self._forget(visitor)
        for visitor, network in self._pending.items():
            if visitor.is_stranger:
                self._dismiss(visitor, network)
                return True
        return False

    def _dismiss(self, visitor: Visitor, whose: str) -> None:
        self.dismissed += 1
        self._forget(visitor)
        self._log(whose, PENDING)
        visitor.dismiss(PENDING)

    def note_refusal(self, address: str, why: str) -> None:
        """Count a refused connection, and log the first of each address and reason."""
        self.refused += 1
        self._log(address, why)

    def _log(self, address: str, why: str) -> None:
        if self._tally.note((address, why), self._clock()):
            log.warning("connection refused", peer=address, why=why)

    def tick(self) -> None:
        """Log how many more were refused in the last minute."""
        if not self._tally.is_over(self._clock()):
            return
        more, others = self._tally.take()
        for (address, why), count in more.items():
            log.warning("more connections refused", peer=address, why=why, count=count)
        if others:
            log.warning("more connections refused", peer="others", count=others)

    def status(self) -> dict[str, object]:
        """Return the figures for `daybook status`."""
        return {**self.counts(), **self.descriptors.status()}

    def counts(self) -> dict[str, object]:
        """Return how many connections were refused, and how many closed to make room."""
        return {"connections_refused": self.refused, "connections_dismissed": self.dismissed}


def network_of(address: str) -> str:
    """Return the network of an address: the whole IPv4 address, the /64 of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    kept = int(parsed) >> (128 - NETWORK_BITS) << (128 - NETWORK_BITS)
    return f"{IPv6Address(kept)}/{NETWORK_BITS}"
