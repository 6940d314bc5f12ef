"""The tables of configuration keys: section, name, type, default, and meaning of each.

The loader, `--set`, reload and docs/configuration.md are all derived from or checked against these
tables. Address settings have a table of their own in `engine.settings.settings`. This module must
never know where a value was written, and does no I/O.
"""

from typing import Final

from daybook.engine.facts.definitions import (
    ANYCAST,
    BALANCED,
    DISTRIBUTIONS,
    DIVERT_ATTRIBUTES,
    MULTICAST,
    QUEUE_ATTRIBUTES,
    STORED,
    Attribute,
)
from daybook.engine.settings.distributions import PRIORITY_MAX
from daybook.engine.settings.permissions import PERMISSIONS
from daybook.engine.settings.setting_keys import BLOCK, DROP, FAIL
from daybook.server.config_keys.acceptor_options import ANY
from daybook.server.config_keys.connector_options import (
    AUTO_LINK,
    CONNECTOR,
    LINK_ROUTE,
    SHARDED_QUEUE,
)
from daybook.server.config_keys.journal_options import JOURNAL
from daybook.server.config_keys.kinds import (
    ADDRESS,
    ADDRESS_OR_EMPTY,
    CHARACTER,
    FLAG,
    GIB,
    NAME,
    PATH,
    PATH_OR_EMPTY,
    TEXTS,
    choice,
    choices,
    count,
    duration,
    kind_of,
    one_of,
    part_or_size,
    size,
    text,
)
from daybook.server.config_keys.option import Option
from daybook.server.config_keys.replication_options import REPLICATION, REPLICATION_NODE

STOP: Final = "STOP"
DISK_FULL_POLICIES: Final = (BLOCK, FAIL, DROP)
_OFF: Final = (
    'every decision is journaled: write "decisions", which journals neither headers nor body'
)

