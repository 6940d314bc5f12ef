"""The tables of keys of an [[acceptor]]: name, type, default, and meaning of each.

Some belong to every acceptor, the others to its protocol, which describes them itself. See
`server.config_keys.options` for the tables of everything else.
"""

from collections.abc import Sequence
from typing import Final

from daybook.protocols.port import Offer
from daybook.protocols.registry import DEFAULT, OFFERS
from daybook.server.config_keys.acceptor_config import (
    NONE,
    NORMAL,
    OPTIONAL,
    REQUIRED,
    ROLES,
    SOURCES,
    VERSIONS,
)
from daybook.server.config_keys.kinds import (
    FLAG,
    LISTEN,
    PATH_OR_EMPTY,
    TEXTS,
    choice,
    choices,
    count,
    duration,
    kind_within,
    size,
    text,
)
from daybook.server.config_keys.option import Option

TLS: Final = (
    Option("tls", FLAG, False, "Whether clients must speak TLS here, as with `stomps://`."),
    Option(
        "certificate",
        PATH_OR_EMPTY,
        "",
        "File of the certificate and those of the authorities between it and the root, in PEM"
        " format. A reload reads it again, also if only its content has changed.",
        live=True,
    ),
    Option(
        "key",
        PATH_OR_EMPTY,
        "",
        "File of the private key, in PEM format, without a passphrase; empty: it is in the file"
        " of the certificate.",
        live=True,
    ),
    Option(
        "tls-min-version",
        choice(*VERSIONS),
        "1.2",
        "The oldest version of TLS that clients may speak.",
        live=True,
    ),
    Option(
        "ciphers",
        text("a list of ciphers as OpenSSL writes it", r"[\x21-\x7e]*"),
        "",
        "Ciphers for TLS 1.2, as `openssl ciphers` takes them; empty: those that Python deems"
        " secure. Those of TLS 1.3 are all secure.",
        live=True,
    ),
    Option(
        "client-certificates",
        choice(NONE, OPTIONAL, REQUIRED),
        NONE,
        "Whether clients are asked for certificates, and whether those without one are refused.",
        live=True,
    ),
    Option(
        "client-ca",
        PATH_OR_EMPTY,
        "",
        "File of the authorities whose certificates clients may show, in PEM format.",
        live=True,
    ),
    Option(
        "certificate-login",
        choice(*SOURCES),
        NONE,
        "The part of a client's certificate that is its login, so that it needs no passcode: "
        "the common name of the subject, or the first alternative name of a kind that "
        "certificate-pattern"
        " matches. The login must be that of a user.",
        live=True,
    ),
    Option(
        "certificate-pattern",
        text("a regular expression", r"[^\x00]{0,1000}"),
        "",
        "Regular expression for the whole name; its group is the login, or without a group the"
        " whole name is. Names that do not match give no login. Empty: any name.",
        live=True,
    ),
    Option(
        "allow-cleartext",
        FLAG,
        False,
        "Whether the acceptor may listen where other machines reach it, without TLS.",
    ),
)
"""The options of every acceptor for TLS."""


WEBSOCKET: Final = (
    Option(
        "websocket",
        FLAG,
        True,
        "Whether the protocol is spoken over WebSocket too, at the same port.",
        live=True,
    ),
    Option(
        "websocket-path",
        text('a path, like "/stomp"', r"(/[\x21-\x3e\x40-\x7e]*)?"),
        "",
        "The path that clients of WebSocket must ask for; empty: any.",
        live=True,
    ),
    Option(
        "websocket-origins",
        TEXTS,
        [],
        "Origins of web pages that may connect, like `https://shop.example.org`; `*`: any. "
        "Clients other than browsers give no origin and may always connect.",
        live=True,
    ),
    Option(
        "websocket-max-frame",
        size(1 << 10, 1 << 30),
        "1MiB",
        "Length of one frame of WebSocket, which is in memory as a whole; messages may have many.",
        live=True,
    ),
)
"""The options of acceptors whose protocol can use WebSocket."""


TOLD_APART: Final = tuple(scheme for scheme, offer in OFFERS.items() if offer.beginnings)
"""The protocols that can share an acceptor."""


def common_options(offer: Offer) -> tuple[Option, ...]:
    """The keys that every acceptor has, with the defaults of a protocol."""
    return (
        Option(
            "name",
            text('a name without spaces, like "stomp"', r"[^\s\x00-\x1f\x7f]*"),
            "",
            "Its name in logs; empty: the protocol, with a number from the second on. A "
            "reload knows an acceptor by its name.",
        ),
        Option("protocol", choice(*OFFERS), DEFAULT.scheme, "The protocol that it speaks."),
        Option(
            "protocols",
            choices(*TOLD_APART),
            [DEFAULT.scheme],
            "The protocols that it speaks, instead of `protocol`: the first bytes of a client, or"
            " its sub-protocol of WebSocket, say which one. The first in the list answers clients"
            " that say nothing, or speak none of them.",
        ),
        Option(
            "listen",
            LISTEN,
            offer.listen,
            "Host and port, `[IPV6]:PORT` for IPv6. Port 0 lets the system choose one.",
        ),
        Option(
            "max-connections",
            count(1, 1_000_000),
            offer.connections,
            "Connections to this acceptor; more are refused."
            if offer.messaging
            else "Connections to this acceptor, which `max-connections` of the broker does not"
            " count; one more closes the oldest.",
            live=True,
        ),
        Option(
            "tcp-keepalive",
            duration(0),
            60_000,
            "How long a peer must be silent before the kernel probes it; it is disconnected "
            "after as long again without an answer. 0: never.",
            live=True,
        ),
        Option(
            "role",
            choice(*ROLES),
            NORMAL,
            "container: brokers and routers connect here; auto-links whose `container` is their id"
            " are attached to them.",
            live=True,
        ),
        *TLS,
    )


def protocol_options(offer: Offer) -> tuple[Option, ...]:
    """The keys that belong to a protocol; they are in force for connections to come."""
    return tuple(
        Option(each.name, kind_within(each.range), each.default, each.doc, live=True)
        for each in offer.options
    ) + (WEBSOCKET if offer.subprotocols else ())


TABLES: Final[dict[str, tuple[Option, ...]]] = {
    scheme: common_options(offer) + protocol_options(offer) for scheme, offer in OFFERS.items()
}
"""All keys of an acceptor, by its protocol."""


def table_of(protocols: Sequence[str]) -> tuple[Option, ...]:
    """Return the keys of an acceptor with these protocols; the first says the defaults."""
    tables = [TABLES[each] for each in reversed(protocols)]
    return tuple({option.name: option for table in tables for option in table}.values())


ANY: Final[tuple[Option, ...]] = table_of(tuple(TABLES))
"""Every key that an acceptor of any protocol may have."""

COMMON: Final[frozenset[str]] = frozenset(option.name for option in common_options(DEFAULT))
"""The names of the keys that every acceptor has."""
