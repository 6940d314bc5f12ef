"""The offer of the made-up protocol to the registry."""

from collections.abc import Mapping
from typing import Final

from daybook.protocols.port import BrokerPort, Caller, MessagingSession, Offer, Value
from tests.support.links.session import LinksSession
from tests.support.links.wire import frame


class Links:
    """The sessions of an acceptor."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.room = 1 << 20
        self.tunes_room = False

    def session(self, broker: BrokerPort, caller: Caller, server_name: str) -> MessagingSession:
        """Make the session of a connection."""
        return LinksSession(broker, caller, self.room)


OFFER: Final = Offer(
    scheme="links",
    name="links of tests",
    listen="127.0.0.1:0",
    connections=1000,
    options=(),
    refusal=lambda why: frame("closed", why),
    messaging=Links,
)