BROKER_NAME: Final = "daybook"
"""The name of a broker that got none."""
BROKER: Final = (
    Option(
        "name",
        NAME,
        BROKER_NAME,
        "The name of the broker to clients, in its console and in logs, and its container id in"
        " AMQP.",
    ),
    Option(
        "data-directory",
        PATH,
        "./data",
        "Folder of the journal and all else that must last; relative to the folder that "
        "the broker is started in.",
    ),
    Option(
        "processes",
        one_of(1, 3),
        3,
        "3: the journal is written and indexed by processes of their own. 1: by threads of the"
        " broker, for a container with one core or little memory.",
    ),
    Option(
        "users-file",
        PATH_OR_EMPTY,
        "",
        "File of users and their hashed passcodes; empty: `users.toml` in the data "
        "directory. Its contents are read again on a reload.",
    ),
    Option(
        "allow-guest",
        FLAG,
        False,
        "Whether guest with the passcode guest is let in from this machine although there is a "
        "users file; where there is none, it always is.",
        live=True,
    ),
    Option(
        "populate-validated-user",
        FLAG,
        False,
        "Whether each message carries the login of its sender as `_AMQ_VALIDATED_USER`, for"
        " connections to come. A header of that name from a client is removed in any case.",
        live=True,
    ),
    Option(
        "persist-delivery-count-before-delivery",
        FLAG,
        True,
        "Whether a message leaves only when the event of its delivery is on disk, so that "
        "counts survive a crash exactly; else when its routing is.",
    ),
    Option(
        "journal-non-persistent",
        choice("decisions", "full", former={"off": _OFF}),
        "decisions",
        "The journaled parts of non-persistent messages: decisions only, or also headers and "
        "body. Large messages are always journaled whole.",
        live=True,
    ),
    Option(
        "journal-direct",
        choice("decisions", "content", "off"),
        "decisions",
        "The journaled parts of messages to direct addresses: who got each and what became of it,"
        " also headers and body, or nothing. Large messages are always journaled.",
    ),
    Option(
        "persist-id-cache",
        FLAG,
        True,
        "Whether the ids of messages that addresses remember (see `id-cache-size`) are journaled;"
        " else they are in memory only, and forgotten at a restart.",
        live=True,
    ),
    Option(
        "spaces-in-names",
        FLAG,
        True,
        "Whether names of new addresses and queues may have spaces. Names that exist stay.",
        live=True,
    ),
    Option(
        "default-distribution",
        choice(*DISTRIBUTIONS),
        STORED,
        "What becomes of messages to an address that no prefix or pattern of an `[[address]]`"
        " matches; values as of its key `distribution`.",
        live=True,
    ),
    Option(
        "message-expiry-scan-period",
        duration(-1),
        30_000,
        "How often the broker looks for expired messages in queues without consumers; 0 or "
        "less: never.",
        live=True,
    ),
    Option(
        "address-queue-scan-period",
        duration(-1),
        30_000,
        "How often the broker looks for unused queues and addresses to delete "
        "(auto-delete-queues, auto-delete-addresses); 0 or less: never.",
        live=True,
    ),
    Option(
        "max-connections",
        count(1, 1_000_000),
        10_000,
        "Connections to all acceptors together, or as many as the limit of open files leaves"
        " room for; more are refused.",
        live=True,
    ),
    Option(
        "max-connections-per-address",
        count(-1, 1_000_000),
        -1,
        "Connections from one address of peers (IPv6: from one /64 network); more are refused; 0 or"
        " less: no limit.",
        live=True,
    ),
    Option(
        "max-pending-logins",
        count(1, 1_000_000),
        1_000,
        "Connections that have not sent CONNECT; when there is one more, the oldest is closed."
        " Also how many logins may wait for their passcodes to be checked; more are refused.",
        live=True,
    ),
    Option(
        "max-pending-logins-per-address",
        count(1, 1_000_000),
        250,
        "The same for one address of peers (IPv6: for one /64 network).",
        live=True,
    ),
    Option(
        "max-transaction-bytes",
        size(1, 64 * GIB),
        "100MiB",
        "Headers and bodies that one open transaction may hold.",
        live=True,
    ),
    Option(
        "max-transaction-entries",
        count(1, 100_000_000),
        1_000,
        "Messages that one transaction may send or settle, a message to a topic again for each 16"
        " subscriptions: a commit is carried out in one go, and all others wait for so long.",
        live=True,
    ),
    Option(
        "max-transactions-memory",
        size(0, 1024 * GIB),
        "0",
        "Memory that all open transactions may take together; above, those of the connection that"
        " holds the most are rolled back, and its commits refused. 0: a quarter of `max-memory`.",
        live=True,
    ),
    Option(
        "max-open-transactions",
        count(1, 1_000_000),
        1_000,
        "Transactions that a connection may have open.",
        live=True,
    ),
    Option(
        "transaction-timeout",
        duration(0),
        300_000,
        "How long a transaction may stay open before it is rolled back; 0: no limit.",
        live=True,
    ),
    Option(
        "transaction-timeout-scan-period",
        duration(100),
        1_000,
        "How often it is looked for transactions that are open for too long.",
        live=True,
    ),
    Option(
        "max-memory",
        part_or_size(0, 1024 * GIB),
        "50%",
        "Memory that all clients together may make the broker use, by its own count: a size, or "
        "a part of the memory of the machine, or of its control group (container) if that is "
        "less. Each"
        " kind gets a quarter: deliveries on their way, deliveries in flight, transactions, queues"
        " and subscriptions. At the limit producers are blocked. 0: no limit.",
        live=True,
    ),
    Option(
        "max-memory-per-user",
        part_or_size(0, 1024 * GIB),
        "25%",
        "Memory that one user may hold of all kinds together: a size, or a part of `max-memory`."
        " It may hold half of each kind. The connections of a user with more"
        " get little at a time and make nothing new; if that does not help within seconds, its"
        " largest are closed. 0: no limit beside the halves.",
        live=True,
    ),
    Option(
        "stalled-timeout",
        duration(0),
        30_000,
        "How long a connection that holds much memory may go without reading or settling while "
        "the broker is short of memory, before it is disconnected; 0: no limit.",
        live=True,
    ),
    Option(
        "max-unacknowledged-bytes",
        size(0, 64 * GIB),
        "64MiB",
        "Deliveries of a connection that may wait for their acknowledgement, headers and bodies"
        " and 640 bytes for each; it gets nothing more until a quarter of that was settled. 0: no"
        " limit.",
        live=True,
    ),
    Option(
        "max-connections-per-user",
        count(-1, 1_000_000),
        -1,
        "Connections that a user may have; more are refused. -1: half of `max-connections`; 0: no"
        " limit.",
        live=True,
    ),
    Option(
        "max-queues-per-user",
        count(0, 100_000_000),
        10_000,
        "Queues that a user may make by using them, durable subscriptions included; those of the"
        " configuration and of administrators do not count. 0: no limit.",
        live=True,
    ),
    Option(
        "global-max-size",
        size(-1, 1024 * GIB),
        "64MiB",
        "Size of all addresses that do not page at which the broker is full: the largest then page,"
        " others do what their address-full-policy says; 0 or less: no limit. It is never more than"
        " a quarter of `max-memory`. Artemis takes half of its heap.",
        live=True,
    ),
    Option(
        "global-max-messages",
        count(-1, 1 << 53),
        -1,
        "The same as a number of messages; 0 or less: no limit.",
        live=True,
    ),
    Option(
        "max-disk-usage",
        count(-1, 100),
        -1,
        "Percentage of the disk in use above which it counts as full; -1: no limit. Artemis has 90,"
        " which on a big disk is far from full. min-disk-free goes first.",
        live=True,
    ),
    Option(
        "min-disk-free",
        size(-1, 1024 * GIB),
        "256MiB",
        "Free space below which the disk counts as full, so that there is room for consumers to go"
        " on and for the index; -1: no limit.",
        live=True,
    ),
    Option(
        "disk-scan-period",
        duration(100),
        5_000,
        "How often the space on the disk is looked at.",
        live=True,
    ),
    Option(
        "disk-full-policy",
        choice(*DISK_FULL_POLICIES),
        "BLOCK",
        "The treatment of messages when the disk is full. BLOCK: the broker stops reading from"
        " producers until there is room; FAIL: producers get an error; DROP: messages are dropped,"
        " and producers get no error. Consumers continue.",
        live=True,
    ),
    Option(
        "max-unindexed-bytes",
        size(1 << 20, 64 * GIB),
        "32MiB",
        "Events on disk that are not in the index yet, above which producers are blocked until the"
        " index has caught up. Above half of it that holds for producers to topics with 8 or more"
        " subscriptions. Consumers continue.",
        live=True,
    ),
    Option(
        "indexer-timeout",
        duration(1_000),
        60_000,
        "How long the process that writes the index may owe an answer before it is killed and"
        " another is started. It is longer than any disk that works takes for 16 MiB.",
        live=True,
    ),
    Option(
        "journal-damage-policy",
        choice(FAIL, STOP),
        FAIL,
        "The reaction to damage of the journal that is found while the broker runs. FAIL: producers"
        " get an error, consumers continue and drain the readable messages; STOP: the broker "
        "stops.",
        live=True,
    ),
    Option(
        "stop-timeout",
        duration(1_000),
        30_000,
        "How long a stop by SIGTERM or SIGINT may take, whatever hangs. Events that are not "
        "durable then are given up; none of them was confirmed to clients.",
        live=True,
    ),
)


