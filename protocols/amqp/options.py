"""The options of an acceptor that speaks AMQP 1.0. Must never know where their values come from."""

from typing import Final

import msgspec

from daybook.engine.facts.definitions import ANYCAST, MULTICAST

ROOM_MAX: Final = 640 * 1024
"""The most that may be on its way to one connection, if the server tunes it."""
FIRST_ROOM: Final = 64 * 1024


class AmqpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and offers of an acceptor; sizes are bytes, times milliseconds.

    `idle_time_out_ms` is how long a peer may be silent, 0 for no limit. `credit` is how many
    messages a link may send before the broker has looked at the first. `virtual_hosts` are pairs of
    a name that clients connect to, and the virtual host that they get. `populate_validated_user`
    says whether messages carry the login of their sender. `container` is the broker's own id for
    peers, "" where the server says it for each connection.
    """

    room: int = 0
    connect_timeout_ms: int = 10_000
    idle_time_out_ms: int = 60_000
    die_delay_ms: int = 250
    max_frame_size: int = 128 * 1024
    max_message_size: int = 100 << 20
    min_large_message_size: int = 100 * 1024
    max_header_size: int = 1 << 20
    max_headers: int = 1000
    body_timeout_ms: int = 60_000
    max_sessions: int = 256
    max_links: int = 10_000
    credit: int = 1000
    anycast_prefix: tuple[str, ...] = ("queue://", "/queue/")
    multicast_prefix: tuple[str, ...] = ("topic://", "/topic/")
    virtual_hosts: tuple[tuple[str, str], ...] = ()
    populate_validated_user: bool = False
    container: str = ""

    def __post_init__(self) -> None:
        """Refuse values that contradict each other."""
        both = {*self.anycast_prefix} & {*self.multicast_prefix}
        if both:
            raise ValueError(
                "anycast-prefix and multicast-prefix must differ from each other:"
                f" {min(both)!r} would mean two things"
            )

    @property
    def prefixes(self) -> tuple[tuple[str, str], ...]:
        """All prefixes of addresses, the longest first, each with the routing type that it
        fixes."""
        anycast = dict.fromkeys(self.anycast_prefix, ANYCAST)
        multicast = dict.fromkeys(self.multicast_prefix, MULTICAST)
        return tuple(sorted((*anycast.items(), *multicast.items()), key=lambda pair: -len(pair[0])))
