"""Connects an acceptor to the hub, to onlookers, or to administrators.

It gives an acceptor everything that depends on the kind of protocol: how a peer's state is created,
which object handles its events, and whether its peers log in. Must never know sockets, nor a single
protocol.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from daybook.engine.facts.definitions import AutoLink
from daybook.engine.facts.reasons import PROTOCOL_ERROR
from daybook.protocols.port import (
    HOST_NAMES,
    Administering,
    Caller,
    Messaging,
    Offer,
    Outbound,
    Session,
    Value,
    Watching,
)
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.acceptor_config import CONTAINER, AcceptorConfig
from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Peer, Transport
from daybook.server.network.administrators import Administrator, Administrators
from daybook.server.network.onlookers import Onlooker, Onlookers

AutoLinksOf: TypeAlias = Callable[[str], tuple[AutoLink, ...]]
"""Returns the auto-links that are to be attached to a peer with a container id."""


def none_of(container: str) -> tuple[AutoLink, ...]:
    """Return no auto-links."""
    return ()


class PeerState(Protocol):
    """The state of a peer. `connection` is its id after a login, 0 before."""

    @property
    def session(self) -> Session:
        """The session."""
        ...

    @property
    def name(self) -> str:
        """Its address and port."""
        ...

    @property
    def connection(self) -> int:
        """The engine's id of the connection, 0 before a login."""
        ...

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in here, and no login is being checked."""
        ...

    @property
    def was_answered(self) -> bool:
        """Whether anything was sent to the peer."""
        ...


class ConnectionHandler(Protocol):
    """The handler of a connection's events."""

    def opened(self, peer: Any, /) -> None:
        """A peer connected."""
        ...

    def received(self, peer: Any, data: bytes, /) -> None:
        """Bytes came from a peer."""
        ...

    def drained(self, peer: Any, /) -> None:
        """The write buffer of a peer's transport has drained."""
        ...

    def lost(self, peer: Any, /) -> None:
        """The connection of a peer has ended."""
        ...


class Entrance(Protocol):
    """The protocols of an acceptor, as the acceptor uses them; `logs_in` says whether its peers log
    in.

    `room` is how many bytes may be on their way to a peer.
    """

    offers: Sequence[Offer]
    handler: ConnectionHandler
    room: int
    logs_in: bool

    def peer(self, transport: Transport, name: str, *, is_loopback: bool) -> PeerState:
        """Create the state of a peer, which speaks the first of the protocols so far."""
        ...

    def speak(self, peer: Any, offer: Offer | None, /) -> None:
        """The peer has shown which of several protocols it speaks; None: none of them."""
        ...


class MessagingEntrance:
    """Connects an acceptor to the hub."""

    logs_in = True

    def __init__(
        self,
        hub: Hub,
        protocols: Mapping[str, Messaging],
        acceptor: str,
        server_name: str,
        auto_links: AutoLinksOf = none_of,
    ) -> None:
        """`protocols` by their schemes, the first one for peers that have said nothing;
        `auto_links` are those of a peer with a container id."""
        self.offers: Sequence[Offer] = [OFFERS[scheme] for scheme in protocols]
        self.handler: ConnectionHandler = hub
        self._first: Final = next(iter(protocols.values()))
        self.room = self._first.room
        self._hub: Final = hub
        self._protocols: Final = protocols
        self._acceptor: Final = acceptor
        self._server_name: Final = server_name
        self._auto_links: Final = auto_links

    def peer(self, transport: Transport, name: str, *, is_loopback: bool) -> PeerState:
        """Create the state of a peer."""
        caller = Caller(name, self._hub.mechanisms.offered, is_loopback=is_loopback)
        caller.secret = self._hub.secret
        caller.auto_links = self._auto_links
        session = self._first.session(self._hub.broker, caller, self._server_name)
        peer = Peer(session, transport, caller, self._acceptor, self.room)
        peer.is_tuned = self._first.tunes_room
        return peer

    def speak(self, peer: Peer, offer: Offer | None, /) -> None:
        """Give a peer the session of its protocol; end it if it speaks none of them."""
        if peer.session.closing:
            return
        if offer is None:
            spoken = " and ".join(each.name for each in self.offers)
            what = f"these bytes begin none of the protocols that are spoken here: {spoken}"
            self._hub.dismiss(peer, what, "", PROTOCOL_ERROR)
        elif offer is not self.offers[0]:
            protocol = self._protocols[offer.scheme]
            # The time to log in began when the peer connected.
            peer.caller.log_in_by = peer.session.next_deadline
            peer.session = protocol.session(self._hub.broker, peer.caller, self._server_name)
            self._hub.opened(peer)