def _of_attribute(attribute: Attribute) -> Option:
    default = attribute.default
    return Option(
        attribute.key,
        kind_of(attribute),
        list(default) if isinstance(default, tuple) else default,
        attribute.doc,
        live=True,
    )


VIRTUAL_HOST_TABLE: Final = (
    Option(
        "name",
        NAME,
        None,
        'The virtual host, before `::` in names; the first one is "default", and is for clients'
        " that name none.",
        live=True,
    ),
    Option(
        "host-names",
        TEXTS,
        [],
        "The names that clients may give in the header `host` to connect to it, besides its name.",
        live=True,
    ),
    Option(
        "max-connections",
        count(0, 10_000_000),
        0,
        "Connections of its clients; more are refused. 0: no limit.",
        live=True,
    ),
    Option(
        "max-addresses",
        count(0, 1_000_000_000),
        0,
        "Addresses; its clients create no more. 0: no limit.",
        live=True,
    ),
    Option(
        "max-queues",
        count(0, 1_000_000_000),
        0,
        "Queues, also those of subscriptions; its clients create no more. 0: no limit.",
        live=True,
    ),
    Option(
        "max-size",
        size(0, 1 << 60),
        0,
        "Bytes of messages in its queues, in memory or not; further messages are refused. 0: no"
        " limit.",
        live=True,
    ),
)

