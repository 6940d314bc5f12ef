"""The tables of configuration keys: section, name, type, default, and meaning of each.

The loader, `--set`, reload and docs/configuration.md are all derived from or checked against
these tables. Address settings have a table of their own in `engine.settings`. This module must
never know where a value was written, and does no I/O.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from engine.commands import ANYCAST, MULTICAST
from engine.settings import BLOCK, DROP, FAIL
from server.kinds import (
    ADDRESS,
    ADDRESS_OR_EMPTY,
    FLAG,
    GIB,
    LISTEN,
    NAME,
    PATH,
    PATH_OR_EMPTY,
    PREFIX,
    TEXTS,
    Kind,
    choice,
    choices,
    count,
    duration,
    size,
    text,
)


class Option(msgspec.Struct, frozen=True):
    """A row of a table. `live` means that a reload puts a new value in force without a restart."""

    name: str
    kind: Kind
    default: str | int | bool | list[str] | None
    doc: str
    live: bool = False

    @property
    def required(self) -> bool:
        return self.default is None


def unknown(what: str, name: str, known: Sequence[str], prefix: str = "") -> str:
    """What to say of a name that does not exist: the one that was meant, or all there are."""
    close = get_close_matches(name, known, n=1)
    if close:
        hint = f"did you mean {prefix + close[0]!r}?"
    else:
        hint = f"there are {', '.join(prefix + one for one in known)}"
    return f"unknown {what} {prefix + name!r}; {hint}"


DISK_FULL_POLICIES: Final = (BLOCK, FAIL, DROP)

BROKER: Final = (
    Option("name", NAME, "daybook", "What the broker calls itself to clients and in logs."),
    Option(
        "data-directory",
        PATH,
        "./data",
        "Folder of the journal and all else that must last; relative to the folder that "
        "the broker is started in.",
    ),
    Option(
        "users-file",
        PATH_OR_EMPTY,
        "",
        "File of users and their hashed passcodes; empty: `users.toml` in the data "
        "directory. Its contents are read again on a reload.",
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
        choice("decisions", "full", "off"),
        "decisions",
        "What the journal holds of non-persistent messages: what was decided, also "
        "headers and body, or nothing.",
        live=True,
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
        "message-expiry-scan-period",
        duration(-1),
        30_000,
        "How often expired messages are looked for that nobody consumes; 0 or less: never.",
        live=True,
    ),
    Option(
        "max-connections",
        count(1, 1_000_000),
        10_000,
        "Connections to all acceptors together; more are refused.",
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
        "global-max-size",
        size(-1, 1024 * GIB),
        "64MiB",
        "Size of all addresses that do not page at which the broker is full: the largest then page,"
        " others do what their address-full-policy says; 0 or less: no limit. Artemis takes half of"
        " its heap.",
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
        "What happens to messages when the disk is full. BLOCK: nothing more is read from who sends"
        " them, until there is room; FAIL: who sends them gets an error; DROP: they are dropped,"
        " and the sender is not told. Consumers go on.",
        live=True,
    ),
    Option(
        "max-unindexed-bytes",
        size(1 << 20, 64 * GIB),
        "32MiB",
        "Events on disk that are not in the index yet, above which producers are slowed.",
        live=True,
    ),
)

JOURNAL: Final = (
    Option(
        "segment-bytes",
        size(64 << 10, 4 * GIB),
        "64MiB",
        "Size of a segment, reserved on the disk when it is begun.",
    ),
    Option(
        "block-bytes",
        size(4 << 10, 64 << 20),
        "256KiB",
        "Events collected before a block is closed, if the disk has not asked for it earlier.",
    ),
    Option(
        "max-pending-bytes",
        size(64 << 10, 4 * GIB),
        "32MiB",
        "Blocks that may wait for the disk before the broker stops to read from producers; at "
        "least `block-bytes`. Never more than half of `segment-bytes` is used, so that they fit "
        "into the segment that is reserved for consumers when the disk is full.",
    ),
    Option(
        "retention-max-age",
        duration(0),
        0,
        "Age of the newest event of a segment after which it leaves the live set; 0: never. What"
        " is still queued in it is carried forward first.",
        live=True,
    ),
    Option(
        "retention-max-bytes",
        size(0, 1024 * 1024 * GIB),
        "0",
        "Size of all segments above which the oldest leave the live set; 0: no limit.",
        live=True,
    ),
    Option(
        "retention-scan-period",
        duration(100),
        10_000,
        "How often it is looked for segments that can leave.",
        live=True,
    ),
    Option(
        "archive-directory",
        text("a directory or URL", r"[^\x00-\x1f\x7f]*"),
        "",
        "Where segments go that leave the live set: a directory or a URL like s3://bucket/path;"
        " empty: they are deleted.",
        live=True,
    ),
    Option(
        "checkpoint-period",
        duration(0),
        10_000,
        "How often the digest of the index is journaled while there is news, so that `journal"
        " verify` can compare; 0: never. The index itself is written all the time.",
        live=True,
    ),
    Option(
        "idle-mark-delay",
        duration(1),
        200,
        "How long nothing must happen before a mark is appended, which proves the last "
        "block whole.",
    ),
)

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
        "1MiB",
        "What a peer may send before it is logged in.",
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

ADDRESS_TABLE: Final = (
    Option("name", ADDRESS, None, "The address.", live=True),
    Option(
        "routing-types",
        choices(ANYCAST, MULTICAST),
        ["anycast"],
        "How it feeds its queues.",
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
    Option(
        "routing-type",
        choice(ANYCAST, MULTICAST),
        "anycast",
        "Which messages of the address it takes.",
        live=True,
    ),
    Option(
        "durable",
        FLAG,
        True,
        "Whether it and its persistent messages outlive a restart.",
        live=True,
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

SECTIONS: Final[dict[str, tuple[Option, ...]]] = {"broker": BROKER, "journal": JOURNAL, "log": LOG}
"""Written [NAME], at most once; the keys of [broker] may also stand at the top of the file."""

ARRAYS: Final[dict[str, tuple[Option, ...]]] = {
    "acceptor": ACCEPTOR,
    "address": ADDRESS_TABLE,
    "queue": QUEUE_TABLE,
}
"""Written [[NAME]], as often as needed. [[address-setting]] is one more, see `engine.settings`."""
