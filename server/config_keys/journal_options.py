"""The table of the configuration keys of [journal]: how history is written, kept and found.

Part of `server.config_keys.options`, which explains such tables.
"""

from typing import Final

from daybook.journal.blocks.format import DEVICE_BLOCKS
from daybook.server.config_keys.kinds import (
    FLAG,
    GIB,
    PATH_OR_EMPTY,
    TEXTS,
    duration,
    size,
    size_of,
    text,
)
from daybook.server.config_keys.option import Option

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
        "device-block-size",
        size_of(*DEVICE_BLOCKS),
        "0",
        "The bytes that a write interrupted by a power cut may damage beside its own, on the "
        "disk of the journal. 0: none, as disks with power-loss protection promise; 512 or "
        "4096: the rest of a device block, so that blocks are padded to end with one.",
    ),
    Option(
        "retention-max-age",
        duration(0),
        0,
        "Age of the newest event of a segment after which it leaves the live set; 0: never. "
        "Messages still queued in it are carried forward first.",
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
        "The destination of segments that leave the live set: a directory or a URL like "
        "s3://bucket/path;"
        " empty: they are deleted. It must lie apart from the data directory.",
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
        "signing-key",
        PATH_OR_EMPTY,
        "",
        "File of the private key (Ed25519, PEM; `journal keygen` makes one) by which history is"
        " signed at each checkpoint and at a clean end; empty: it is not. It must lie outside of"
        " the data directory. SIGHUP reads it again: the old key signs the change to a new one.",
        live=True,
    ),
    Option(
        "anchors",
        TEXTS,
        [],
        'Where signed statements are kept besides the journal: "file:/PATH" (appended), "log" (a'
        ' line of the log), "https://HOST/PATH" (a POST of JSON). They need signing-key.',
        live=True,
    ),
    Option(
        "snapshot-every",
        size(0, 1024 * GIB),
        "64MiB",
        "Bytes of journal between two snapshots of the state, from which `journal inspect --at` "
        "and others begin; 0: no snapshots. An event counts as 24 bytes at least. Together they"
        " take at most a fifth of the bytes that are counted.",
        live=True,
    ),
    Option(
        "archive-snapshot-every",
        size(0, 1024 * GIB),
        "64MiB",
        "How many bytes of archived segments have one snapshot beside them, from which questions"
        " about archived moments begin; 0: none are archived. Together they take at most a tenth of"
        " the archive.",
        live=True,
    ),
    Option(
        "catalogs",
        FLAG,
        True,
        "Whether the indexer makes catalogs when it has time, by which `journal trail` and"
        " `inspect` find a message at once; without them they search the journal. A catalog takes a"
        " hundredth to a tenth of its segment: headers and bodies take most of it.",
        live=True,
    ),
    Option(
        "catalog-headers",
        text("names of headers with commas between them, or *", r"[^\x00-\x1f\x7f]*"),
        "*",
        "The headers by whose values messages are found: their names, with commas between them, *"
        " for all, or none. A header whose values are all different takes 4 bytes a message; all"
        " headers together take at most a tenth of the journal.",
        live=True,
    ),
    Option(
        "idle-mark-delay",
        duration(1),
        200,
        "How long the journal must be idle before a mark is appended, which proves the last "
        "block whole.",
    ),
)