_ON_HOST: Final = Option(
    "virtual-host", text("the name of a [[virtual-host]]", r"\S*"), "",
    "The virtual host that it is on; empty: the default one.", live=True,
)  # fmt: skip

ADDRESS_TABLE: Final = (
    Option("name", ADDRESS, None, "The address.", live=True),
    Option(
        "routing-types",
        choices(ANYCAST, MULTICAST),
        ["anycast"],
        "How it feeds its queues.",
        live=True,
    ),
    _ON_HOST,
)

DISTRIBUTION_TABLE: Final = (
    Option(
        "prefix",
        ADDRESS_OR_EMPTY,
        "",
        "The address, and all that begin with it and then have `.` or `/`; or `pattern`.",
        live=True,
    ),
    Option(
        "pattern",
        ADDRESS_OR_EMPTY,
        "",
        "The addresses: `*` stands for one token between `.` or `/`, `#` for any number of them.",
        live=True,
    ),
    Option(
        "distribution",
        choice(*DISTRIBUTIONS),
        BALANCED,
        "balanced: the consumer with the fewest unsettled deliveries gets a message; closest: the"
        " nearest one does; multicast: all of them do; unavailable: nobody may use the address;"
        " stored: its queues get it.",
        live=True,
    ),
    Option(
        "priority",
        count(-1, PRIORITY_MAX),
        -1,
        "The priority of all messages to the address; -1: that of each message.",
        live=True,
    ),
    Option(
        "waypoint",
        FLAG,
        False,
        "Whether a queue of this broker stores the messages between senders and consumers.",
        live=True,
    ),
    Option(
        "enable-fallback",
        FLAG,
        False,
        "Whether the queue of that name stores messages while the address has no consumer.",
        live=True,
    ),
)

QUEUE_TABLE: Final = (
    Option(
        "name",
        ADDRESS,
        None,
        "The queue; no two queues of a broker have one name.",
        live=True,
    ),
    Option(
        "address",
        ADDRESS_OR_EMPTY,
        "",
        "The address that it is bound to; empty: the one named as the queue.",
        live=True,
    ),
    *map(_of_attribute, QUEUE_ATTRIBUTES),
    _ON_HOST,
)

DIVERT_TABLE: Final = (
    Option("name", NAME, None, "The divert; no two diverts of a broker have one name.", live=True),
    Option(
        "address",
        ADDRESS,
        None,
        "The address whose messages it takes; may have wildcards.",
        live=True,
    ),
    *map(_of_attribute, DIVERT_ATTRIBUTES),
    _ON_HOST,
)

SECURITY_TABLE: Final = (
    Option(
        "match",
        text('a match like "orders.#", or ADDRESS::QUEUE', r".+"),
        None,
        "The addresses that the rule is for, as in [[address-setting]], or exactly one queue as"
        " ADDRESS::QUEUE. The most specific rule alone applies.",
        live=True,
    ),
    *(Option(name, TEXTS, [], doc, live=True) for name, doc in PERMISSIONS.items()),
    Option(
        "virtual-host", text("the name of a [[virtual-host]]", r"\S*"), "",
        "The virtual host that the rule is for, before all rules without one; empty: all of them.",
        live=True,
    ),
)  # fmt: skip

