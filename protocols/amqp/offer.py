"""AMQP's offer to the registry. Must never know where the values of options come from."""

from collections.abc import Mapping
from typing import Any, Final

from daybook.engine.names.host_names import known_of
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.dialling import DialledConnection
from daybook.protocols.amqp.options import ROOM_MAX, AmqpOptions
from daybook.protocols.amqp.wire.frames import SASL, protocol_header
from daybook.protocols.port import (
    BUFFER_SIZE,
    CONNECT_TIMEOUT,
    DIE_DELAY,
    BrokerPort,
    Caller,
    Count,
    Duration,
    Offer,
    Outbound,
    ProtocolOption,
    Size,
    Texts,
    Value,
)

_GIB: Final = 1 << 30

_FIELDS: Final = {
    "buffer-size": "room", "connect-timeout": "connect_timeout_ms",
    "idle-time-out": "idle_time_out_ms", "die-delay": "die_delay_ms",
    "max-frame-size": "max_frame_size", "max-message-size": "max_message_size",
    "min-large-message-size": "min_large_message_size", "max-header-size": "max_header_size",
    "max-sessions": "max_sessions", "max-links": "max_links", "credit": "credit",
    "max-headers": "max_headers", "body-timeout": "body_timeout_ms",
    "anycast-prefix": "anycast_prefix", "multicast-prefix": "multicast_prefix",
    "virtual-hosts": "virtual_hosts", "populate-validated-user": "populate_validated_user",
    "container": "container",
}  # fmt: skip
"""The fields of the options by their keys."""

OPTIONS: Final = (
    BUFFER_SIZE,
    CONNECT_TIMEOUT,
    ProtocolOption(
        "idle-time-out",
        Duration(0),
        60_000,
        "How long a peer may be silent before its connection is closed; the broker announces half"
        " of that. 0: no limit.",
    ),
    DIE_DELAY,
    ProtocolOption(
        "max-frame-size", Size(512, 64 << 20), "128KiB", "Length of a frame, both ways."
    ),
    ProtocolOption(
        "max-message-size", Size(0, 4 * _GIB), "100MiB", "Length of a message; 4GiB is the most."
    ),
    ProtocolOption(
        "min-large-message-size",
        Size(1 << 10, 4 * _GIB),
        "100KiB",
        "A longer message is large: its body goes through the journal in chunks, and is never whole"
        " in memory.",
    ),
    ProtocolOption(
        "max-header-size",
        Size(1 << 10, _GIB),
        "1MiB",
        "Length of the sections in front of the body of a large message.",
    ),
    ProtocolOption(
        "max-headers", Count(1, 1_000_000), 1_000, "Application properties of a message."
    ),
    ProtocolOption(
        "body-timeout",
        Duration(0),
        60_000,
        "How long a peer may take for the next frame of a message that it has begun to send, before"
        " its link is ended; 0: for any time.",
    ),
    ProtocolOption("max-sessions", Count(1, 65_536), 256, "Sessions of one connection."),
    ProtocolOption(
        "max-links", Count(1, 1_000_000), 10_000, "Links of one connection, in all its sessions."
    ),
    ProtocolOption(
        "credit",
        Count(1, 100_000),
        1_000,
        "Messages that a link may send before the broker has looked at the first; fewer where they"
        " are long.",
    ),
    ProtocolOption(
        "anycast-prefix",
        Texts(),
        ["queue://", "/queue/"],
        "Prefixes of addresses that are anycast; `/queue/` is that of STOMP.",
    ),
    ProtocolOption(
        "multicast-prefix",
        Texts(),
        ["topic://", "/topic/"],
        "Prefixes of addresses that are multicast.",
    ),
)

_OF_ACCEPTORS: Final = ("connect-timeout", "die-delay")
"""Options that connections of the broker itself do not need, or have from their connector."""


class Amqp:
    """The sessions of an acceptor."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Raise ValueError if the values contradict each other."""
        given: dict[str, Any] = {
            field: values[key] for key, field in _FIELDS.items() if key in values
        }
        given["virtual_hosts"] = known_of(given.get("virtual_hosts", ()))
        self.options: Final = AmqpOptions(**given)
        self.room = self.options.room or ROOM_MAX
        self.tunes_room = not self.options.room

    def session(self, broker: BrokerPort, caller: Caller, server_name: str) -> AmqpConnection:
        """Make the session of a connection."""
        return AmqpConnection(broker, self.options, caller, server_name)

    def dial(self, broker: BrokerPort, caller: Caller, outbound: Outbound) -> DialledConnection:
        """Make the session of a connection that the broker opens."""
        return DialledConnection(broker, self.options, caller, outbound)


OFFER: Final = Offer(
    scheme="amqp",
    name="AMQP 1.0",
    listen="127.0.0.1:5672",
    connections=10_000,
    options=OPTIONS,
    refusal=lambda why: protocol_header(SASL),
    messaging=Amqp,
    dialling=Amqp,
    subprotocols=("amqp",),
    beginnings=(b"AMQP",),
    dialled=tuple(option for option in OPTIONS if option.name not in _OF_ACCEPTORS),
)
