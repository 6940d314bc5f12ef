"""Manifests: the small JSON object beside each archived segment that describes it.

docs/journal-format.md describes the fields for authors of other readers. Must never know: where
archives are, what time it is.
"""

from typing import Final

import msgspec

from daybook.journal.blocks.format import DATA_ID_BYTES, FIRST_LSN, HASH_BYTES, Damage, segment_name
from daybook.journal.segments.segment import Segment

MANIFEST_FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 1 << 16
SHA256_BYTES: Final = 32


class ArchiveEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An archived segment, as its manifest describes it.

    Hashes and ids are hexadecimal; times are microseconds since 1970 UTC. `previous_hash` is that
    of the last block of the segment before, `last_hash` that of the last block of this one;
    `sha256` is that of the whole file, which has `bytes` bytes. `time_min` and `time_max` are those
    of its events. `archived_by` is the id of the data directory that archived it, if that is a fork
    and the segment is older than the fork; else empty.
    """

    format: int
    segment: str
    first_lsn: int
    last_lsn: int
    bytes: int
    sha256: str
    data_id: str
    previous_hash: str
    last_hash: str
    time_min: int
    time_max: int
    archived_at: int
    archived_by: str = ""

    @property
    def owner(self) -> str:
        """The id of the data directory whose archive this is."""
        return self.archived_by or self.data_id

    def as_of(self, archived_at: int) -> "ArchiveEntry":
        """Return a copy with another time of archiving, for comparisons."""
        return msgspec.structs.replace(self, archived_at=archived_at)


def describe(
    segment: Segment, *, sha256: str, archived_at: int, owner: bytes = b""
) -> ArchiveEntry:
    """Return the manifest of a sealed segment; raises Damage if it has no sound footer.

    `owner` is the id of the data directory that archives it, if that may be another than its own.
    """
    footer = segment.footer()
    header = segment.header
    data = [entry for entry in footer.entries() if entry.event_count]
    if not data or footer.last_lsn < header.first_lsn:
        raise Damage("the segment has no events")
    return ArchiveEntry(
        format=MANIFEST_FORMAT,
        segment=segment.name,
        first_lsn=header.first_lsn,
        last_lsn=footer.last_lsn,
        bytes=segment.file.size(),
        sha256=sha256,
        data_id=header.data_id.hex(),
        previous_hash=header.previous_hash.hex(),
        last_hash=footer.last_hash.hex(),
        time_min=min(entry.time_min for entry in data),
        time_max=max(entry.time_max for entry in data),
        archived_at=archived_at,
        archived_by="" if owner in (b"", header.data_id) else owner.hex(),
    )


def encode_manifest(entry: ArchiveEntry) -> bytes:
    """Encode the manifest as it is stored: JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n"


def decode_manifest(packed: bytes, segment: str) -> ArchiveEntry:
    """Decode the manifest of this segment; the ValueError for an invalid one says why."""
    try:
        entry = msgspec.json.decode(packed, type=ArchiveEntry)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is not a manifest of a segment: {error}") from error
    if entry.format != MANIFEST_FORMAT:
        raise ValueError(
            f"it has manifest format {entry.format}, this release reads {MANIFEST_FORMAT}: "
            "use the release that wrote it, or a later one"
        )
    for what, text, count in (
        ("sha256", entry.sha256, SHA256_BYTES),
        ("data_id", entry.data_id, DATA_ID_BYTES),
        ("archived_by", entry.archived_by, DATA_ID_BYTES),
        ("previous_hash", entry.previous_hash, HASH_BYTES),
        ("last_hash", entry.last_hash, HASH_BYTES),
    ):
        if what == "archived_by" and not text:
            continue
        if len(text) != 2 * count or set(text) - set("0123456789abcdef"):
            raise ValueError(f"its {what} is not {2 * count} hexadecimal digits")
    if not FIRST_LSN <= entry.first_lsn <= entry.last_lsn or entry.bytes <= 0:
        raise ValueError("its LSNs or its size in bytes are impossible")
    if entry.segment != segment or segment_name(entry.first_lsn) != segment:
        raise ValueError(f"it describes segment {entry.segment}, LSN {entry.first_lsn}")
    return entry
