"""Where the connections of an acceptor lead: to the hub, or to those who look on.

What an acceptor needs to know of its protocol is here: how the far end of a connection is made,
who hears of it, and whether its peers log in. Must never know sockets, nor a single protocol.
"""

from typing import Any, Final, Protocol

from daybook.protocols.port import Messaging, Session, Watching
from daybook.protocols.registry import OFFERS
from daybook.server.config import AcceptorConfig
from daybook.server.hub import Hub
from daybook.server.onlookers import Onlooker, Onlookers
from daybook.server.peer import Peer, Transport


class Guest(Protocol):
    """The far end of a connection. `connection` is the id of a user's, 0 if nobody logged in."""

    @property
    def session(self) -> Session:
        """The conversation with it."""
        ...

    @property
    def name(self) -> str:
        """Its address and port."""
        ...

    @property
    def connection(self) -> int:
        """The id that the engine gave it, 0 if nobody logged in."""
        ...

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in here, and no login is being checked."""
        ...

    @property
    def was_answered(self) -> bool:
        """Whether it was sent anything."""
        ...


class House(Protocol):
    """Who hears of connections."""

    def opened(self, peer: Any, /) -> None:
        """A peer connected."""
        ...

    def received(self, peer: Any, data: bytes, /) -> None:
        """Bytes came from a peer."""
        ...

    def drained(self, peer: Any, /) -> None:
        """The transport of a peer, which was full, has room again."""
        ...

    def lost(self, peer: Any, /) -> None:
        """The connection of a peer is gone."""
        ...


class Entrance(Protocol):
    """What an acceptor needs of its protocol; `logs_in` says whether its peers are to log in.

    `room` is how many bytes may be on their way to a peer before it gets no more.
    """

    house: House
    room: int
    logs_in: bool

    def guest(self, transport: Transport, name: str, *, is_loopback: bool) -> Guest:
        """Make the far end of a connection."""
        ...


class MessagingEntrance:
    """Leads to the hub."""

    logs_in = True

    def __init__(self, hub: Hub, protocol: Messaging, acceptor: str, server_name: str) -> None:
        self.house: House = hub
        self.room = protocol.room
        self._hub: Final = hub
        self._protocol: Final = protocol
        self._acceptor: Final = acceptor
        self._server_name: Final = server_name

    def guest(self, transport: Transport, name: str, *, is_loopback: bool) -> Guest:
        """Make the far end of a connection."""
        session = self._protocol.session(self._hub.broker, name, self._server_name)
        peer = Peer(session, transport, name, self._acceptor, self.room)
        peer.is_loopback = is_loopback
        return peer


class WatchingEntrance:
    """Leads to those who look on."""

    logs_in = False

    def __init__(self, onlookers: Onlookers, protocol: Watching) -> None:
        self.house: House = onlookers
        self.room = onlookers.room
        self._onlookers: Final = onlookers
        self._protocol: Final = protocol

    def guest(self, transport: Transport, name: str, *, is_loopback: bool) -> Guest:
        """Make the far end of a connection; it does not matter where that is."""
        return Onlooker(self._protocol.session(self._onlookers.sight), transport, name)


class Entrances:
    """Makes the entrance of each acceptor."""

    def __init__(self, hub: Hub, onlookers: Onlookers, server_name: str) -> None:
        self._hub: Final = hub
        self._onlookers: Final = onlookers
        self._server_name: Final = server_name

    def make(self, config: AcceptorConfig) -> Entrance:
        """The entrance of an acceptor that is configured so."""
        offer = OFFERS[config.protocol]
        if offer.messaging is not None:
            protocol = offer.messaging(config.options)
            return MessagingEntrance(self._hub, protocol, config.name, self._server_name)
        assert offer.watching is not None
        return WatchingEntrance(self._onlookers, offer.watching(config.options))
