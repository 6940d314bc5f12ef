"""A broker in this process, without hub, sockets and disk, and the connections that it has.

Blocks of events are made, but not encoded. Must never know what is measured.
"""

from collections.abc import Sequence
from typing import Any, Final

from bench.load.amqp_peer import begin
from daybook.engine.broker import Broker
from daybook.engine.commands import ChangeDistributions, Command, Start
from daybook.engine.core.core import Options
from daybook.engine.direct.serving import DECISIONS
from daybook.engine.facts.definitions import AutoLink, DistributionEntry
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.dialling import DialledConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.frames import AMQP, SASL, frame, protocol_header
from daybook.protocols.amqp.wire.performatives import Open, SaslInit
from daybook.protocols.port import Caller, Outbound

NOW: Final = 1_000_000_000
LOTS: Final = 1 << 40
LOGIN: Final = b"\0guest\0guest"


class Guest:
    """The login of a broker at another one."""

    def choose(self, offered: Sequence[str]) -> tuple[str, bytes]:
        """Log in with a passcode."""
        return "PLAIN", LOGIN

    def respond(self, challenge: bytes) -> bytes:
        """There is no challenge."""
        return b""

    def accepted(self, proof: bytes | None) -> None:
        """Nothing is proved."""

    def refused(self) -> str:
        """Say that it failed."""
        return "the passcode is wrong"


class Site:
    """The broker; `identity` is that of its data directory, `entries` the table of direct names."""

    def __init__(
        self,
        identity: str,
        entries: Sequence[DistributionEntry] = (),
        journal_direct: str = DECISIONS,
        **table: Any,
    ) -> None:
        self.broker: Final = Broker(State(), options=Options(journal_direct=journal_direct))
        self.broker.identity = identity
        self.peers: Final[list[AmqpConnection]] = []
        self._do(Start(version="bench"))
        self._do(ChangeDistributions(tuple(entries), **table))

    def _do(self, command: Command) -> None:
        self.broker.budget.allow(LOTS)
        answer = self.broker.handle(command, NOW)
        assert not isinstance(answer, Refusal), answer

    def accept(self, name: str) -> AmqpConnection:
        """Return a connection that a peer has opened, and on which it has said nothing."""
        caller = Caller(name, lambda _: ("PLAIN",))
        caller.secret = b"secret"
        return self._add(AmqpConnection(self.broker, AmqpOptions(), caller, "bench"))

    def dial(self, links: tuple[AutoLink, ...]) -> DialledConnection:
        """Return a connection that the broker opens, for these auto-links, and for link routes."""
        outbound = Outbound("there", "here", "there", Guest(), "", links=lambda: links)
        dialled = DialledConnection(self.broker, AmqpOptions(), Caller("there"), outbound)
        self._add(dialled)
        return dialled

    def _add(self, peer: AmqpConnection) -> AmqpConnection:
        self.peers.append(peer)
        peer.tick(NOW)
        return peer

    def connect(self, name: str) -> AmqpConnection:
        """Log a client in, open its connection, and begin a session."""
        peer = self.accept(name)
        self.feed(peer, protocol_header(SASL) + frame(0, SaslInit("PLAIN", LOGIN)))
        self.answer(peer)
        self.feed(peer, protocol_header(AMQP) + frame(0, Open(name, max_frame_size=1 << 16)))
        self.answer(peer)
        self.feed(peer, begin())
        self.make_room()
        return peer

    def make_room(self) -> None:
        """Let all that there is be on its way: nobody reads here, so nothing else makes room."""
        for connection in self.broker.state.connections.values():
            connection.room = LOTS

    def answer(self, peer: AmqpConnection) -> bool:
        """Answer what a connection asks of its server; return whether it did."""
        if peer.login_request is not None:
            peer.authenticated("guest", "", NOW)
        elif peer.host_request is not None:
            peer.admitted("", NOW)
        else:
            return False
        return True

    def feed(self, peer: AmqpConnection, data: bytes) -> None:
        """Give a connection bytes, and deliver."""
        self.take(peer, data)
        self.deliver()

    def take(self, peer: AmqpConnection, data: bytes) -> None:
        """Give a connection bytes."""
        self.broker.budget.allow(LOTS)
        peer.receive(data, NOW)
        while peer.has_more or peer.has_unfinished:
            peer.proceed(NOW)

    def deliver(self) -> None:
        """Do what the hub does in a turn."""
        broker = self.broker
        broker.dispatch(NOW)
        while broker.effects:
            effects, broker.effects = broker.effects, []
            affected = set()
            for effect in effects:
                if isinstance(effect, tuple):
                    taker, *delivery = effect
                    taker.receiver.deliver(*delivery)
                else:
                    effect.hand_to(effect.consumer.receiver, NOW)
                    affected.add(effect.consumer.connection_id)
            for peer in self.peers:
                if peer.connection in affected:
                    peer.conclude(NOW)
            broker.dispatch(NOW)
