"""The options of STOMP acceptors. Must never know where the values come from."""

from typing import Final

import msgspec

from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.names.names import HOST
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.protocols.stomp.wire.principals import Added, parsed
from daybook.protocols.stomp.wire.spelling import Spelling, Symbols, spelling_of

KIB = 1024
MIB = 1024 * 1024
ROOM_MAX: Final = 640 * KIB
"""The room of a connection where the server tunes it, and there are few of them."""


def key(field: str) -> str:
    """Return the configuration key of a field."""
    return "buffer-size" if field == "room" else field.removesuffix("_ms").replace("_", "-")


RESERVED: Final = frozenset(
    (
        "destination", "message-id", "subscription", "ack", "redelivered", "delivery-count",
        "content-length", "content-type", "persistent", "priority", "expires", "ttl", "expiration",
        "transaction", "receipt", "reply-to", "correlation-id", "retain", "retained",
    )
)  # fmt: skip
"""Headers of SEND and MESSAGE whose names no option may use."""


class StompOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename=key, forbid_unknown_fields=True
):
    """Limits in bytes, times in milliseconds; `key` gives their names in the configuration.

    `max_frame_head` bounds command and headers of a frame together, `max_early_data` what a peer
    may send before it is logged in. A body above `min_large_message_size` is never whole in memory.
    `heart_beat_send_ms` is the shortest time between heart-beats that the broker offers,
    `heart_beat_receive_ms` the one it asks for; 0 turns that way off. A peer is disconnected when
    it has sent nothing for `heart_beat_grace` times what was agreed. `hosts` lists the virtual host
    names that CONNECT may give, empty for any. `room` is how many bytes of deliveries of a
    connection may be on their way to its socket. The options that begin with `add_` are names of
    headers that messages get, empty for none. `anycast_prefix` and `multicast_prefix` are further
    prefixes, as acceptors of Artemis have. `syntax` is that of the names of addresses.
    `populate_validated_user` says whether messages carry the login of their sender.
    `path_separator` to `regex_wildcard_end` are the spelling of names, empty for that of `syntax`;
    `percent_encoding` says whether names are encoded like URLs. `virtual_hosts` are the names that
    clients may give, in lower case, each with its virtual host; those of the first one come first.
    `host` is the virtual host of the session. `syntax`, `populate_validated_user`, these two,
    `heart_beat_grace` and `dsub_prefix` do not come from keys of acceptors.
    """

    max_header_length: int = 10 * KIB
    max_headers: int = 1000
    max_frame_head: int = MIB
    max_data_length: int = 100 * MIB
    min_large_message_size: int = 100 * KIB
    max_early_data: int = 16 * KIB
    max_subscriptions: int = 10_000
    max_wildcard_queues: int = 1_000
    die_delay_ms: int = 250
    connect_timeout_ms: int = 10_000
    body_timeout_ms: int = 60_000
    heart_beat_send_ms: int = 1_000
    heart_beat_receive_ms: int = 10_000
    heart_beat_grace: float = 2.0
    default_persistent: bool = True
    hosts: tuple[str, ...] = ()
    queue_prefix: str = "/queue/"
    topic_prefix: str = "/topic/"
    anycast_prefix: tuple[str, ...] = ()
    multicast_prefix: tuple[str, ...] = ()
    dsub_prefix: str = "/dsub/"
    path_separator: str = ""
    destination_separator: str = ""
    any_child_wildcard: str = ""
    any_descendant_wildcard: str = ""
    regex_wildcard_start: str = ""
    regex_wildcard_end: str = ""
    percent_encoding: bool = False
    room: int = MIB
    add_user_header: str = ""
    add_user_headers: tuple[str, ...] = ()
    add_timestamp_header: str = ""
    add_redeliveries_header: str = ""
    syntax: Syntax = DEFAULT
    populate_validated_user: bool = False
    virtual_hosts: tuple[tuple[str, str], ...] = ()
    host: str = HOST

    def __post_init__(self) -> None:
        """Refuse invalid values; the error names the key."""
        for name in (
            "max_header_length", "max_headers", "max_frame_head", "max_data_length",
            "min_large_message_size", "max_early_data", "max_subscriptions",
            "max_wildcard_queues", "die_delay_ms", "connect_timeout_ms", "body_timeout_ms",
            "heart_beat_send_ms", "heart_beat_receive_ms",
        ):  # fmt: skip
            if getattr(self, name) < 0:
                raise ValueError(f"{key(name)} must be 0 or more")
        if self.room < 0:
            raise ValueError("buffer-size must be at least 1 byte, or auto")
        if self.heart_beat_grace < 1.0:
            raise ValueError("heart-beat-grace must be 1.0 or more")
        self._check_added()
        prefixes = (self.queue_prefix, self.topic_prefix, self.dsub_prefix)
        if "" in prefixes or len(set(prefixes)) < len(prefixes):
            raise ValueError(
                "queue-prefix and topic-prefix must not be empty, and must differ from each other"
                f" and from {self.dsub_prefix}"
            )
        both = {self.queue_prefix, *self.anycast_prefix} & {
            self.topic_prefix, *self.multicast_prefix
        }  # fmt: skip
        if both or self.dsub_prefix in (*self.anycast_prefix, *self.multicast_prefix):
            raise ValueError(
                "anycast-prefix and multicast-prefix must differ from each other and from"
                f" queue-prefix, topic-prefix and {self.dsub_prefix}:"
                f" {min(both or {self.dsub_prefix})!r} would mean two things"
            )

        between = self.spelling.between
        for prefix in (*prefixes, *self.anycast_prefix, *self.multicast_prefix):
            if self.destination_separator and between in prefix:
                raise ValueError(
                    f"destination-separator is {between!r}, which the prefix {prefix!r} contains"
                )

    @property
    def principals(self) -> list[Added]:
        """The headers with principals of the sender. Raises ValueError."""
        return [parsed(text) for text in self.add_user_headers]

    @property
    def spelling(self) -> Spelling:
        """How names are spelled."""
        symbols = Symbols(
            self.path_separator, self.destination_separator, self.any_child_wildcard,
            self.any_descendant_wildcard, self.regex_wildcard_start, self.regex_wildcard_end,
        )  # fmt: skip
        return spelling_of(symbols, self.syntax, self.percent_encoding)

    def _check_added(self) -> None:
        names = (self.add_user_header, self.add_timestamp_header, self.add_redeliveries_header)
        given = [name for name in names if name] + [each.header for each in self.principals]
        for name in given:
            if name in RESERVED:
                raise ValueError(f"{name!r} cannot be a header that is added: it has a meaning")
        if len(set(given)) < len(given):
            raise ValueError("the headers that are added must have different names")

    @property
    def prefixes(self) -> tuple[tuple[str, str], ...]:
        """All prefixes of names, the longest first, each with the routing type that it fixes."""
        anycast = dict.fromkeys((self.queue_prefix, *self.anycast_prefix), ANYCAST)
        multicast = dict.fromkeys((self.topic_prefix, *self.multicast_prefix), MULTICAST)
        found = [*anycast.items(), *multicast.items()]
        return tuple(sorted(found, key=lambda pair: -len(pair[0])))
