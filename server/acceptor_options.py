"""The table of keys of an [[acceptor]]: name, type, default, and meaning of each.

See `server.options` for the tables of everything else.
"""

from typing import Final

from daybook.server.kinds import (
    FLAG,
    GIB,
    LISTEN,
    PREFIX,
    TEXTS,
    choice,
    count,
    duration,
    size,
    text,
)
from daybook.server.option import Option

ACCEPTOR: Final = (
    Option(
        "name",
        text('a name without spaces, like "stomp"', r"[^\s\x00-\x1f\x7f]*"),
        "",
        "What logs call it; empty: the protocol, with a number from the second on. A "
        "reload knows an acceptor by its name.",
    ),
    Option("protocol", choice("stomp"), "stomp", "The protocol that it speaks."),
    Option(
        "listen",
        LISTEN,
        "127.0.0.1:61613",
        "Host and port, `[IPV6]:PORT` for IPv6. Port 0 lets the system choose one.",
    ),
    Option(
        "max-connections",
        count(1, 1_000_000),
        10_000,
        "Connections to this acceptor; more are refused.",
        live=True,
    ),
    Option(
        "buffer-size",
        size(4 << 10, GIB),
        "1MiB",
        "Deliveries that may be on their way to one connection; a peer that does not read "
        "holds at most this.",
        live=True,
    ),
    Option(
        "connect-timeout",
        duration(100),
        10_000,
        "How long a peer may take to log in.",
        live=True,
    ),
    Option(
        "body-timeout",
        duration(0),
        60_000,
        "How long a peer may take for the next 64 KiB of a body that it has begun to send, before "
        "its connection is closed; 0: for ever.",
        live=True,
    ),
    Option(
        "tcp-keepalive",
        duration(0),
        60_000,
        "How long nothing must come from a peer before the kernel asks whether it is there; it is "
        "given up after as long again without an answer. 0: never.",
        live=True,
    ),
    Option(
        "die-delay",
        duration(0),
        250,
        "How long a connection stays open after an ERROR, so that the client can read it.",
        live=True,
    ),
    Option(
        "heart-beat-send",
        duration(0),
        1_000,
        "The shortest interval at which the broker offers heart-beats; 0: none.",
        live=True,
    ),
    Option(
        "heart-beat-receive",
        duration(0),
        10_000,
        "The shortest interval at which the broker asks for heart-beats; 0: none.",
        live=True,
    ),
    Option("max-headers", count(1, 1_000_000), 1_000, "Headers in a frame.", live=True),
    Option(
        "max-header-length",
        size(64, 64 << 20),
        "10KiB",
        "Length of one header, name and value.",
        live=True,
    ),
    Option(
        "max-frame-head",
        size(1 << 10, GIB),
        "1MiB",
        "Length of command and headers of a frame together.",
        live=True,
    ),
    Option(
        "max-data-length",
        size(0, 4 * GIB),
        "100MiB",
        "Length of the body of a frame; 4GiB is the most.",
        live=True,
    ),
    Option(
        "min-large-message-size",
        size(1 << 10, 4 * GIB),
        "100KiB",
        "A longer body is large: it goes through the journal in chunks, and is never whole in "
        "memory.",
        live=True,
    ),
    Option(
        "max-early-data",
        size(1 << 10, GIB),
        "16KiB",
        "What the broker holds of a peer that has not logged in: an unfinished CONNECT, and what"
        " follows it.",
        live=True,
    ),
    Option(
        "max-subscriptions",
        count(1, 10_000_000),
        10_000,
        "Subscriptions of one connection.",
        live=True,
    ),
    Option(
        "default-persistent",
        FLAG,
        True,
        "Whether a message is persistent whose sender does not say.",
        live=True,
    ),
    Option(
        "queue-prefix",
        PREFIX,
        "/queue/",
        "Prefix of destinations that are anycast.",
        live=True,
    ),
    Option(
        "topic-prefix",
        PREFIX,
        "/topic/",
        "Prefix of destinations that are multicast.",
        live=True,
    ),
    Option(
        "hosts",
        TEXTS,
        [],
        "Virtual host names that clients may ask for; empty: any.",
        live=True,
    ),
)