class DialledEntrance:
    """Connects the connections that the broker opens to the hub; `outbound` makes the words of the
    next one."""

    logs_in = True

    def __init__(
        self, hub: Hub, scheme: str, options: Mapping[str, Value], outbound: Callable[[], Outbound]
    ) -> None:
        """`options` are those of the protocol with this scheme."""
        offer = OFFERS[scheme]
        assert offer.dialling is not None
        self.offers: Sequence[Offer] = [offer]
        self.handler: ConnectionHandler = hub
        self._protocol: Final = offer.dialling(options)
        self.room = self._protocol.room
        self._hub: Final = hub
        self._outbound: Final = outbound

    def peer(self, transport: Transport, name: str, *, is_loopback: bool) -> Peer:
        """Create the state of a peer."""
        words = self._outbound()
        caller = Caller(name, is_loopback=is_loopback)
        caller.secret = self._hub.secret
        session = self._protocol.dial(self._hub.broker, caller, words)
        peer = Peer(session, transport, caller, words.connector, self.room)
        peer.is_tuned = self._protocol.tunes_room
        peer.user = words.user
        return peer

    def speak(self, peer: Peer, offer: Offer | None, /) -> None:
        """A peer has no choice."""


class _OneProtocol:
    """An entrance with a single protocol, whose peers do not log in."""

    logs_in = False

    def __init__(self, offer: Offer) -> None:
        self.offers: Sequence[Offer] = [offer]

    def speak(self, peer: PeerState, offer: Offer | None, /) -> None:
        """A peer has no choice."""


class WatchingEntrance(_OneProtocol):
    """Connects an acceptor to the connections of Watching protocols."""

    def __init__(self, onlookers: Onlookers, offer: Offer, protocol: Watching) -> None:
        super().__init__(offer)
        self.handler: ConnectionHandler = onlookers
        self.room = onlookers.room
        self._onlookers: Final = onlookers
        self._protocol: Final = protocol

    def peer(self, transport: Transport, name: str, *, is_loopback: bool) -> PeerState:
        """Create the state of a peer; `is_loopback` does not matter."""
        return Onlooker(self._protocol.session(self._onlookers.view), transport, name)


class AdministeringEntrance(_OneProtocol):
    """Connects an acceptor to the connections of administrators."""

    def __init__(
        self, administrators: Administrators, offer: Offer, protocol: Administering
    ) -> None:
        super().__init__(offer)
        self.handler: ConnectionHandler = administrators
        self.room = administrators.room
        self._protocol: Final = protocol

    def peer(self, transport: Transport, name: str, *, is_loopback: bool) -> PeerState:
        """Create the state of a peer; `is_loopback` does not matter."""
        return Administrator(self._protocol.session(), transport, name)


class EntranceMaker(Protocol):
    """Makes the entrance of an acceptor."""

    def make(self, config: AcceptorConfig) -> Entrance:
        """Create the entrance of an acceptor."""
        ...


class Entrances:
    """Creates the entrance of each acceptor."""

    def __init__(
        self,
        hub: Hub,
        onlookers: Onlookers,
        server_name: str,
        options: Callable[[], Mapping[str, Value]] = dict,
        administrators: Administrators | None = None,
        auto_links: AutoLinksOf = none_of,
    ) -> None:
        """`options` returns those that every session gets, besides the ones of its acceptor.

        `administrators` are needed for acceptors of Administering protocols only, `auto_links` for
        those that are for containers.
        """
        self._hub: Final = hub
        self._onlookers: Final = onlookers
        self._administrators: Final = administrators
        self._auto_links: Final = auto_links
        self._server_name: Final = server_name
        self._options: Final = options

    def make(self, config: AcceptorConfig) -> Entrance:
        """Create the entrance of an acceptor."""
        protocols = {
            scheme: make(options | dict(self._options()))
            for scheme, options in config.speaks.items()
            if (make := OFFERS[scheme].messaging) is not None
        }
        if protocols:
            links = self._auto_links if config.role == CONTAINER else none_of
            return MessagingEntrance(self._hub, protocols, config.name, self._server_name, links)
        offer = OFFERS[config.protocol]
        if offer.administering is not None:
            assert self._administrators is not None
            protocol = offer.administering(config.options)
            return AdministeringEntrance(self._administrators, offer, protocol)
        return watching_entrance(self._onlookers, config)


def watching_entrance(onlookers: Onlookers, config: AcceptorConfig) -> WatchingEntrance:
    """Create the entrance of an acceptor of a Watching protocol."""
    offer = OFFERS[config.protocol]
    assert offer.watching is not None
    names = (config.host, socket.gethostname())
    protocol = offer.watching(config.options | {HOST_NAMES: names})
    return WatchingEntrance(onlookers, offer, protocol)
