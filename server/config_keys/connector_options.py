"""The tables of keys of [[connector]], [[auto-link]], [[sharded-queue]] and [[link-route]]:
connections that the broker opens, and links that it attaches by itself, or passes on.

See `server.config_keys.options` for the tables of everything else. Must never know a single
protocol.
"""

from typing import Final

from daybook.engine.facts.definitions import BY_LOAD, PHASE_MAX, SHARDINGS
from daybook.protocols.registry import OFFERS
from daybook.server.config_keys.acceptor_config import VERSIONS
from daybook.server.config_keys.kinds import (
    ADDRESS,
    FLAG,
    NAME,
    PATH_OR_EMPTY,
    TEXTS,
    URL,
    choice,
    count,
    duration,
    kind_within,
    text,
)
from daybook.server.config_keys.option import Option

EXTERNAL: Final = "EXTERNAL"
SCRAM: Final = "SCRAM-SHA-256"
PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
MECHANISMS: Final = (EXTERNAL, SCRAM, PLAIN, ANONYMOUS)
"""The logins of the broker at others, by SASL."""
WITH_PASSCODE: Final = frozenset((SCRAM, PLAIN))

OUT: Final = "out"
IN: Final = "in"
BY_DIRECTION: Final = -1
"""A phase that the direction says."""

DIALLED: Final = tuple(scheme for scheme, offer in OFFERS.items() if offer.dialled)
"""The protocols by which the broker opens connections."""

_TEXT: Final = r"[^\x00-\x1f\x7f]{0,4096}"

_TLS: Final = (
    Option(
        "trusted-certificates",
        PATH_OR_EMPTY,
        "",
        "File of the authorities whose certificates the peer may show, in PEM format; empty: those"
        " of this machine.",
        live=True,
    ),
    Option(
        "certificate",
        PATH_OR_EMPTY,
        "",
        "File of the certificate that the broker shows, and of those between it and the root, in"
        " PEM format; empty: it shows none.",
        live=True,
    ),
    Option(
        "private-key",
        PATH_OR_EMPTY,
        "",
        "File of the private key, in PEM format, without a passphrase; empty: it is in the file of"
        " the certificate.",
        live=True,
    ),
    Option(
        "verify-host-name",
        FLAG,
        True,
        "Whether the certificate of the peer must be for the host of the URL, or for host-name.",
        live=True,
    ),
    Option(
        "tls-min-version",
        choice(*VERSIONS),
        "1.2",
        "The oldest version of TLS that the peer may speak.",
        live=True,
    ),
)

TABLE: Final[tuple[Option, ...]] = (
    Option(
        "name",
        NAME,
        None,
        "The connector; a reload knows it by its name, and auto-links name it.",
        live=True,
    ),
    Option(
        "url",
        URL,
        None,
        "Where the peer listens: `amqp://HOST:PORT`, or `amqps://HOST:PORT` with TLS. Without a"
        " port: 5672 or 5671. All addresses of the host are tried.",
        live=True,
        is_secret=True,
    ),
    Option(
        "cost",
        count(1, 1_000_000),
        1,
        "How far away the peer is, for addresses whose distribution is closest.",
        live=True,
    ),
    Option(
        "host-name",
        text("the name of a host", r"[^\s\x00-\x1f\x7f/@]*"),
        "",
        "The name by which the peer knows itself, in TLS and in the protocol; empty: the host of"
        " the URL.",
        live=True,
    ),
    Option(
        "container",
        text("a name", _TEXT),
        "",
        "The id of this broker to the peer; empty: `name` of the broker.",
        live=True,
    ),
    Option(
        "login",
        text("a login", _TEXT),
        "",
        "The login of the broker at the peer; empty: it has none.",
        live=True,
    ),
    Option(
        "passcode-file",
        PATH_OR_EMPTY,
        "",
        "File whose first line is the passcode. It is read for each login.",
        live=True,
    ),
    Option(
        "passcode",
        text("a passcode", _TEXT),
        "",
        "The passcode itself; a file keeps it better.",
        live=True,
        is_secret=True,
    ),
    Option(
        "mechanisms",
        TEXTS,
        [],
        "The mechanisms of SASL that the broker uses, the best one first: EXTERNAL, SCRAM-SHA-256,"
        " PLAIN, ANONYMOUS. Empty: those for which it has what they need, and PLAIN only with TLS"
        " or to this machine.",
        live=True,
    ),
    Option(
        "user",
        text("the login of a user", _TEXT),
        "",
        "The user of this broker whose rights the peer has on the connection; empty: it may attach"
        " no links.",
        live=True,
    ),
    Option(
        "virtual-host",
        text("the name of a [[virtual-host]]", r"\S*"),
        "",
        "The virtual host of its auto-links and of links of the peer; empty: the default one.",
        live=True,
    ),
    Option(
        "reconnect-delay",
        duration(1),
        1_000,
        "How long the broker waits after a failure until it tries again; it doubles with each"
        " further one.",
        live=True,
    ),
    Option(
        "reconnect-delay-max",
        duration(1),
        30_000,
        "The longest of these delays. Each is cut by up to a half, by chance.",
        live=True,
    ),
    Option(
        "connect-timeout",
        duration(1),
        10_000,
        "How long it may take until the connection is open: address, socket, TLS, login and open"
        " together.",
        live=True,
    ),
    Option(
        "tcp-keepalive",
        duration(0),
        60_000,
        "How long the peer must be silent before the kernel probes it. 0: never.",
        live=True,
    ),
    *_TLS,
)
"""The keys of every connector."""

