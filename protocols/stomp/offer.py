"""STOMP's offer to the registry. Must never know where the values of options come from."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from daybook.engine.names.host_names import known_of
from daybook.engine.names.syntax import syntax_of
from daybook.protocols.port import (
    BUFFER_SIZE,
    CONNECT_TIMEOUT,
    DIE_DELAY,
    BrokerPort,
    Caller,
    Count,
    Duration,
    Flag,
    Offer,
    ProtocolOption,
    Size,
    Text,
    Texts,
    Value,
)
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.wire.options import ROOM_MAX, StompOptions, key

_GIB: Final = 1 << 30
_HEADER: Final = Text('the name of a header, like "user", or empty', r"[^\s:\\]*")
_PREFIX: Final = Text('a prefix of destinations, like "/queue/"', r"\S+")
_SYMBOL: Final = Text('characters like "/", or empty for the default', r"\S{0,8}")

OPTIONS: Final = (
    BUFFER_SIZE,
    CONNECT_TIMEOUT,
    ProtocolOption(
        "body-timeout",
        Duration(0),
        60_000,
        "How long a peer may take for the next 64 KiB of a body that it has begun to send, before "
        "its connection is closed; 0: without limit.",
    ),
    DIE_DELAY,
    ProtocolOption(
        "heart-beat-send",
        Duration(0),
        1_000,
        "The shortest interval at which the broker offers heart-beats; 0: none.",
    ),
    ProtocolOption(
        "heart-beat-receive",
        Duration(0),
        10_000,
        "The shortest interval at which the broker asks for heart-beats; 0: none.",
    ),
    ProtocolOption(
        "max-headers", Count(1, 1_000_000), 1_000, "Headers in a frame, besides `receipt`."
    ),
    ProtocolOption(
        "max-header-length", Size(64, 64 << 20), "10KiB", "Length of one header, name and value."
    ),
    ProtocolOption(
        "max-frame-head",
        Size(1 << 10, _GIB),
        "1MiB",
        "Length of command and headers of a frame together.",
    ),
    ProtocolOption(
        "max-data-length",
        Size(0, 4 * _GIB),
        "100MiB",
        "Length of the body of a frame; 4GiB is the most.",
    ),
    ProtocolOption(
        "min-large-message-size",
        Size(1 << 10, 4 * _GIB),
        "100KiB",
        "A longer body is large: it goes through the journal in chunks, and is never whole in "
        "memory.",
    ),
    ProtocolOption(
        "max-early-data",
        Size(1 << 10, _GIB),
        "16KiB",
        "What the broker holds of a peer that has not logged in: an unfinished CONNECT, and what"
        " follows it.",
    ),
    ProtocolOption(
        "max-subscriptions",
        Count(1, 10_000_000),
        10_000,
        "Subscriptions of one connection; each destination of a composite one counts.",
    ),
    ProtocolOption(
        "max-wildcard-queues",
        Count(1, 1_000_000),
        1_000,
        "Queues that one subscription with wildcards takes from at a time; further ones wait.",
    ),
    ProtocolOption(
        "default-persistent",
        Flag(),
        True,
        "Whether a message is persistent whose sender does not say.",
    ),
    ProtocolOption(
        "queue-prefix", _PREFIX, "/queue/", "Prefix of destinations that are anycast."
    ),
    ProtocolOption(
        "topic-prefix", _PREFIX, "/topic/", "Prefix of destinations that are multicast."
    ),
    ProtocolOption(
        "path-separator",
        _SYMBOL,
        "",
        "What divides the words of names; empty: the delimiter of [wildcard-addresses].",
    ),
    ProtocolOption(
        "destination-separator",
        _SYMBOL,
        "",
        "What divides the names of a composite destination; empty: a comma.",
    ),
    ProtocolOption(
        "any-child-wildcard",
        _SYMBOL,
        "",
        "What stands for a word, or a part of one; empty: single-word of [wildcard-addresses].",
    ),
    ProtocolOption(
        "any-descendant-wildcard",
        _SYMBOL,
        "",
        "What stands for any number of words, besides any-words of [wildcard-addresses]; empty:"
        " any-child-wildcard twice.",
    ),
    ProtocolOption(
        "regex-wildcard-start", _SYMBOL, "", "What begins a regular expression; empty: {."
    ),
    ProtocolOption(
        "regex-wildcard-end", _SYMBOL, "", "What ends a regular expression; empty: }."
    ),
    ProtocolOption(
        "percent-encoding",
        Flag(),
        False,
        "Whether names are encoded like URLs, as Apollo has it: %C3%A9t%C3%A9 is été.",
    ),
    ProtocolOption(
        "anycast-prefix",
        Texts(),
        [],
        'Further prefixes of destinations that are anycast, like "anycast://".',
    ),
    ProtocolOption(
        "multicast-prefix",
        Texts(),
        [],
        'Further prefixes of destinations that are multicast, like "multicast://".',
    ),
    ProtocolOption(
        "add-user-header",
        _HEADER,
        "",
        "Header that messages get with the login of their sender; empty: none.",
    ),
    ProtocolOption(
        "add-user-headers",
        Texts(),
        [],
        'More such headers, like "groups;kind=role;separator=,": kind is user, role or *; without a'
        " separator only the first principal is there.",
    ),
    ProtocolOption(
        "add-timestamp-header",
        _HEADER,
        "",
        "Header that messages get with the time when they arrived, in milliseconds since 1970;"
        " empty: none.",
    ),
    ProtocolOption(
        "add-redeliveries-header",
        _HEADER,
        "",
        "Header that deliveries get with how often the message was delivered before, if it was;"
        " empty: none.",
    ),
    ProtocolOption(
        "hosts", Texts(), [], "Virtual host names that clients may ask for; empty: any."
    ),
)  # fmt: skip


class Stomp:
    """The sessions of an acceptor."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Raise ValueError if the values contradict each other."""
        fields = [each.name for each in msgspec.structs.fields(StompOptions)]
        given: dict[str, Any] = {
            field: values[key(field)] for field in fields if key(field) in values
        }
        given["syntax"] = syntax_of(given.get("syntax", ""))
        given["virtual_hosts"] = known_of(given.get("virtual_hosts", ()))
        self.options: Final = StompOptions(**given)
        self.room = self.options.room or ROOM_MAX
        self.tunes_room = not self.options.room

    def session(self, broker: BrokerPort, caller: Caller, server_name: str) -> Session:
        """Make the session of a connection."""
        return Session(broker, self.options, caller, server_name)


def refusal(why: str) -> bytes:
    """Encode an ERROR frame with the reason why a connection is refused."""
    return f"ERROR\nmessage:{why}\ncontent-type:text/plain\n\n{why}; try again later\n\0".encode()


OFFER: Final = Offer(
    scheme="stomp",
    name="STOMP",
    listen="127.0.0.1:61613",
    connections=10_000,
    options=OPTIONS,
    refusal=refusal,
    messaging=Stomp,
    subprotocols=("v12.stomp", "v11.stomp", "v10.stomp"),
    beginnings=(b"CONNECT", b"STOMP", b"\n", b"\r"),
)
