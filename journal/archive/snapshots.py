"""Snapshots in an archive: compressed copies of tables at an event, each with a manifest (ADR 70).

Data flow: which snapshots are due is computed from a listing; a copy is compressed into an object,
which is read back and compared; then the manifest is written. Fault model: as `archive`; an object
without a manifest does not count. Everything here is derived, and only saves time. Must never know
the meaning of the tables, or the time.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec
import zstandard

from daybook.journal.archive.manifest import MANIFEST_BYTES_MAX, SHA256_BYTES
from daybook.journal.archive.store import Store
from daybook.journal.blocks.format import (
    DATA_ID_BYTES,
    HASH_BYTES,
    manifest_name,
    segment_first_lsn,
    snapshot_lsn,
    snapshot_name,
)
from daybook.journal.data_directory import MANIFEST_SUFFIX
from daybook.journal.errors import ArchiveError

SNAPSHOT_FORMAT: Final = 1
SHARE: Final = 10
"""So many bytes of segments are archived for each byte of a snapshot: all take a tenth at most."""
LEVEL: Final = 3


class SnapshotEntry(msgspec.Struct, frozen=True):
    """An archived snapshot, as its manifest describes it.

    `lsn` is the last event of the tables, and `block_hash` is that of the block that ends there.
    `bytes` and `sha256` are those of the object, `tables_bytes` and `tables_sha256` those of the
    tables in it. `archived_at` is microseconds since 1970 UTC.
    """

    format: int
    snapshot: str
    lsn: int
    bytes: int
    sha256: str
    tables_bytes: int
    tables_sha256: str
    data_id: str
    block_hash: str
    archived_at: int


def encode_entry(entry: SnapshotEntry) -> bytes:
    """Encode the manifest as it is stored: JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n"


def decode_entry(packed: bytes, lsn: int) -> SnapshotEntry:
    """Decode the manifest of the snapshot at an event; the ValueError for an invalid one says
    why."""
    try:
        if len(packed) > MANIFEST_BYTES_MAX:
            raise ValueError("it is too large")
        entry = msgspec.json.decode(packed, type=SnapshotEntry)
    except ValueError as error:
        raise ValueError(f"its manifest cannot be read: {error}") from error
    if entry.format != SNAPSHOT_FORMAT:
        raise ValueError(
            f"its manifest has format {entry.format}, this release reads {SNAPSHOT_FORMAT}"
        )
    for what, text, count in (
        ("sha256", entry.sha256, SHA256_BYTES),
        ("tables_sha256", entry.tables_sha256, SHA256_BYTES),
        ("data_id", entry.data_id, DATA_ID_BYTES),
        ("block_hash", entry.block_hash, HASH_BYTES),
    ):
        if len(text) != 2 * count or set(text) - set("0123456789abcdef"):
            raise ValueError(f"{what} in its manifest is not {2 * count} hexadecimal digits")
    if entry.lsn != lsn or entry.snapshot != snapshot_name(lsn):
        raise ValueError(f"its manifest describes the snapshot at event {entry.lsn}")
    if entry.bytes <= 0 or entry.tables_bytes <= 0:
        raise ValueError("the sizes in its manifest are impossible")
    return entry


def snapshots_in(names: Iterable[str]) -> list[int]:
    """Return the events of the snapshots among these names that have a manifest, newest first."""
    there = set(names)
    found = ((name, snapshot_lsn(name)) for name in there)
    return sorted(
        (lsn for name, lsn in found if lsn and manifest_name(name) in there), reverse=True
    )


def missing_objects(names: Iterable[str]) -> list[int]:
    """Return the events of the snapshots of which these names have only the manifest."""
    there = set(names)
    objects = (name.removesuffix(MANIFEST_SUFFIX) for name in there)
    return sorted(snapshot_lsn(name) or 0 for name in objects if _is_missing(name, there))


def _is_missing(name: str, there: set[str]) -> bool:
    return snapshot_lsn(name) is not None and name not in there


def due(
    taken: Sequence[tuple[int, int]], known: Iterable[int], segments: Mapping[int, int], every: int
) -> list[int]:
    """Return the events of the snapshots to archive, oldest first.

    `taken` has the event and the size of each that could be, `known` the events of those that are
    archived, `segments` the size of each archived segment by its first event. An archive is
    divided into stretches of `every` bytes, or more for large snapshots; one is due in each stretch
    that has none.
    """
    firsts = sorted(segments)
    ends = [0, *accumulate(segments[first] for first in firsts)]

    def stretch(lsn: int, width: int) -> int:
        return ends[bisect_right(firsts, lsn)] // width

    archived = sorted(known)
    found = []
    for lsn, size in sorted(taken):
        width = max(every, SHARE * size)
        place = bisect_left(archived, lsn)
        neighbours = archived[max(place - 1, 0) : place + 1]
        if stretch(lsn, width) not in {stretch(each, width) for each in neighbours}:
            found.append(lsn)
            archived.insert(place, lsn)
    return found


class ArchivedSnapshots:
    """The snapshots in a store, for writing. Methods raise ArchiveError."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store

    def due(self, taken: Sequence[tuple[int, int]], every: int) -> list[int]:
        """Return the events of the snapshots to archive, as the function `due`."""
        sizes = self._store.sizes()
        found = ((segment_first_lsn(name), size) for name, size in sizes.items())
        segments = {first: size for first, size in found if first is not None}
        return due(taken, snapshots_in(sizes), segments, every)

    def put(
        self, entry: SnapshotEntry, pieces: Iterator[bytes], tick: Callable[[], object]
    ) -> SnapshotEntry:
        """Archive tables, which come in pieces; it is durable and compared when this returns.

        The size and the hash of the object in `entry` are ignored; the entry returned has them.
        `tick` is called after each piece of work. An error raised by `pieces` leaves no manifest.
        """
        digest = hashlib.sha256()
        count = 0

        def packed() -> Iterator[bytes]:
            nonlocal count
            for piece in _compressed(pieces):
                digest.update(piece)
                count += len(piece)
                tick()
                yield piece

        self._store.write(entry.snapshot, packed())
        entry = msgspec.structs.replace(entry, bytes=count, sha256=digest.hexdigest())
        self._compare(entry, tick)
        name = manifest_name(entry.snapshot)
        self._store.write(name, iter([encode_entry(entry)]))
        if b"".join(self._store.read(name)) != encode_entry(entry):
            raise ArchiveError(
                self._store.url_of(name), "it differs from what was written when it is read back"
            )
        return entry

    def _compare(self, entry: SnapshotEntry, tick: Callable[[], object]) -> None:
        """Read an object back and compare it with the written bytes."""
        digest = hashlib.sha256()
        count = 0
        for piece in self._store.read(entry.snapshot):
            digest.update(piece)
            count += len(piece)
            tick()
        if (count, digest.hexdigest()) != (entry.bytes, entry.sha256):
            raise ArchiveError(
                self._store.url_of(entry.snapshot), "it differs from the written bytes when it "
                    "is read back",
            )  # fmt: skip


def _compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zstandard.ZstdCompressor(level=LEVEL).compressobj()
    for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()