OF_PROTOCOLS: Final[dict[str, tuple[Option, ...]]] = {
    scheme: tuple(
        Option(each.name, kind_within(each.range), each.default, each.doc, live=True)
        for each in OFFERS[scheme].dialled
    )
    for scheme in DIALLED
}
"""The further keys of connectors, by protocol."""

CONNECTOR: Final[tuple[Option, ...]] = tuple(
    {option.name: option for table in (TABLE, *OF_PROTOCOLS.values()) for option in table}.values()
)
"""Every key that a connector of any protocol may have."""

_ON_HOST: Final = Option(
    "virtual-host",
    text("the name of a [[virtual-host]]", r"\S*"),
    "",
    "The virtual host that the address is on; empty: that of its connector, or the default one.",
    live=True,
)

AUTO_LINK: Final = (
    Option("address", ADDRESS, None, "The address here.", live=True),
    Option(
        "direction",
        choice(OUT, IN),
        None,
        "out: messages of the address go to the peer; in: messages of the peer go to the address.",
        live=True,
    ),
    Option(
        "connector",
        text("the name of a [[connector]]", r"\S*"),
        "",
        "The connector on whose connection the link is; or `container`.",
        live=True,
    ),
    Option(
        "container",
        text("the id of a container", _TEXT),
        "",
        "The link is on each connection that a peer with this container id opens, to an acceptor"
        ' with `role = "container"`.',
        live=True,
    ),
    Option(
        "external-address",
        text("an address", _TEXT),
        "",
        "The address there; empty: the same as here.",
        live=True,
    ),
    Option(
        "phase",
        count(BY_DIRECTION, PHASE_MAX),
        BY_DIRECTION,
        "The phase of the address at which the link takes messages (out) or brings them (in);"
        " -1: 0 out, 1 in, 0 with `fallback`.",
        live=True,
    ),
    Option(
        "fallback",
        FLAG,
        False,
        "Whether the link is used only while nobody else receives; the address needs"
        " `enable-fallback`.",
        live=True,
    ),
    Option(
        "name",
        text("a name without spaces", r"[^\s\x00-\x1f\x7f]*"),
        "",
        "Its name in lists; empty: made of address, direction, and connector or container.",
        live=True,
    ),
    _ON_HOST,
)

SHARDED_QUEUE: Final = (
    Option("name", ADDRESS, None, "The queue, and its address.", live=True),
    Option(
        "connectors",
        TEXTS,
        None,
        "The connectors to the brokers that have the other shards.",
        live=True,
    ),
    Option(
        "local",
        FLAG,
        True,
        "Whether the queue of this name on this broker is a shard, too.",
        live=True,
    ),
    Option(
        "shard-by",
        choice(*SHARDINGS),
        BY_LOAD,
        "load: a message goes to the shard with the fewest messages that it has not confirmed;"
        " group: those of a group (`JMSXGroupID`) go to one shard, as long as it is there.",
        live=True,
    ),
    Option(
        "external-address",
        text("an address", _TEXT),
        "",
        "The address of the shards there; empty: NAME::NAME, which is the queue behind the address"
        " of another Daybook.",
        live=True,
    ),
    Option(
        "virtual-host",
        text("the name of a [[virtual-host]]", r"\S*"),
        "",
        "The virtual host that it is on; empty: that of its connectors.",
        live=True,
    ),
)

LINK_ROUTE: Final = (
    Option(
        "prefix",
        text("the beginning of an address", _TEXT),
        "",
        "Addresses that begin with these words; or `pattern`.",
        live=True,
    ),
    Option(
        "pattern",
        text("a pattern of addresses", _TEXT),
        "",
        "Addresses that match: `*` stands for one word, `#` for any number.",
        live=True,
    ),
    Option(
        "direction",
        choice(IN, OUT),
        None,
        "in: links by which a client sends; out: links by which it receives.",
        live=True,
    ),
    Option(
        "connector",
        text("the name of a [[connector]]", r"\S*"),
        "",
        "The connector whose peer gets the links; or `container`.",
        live=True,
    ),
    Option(
        "container",
        text("the id of a container", _TEXT),
        "",
        "Peers with this container id get the links, if they connect to an acceptor with"
        ' `role = "container"`.',
        live=True,
    ),
    Option(
        "add-external-prefix",
        text("the beginning of an address", _TEXT),
        "",
        "Put before the address on the way to the peer.",
        live=True,
    ),
    Option(
        "remove-external-prefix",
        text("the beginning of an address", _TEXT),
        "",
        "Taken off the address, before the other one is put there.",
        live=True,
    ),
)
