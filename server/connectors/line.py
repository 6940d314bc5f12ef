"""The side of a connector that its connection sees: where the bytes go, TLS, and the end.

Must never know when a connection is opened.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from daybook.engine.names.names import HOST
from daybook.protocols.port import Outbound
from daybook.server.config_keys.acceptor_config import NONE
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.hub.hub import Hub
from daybook.server.network.admission import Admission
from daybook.server.network.entrances import DialledEntrance, Entrance
from daybook.server.network.hangups import Hangups
from daybook.server.network.layers.client_names import ClientNames
from daybook.server.network.layers.handshakes import Handshakes
from daybook.server.network.layers.tls import Tls
from daybook.server.network.layers.websocket import WebSocketOptions
from daybook.server.network.peer_socket import Connection

READ_BYTES: Final = 64 * 1024
"""The most bytes read from a socket at once."""
CONNECT_TIMEOUT: Final = "connect-timeout"


class Surroundings:
    """The common part of all connectors: the hub, the loop, and one buffer. `name` is that of the
    broker, `now` returns microseconds."""

    def __init__(
        self,
        hub: Hub,
        admission: Admission,
        loop: asyncio.AbstractEventLoop,
        name: str,
        *,
        now: Callable[[], int],
        why_not_act: Callable[[str, str], str],
    ) -> None:
        """`why_not_act` returns why nobody may act as a user on a virtual host, "" if they may."""
        self.hub: Final = hub
        self.loop: Final = loop
        self.name: Final = name
        self.now: Final = now
        self.admission: Final = admission
        self.hangups: Final = Hangups(loop)
        self.handshakes: Final = Handshakes(loop.call_soon)
        self.buffer: Final = memoryview(bytearray(READ_BYTES))
        self._why_not_act: Final = why_not_act

    def why_not(self, config: ConnectorConfig) -> str:
        """Return why a connection cannot be opened now, "" if it can."""
        if config.user and (why := self._why_not_act(config.user, config.virtual_host or HOST)):
            return f"{why} (user)"
        if self.admission.descriptors.is_short:
            return "no descriptors are left"
        return ""


class Ends(msgspec.Struct):
    """Takes the reasons why connections end."""

    take: Callable[[str], None]

    def note(self, host: str, peer: str, error: str) -> None:
        """Note the reason why the connection of a peer ends."""
        self.take(error)


class Line:
    """The owner of the connections of a connector; `context` is that of the next one with TLS."""

    is_outgoing = True
    websocket: WebSocketOptions | None = None

    def __init__(
        self,
        config: ConnectorConfig,
        around: Surroundings,
        words: Callable[[], Outbound],
        note: Callable[[str], None],
        ended: Callable[[Connection], None],
    ) -> None:
        self.context: ssl.SSLContext | None = None
        self.client_names = ClientNames(NONE, "")
        self.hangups = around.hangups
        self.handshakes = around.handshakes
        self.error_frames: Final = Ends(note)
        self.layer_errors: Final = Ends(note)
        self.buffer: Final = around.buffer
        self.early_buffer: Final = around.buffer
        self._hub: Final = around.hub
        self._words: Final = words
        self._config = config
        self.entrance: Entrance = self._entrance()
        self._admission: Final = around.admission
        self._ended: Final = ended

    def _entrance(self) -> Entrance:
        config = self._config
        options = config.options | {CONNECT_TIMEOUT: config.connect_timeout}
        return DialledEntrance(self._hub, config.protocol, options, self._words)

    def change(self, config: ConnectorConfig) -> None:
        """Take values for the next connection."""
        self._config = config
        self.entrance = self._entrance()

    @property
    def name(self) -> str:
        """The name of the connector."""
        return self._config.name

    def tls(self) -> Tls | None:
        """Return the TLS of a new connection, None if it is spoken without."""
        if self.context is None:
            return None
        return Tls(self.context, server_name=self._config.host_name or self._config.host)

    def count(self, change: int) -> None:
        """Count a connection among all."""
        self._admission.count_own(change)

    def forget(self, connection: Connection) -> None:
        """The socket of a connection is closed."""
        self._ended(connection)