WILDCARDS: Final = (
    Option("enabled", FLAG, True, "Whether the characters below are in force, else the defaults."),
    Option(
        "routing-enabled",
        FLAG,
        True,
        "Whether subscriptions and queues may have wildcards; if not, names with these characters"
        " are ordinary names, and only settings match by them.",
    ),
    Option("delimiter", CHARACTER, ".", "Divides names into words."),
    Option(
        "any-words",
        CHARACTER,
        "#",
        "Stands for any number of words, as the last word of a pattern.",
    ),
    Option("single-word", CHARACTER, "*", "Stands for one word."),
    Option(
        "literal-match-markers",
        text("two characters, or none", r".*"),
        "",
        "Two characters that enclose the match of an address-setting for exactly one name; with"
        ' "()" the match "(orders.#)" is that of the address called "orders.#".',
    ),
)

LOG: Final = (
    Option(
        "level",
        choice("debug", "info", "warning", "error"),
        "info",
        "The least important lines that are written.",
        live=True,
    ),
    Option(
        "format",
        choice("auto", "human", "json"),
        "auto",
        "How lines look; `auto`: `human` on a terminal, else `json`.",
    ),
)

CONSOLE_LISTEN: Final = "http://127.0.0.1:8162"
"""Where a console listens that is not told."""

CONSOLE: Final = (
    Option(
        "listen",
        text(f'where to listen, like "{CONSOLE_LISTEN}", or empty', r"\S*"),
        "",
        "Where the broker starts [a console](console.md), as http://HOST:PORT or https://HOST:PORT;"
        " empty: it starts none.",
        live=True,
    ),
    Option(
        "certificate", PATH_OR_EMPTY, "", "File of its certificate for https, in PEM format.",
        live=True,
    ),
    Option(
        "private-key", PATH_OR_EMPTY, "", "File of the private key, in PEM format.", live=True
    ),
    Option(
        "names",
        TEXTS,
        [],
        "Further names by which browsers may ask for it, such as that of a proxy in front.",
        live=True,
    ),
    Option(
        "docs",
        text("the URL of a site with this documentation, or empty", r"(https?://\S+)?"),
        "",
        "Where the site that `make docs` builds is served: problems link to their section there.",
        live=True,
    ),
    Option(
        "archive",
        text("a directory or URL, without a login", r"[^\x00-\x1f\x7f]*"),
        "",
        "The archive with which checks of the page Integrity may begin; without a login, which the"
        " environment says.",
        live=True,
    ),
    Option(
        "public-keys", TEXTS, [],
        "Files of keys by which the page Integrity can prove history, as `journal verify"
        " --public-key` takes them.",
        live=True,
    ),
    Option(
        "anchors", TEXTS, [],
        "Files of anchors by which it can prove history, as `--anchor` takes them.", live=True,
    ),
)  # fmt: skip

SECTIONS: Final[dict[str, tuple[Option, ...]]] = {
    "broker": BROKER,
    "journal": JOURNAL,
    "wildcard-addresses": WILDCARDS,
    "log": LOG,
    "console": CONSOLE,
    "replication": REPLICATION,
}
"""Written [NAME], at most once; the keys of [broker] may also stand at the top of the file. Without
[replication] there are no standbys, whatever its defaults."""

ARRAYS: Final[dict[str, tuple[Option, ...]]] = {
    "acceptor": ANY,
    "virtual-host": VIRTUAL_HOST_TABLE,
    "address": ADDRESS_TABLE,
    "queue": QUEUE_TABLE,
    "divert": DIVERT_TABLE,
    "connector": CONNECTOR,
    "auto-link": AUTO_LINK,
    "sharded-queue": SHARDED_QUEUE,
    "link-route": LINK_ROUTE,
    "security-setting": SECURITY_TABLE,
    "replication-node": REPLICATION_NODE,
}
"""Written [[NAME]], as often as needed. [[address-setting]] is one more, see
`engine.settings.settings`. The keys of an acceptor depend on its protocol, see
`server.config_keys.acceptor_options`."""
