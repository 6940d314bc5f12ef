"""Entrances: the session that a peer gets when its protocol is known."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybook.engine.broker import Broker
from daybook.engine.state.state import State
from daybook.protocols.registry import OFFERS
from daybook.server.hub.peer import Transport
from daybook.server.network.entrances import MessagingEntrance
from tests.unit.server.hub.test_peer import Pipe

SECOND = 1_000_000


class Hub:
    """The parts of the hub that an entrance needs."""

    def __init__(self) -> None:
        self.broker = Broker(State())
        self.mechanisms = SimpleNamespace(offered=lambda _: ())
        self.now = SECOND
        self.secret = b"secret"

    def opened(self, peer: Any) -> None:
        peer.session.tick(self.now)


@pytest.mark.parametrize(("first", "second"), [("amqp", "stomp"), ("stomp", "amqp")])
def test_the_time_to_log_in_begins_with_the_connection(first: str, second: str) -> None:
    hub = Hub()
    messaging = {scheme: OFFERS[scheme].messaging for scheme in (first, second)}
    protocols: Any = {
        scheme: make({"connect-timeout": 2000}) for scheme, make in messaging.items() if make
    }
    entrance = MessagingEntrance(cast(Any, hub), protocols, "both", "server")
    peer = cast(Any, entrance.peer(cast(Transport, Pipe()), "p:1", is_loopback=True))
    assert peer.caller.secret == hub.secret
    hub.opened(peer)
    hub.now += SECOND
    entrance.speak(peer, OFFERS[second])
    assert peer.session.next_deadline == 3 * SECOND
    # While nothing was read from it, it could not log in.
    peer.session.is_unheard = True
    peer.session.tick(3 * SECOND)
    assert not peer.session.closing
    peer.session.is_unheard = False
    peer.session.tick(5 * SECOND)
    assert peer.session.closing
