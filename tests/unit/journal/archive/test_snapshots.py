"""Which snapshots an archive is due, and what their manifests must say."""

import msgspec
import pytest

from daybook.journal.archive.snapshots import (
    SnapshotEntry,
    decode_entry,
    due,
    encode_entry,
    snapshots_in,
)
from daybook.journal.blocks.format import manifest_name, snapshot_lsn, snapshot_name

SEGMENTS = {first: 1000 for first in range(1, 10_001, 100)}
"""100 segments of 1000 bytes and 100 events each."""
ENTRY = SnapshotEntry(1, snapshot_name(7), 7, 5, "a" * 64, 9, "b" * 64, "c" * 32, "d" * 32, 1)


def every_event(step: int, size: int = 1) -> list[tuple[int, int]]:
    return [(lsn, size) for lsn in range(50, 10_000, step)]


def test_one_for_each_stretch() -> None:
    assert due(every_event(100), [], SEGMENTS, 1000) == [lsn for lsn, _ in every_event(100)]
    assert len(due(every_event(10), [], SEGMENTS, 1000)) == 100
    assert len(due(every_event(100), [], SEGMENTS, 10_000)) == 11
    assert due([], [50], SEGMENTS, 1000) == []


def test_what_has_one_gets_no_other() -> None:
    first = due(every_event(100), [], SEGMENTS, 5000)
    assert due(every_event(100), first, SEGMENTS, 5000) == []
    assert due(every_event(10), first, SEGMENTS, 5000) == []
    missing = first.pop(3)
    (again,) = due(every_event(100), first, SEGMENTS, 5000)
    assert abs(again - missing) <= 500


@pytest.mark.parametrize("size", [1, 99, 100, 101, 1000, 20_000])
def test_all_together_take_a_tenth(size: int) -> None:
    taken: list[int] = []
    # Round by round, as segments come.
    for last in range(0, 10_000, 300):
        there = {first: count for first, count in SEGMENTS.items() if first <= last}
        new = [(lsn, size) for lsn in range(last - 250, last, 50) if lsn > 0]
        taken += due(new, taken, there, 1)
    assert taken
    assert (len(taken) - 1) * size * 10 <= sum(SEGMENTS.values())


def test_names() -> None:
    assert snapshot_lsn(snapshot_name(7)) == 7
    for name in ("7.snapshot.zst", "0" * 20 + ".snapshot.zst", manifest_name(snapshot_name(7))):
        assert snapshot_lsn(name) is None
    one, two, three = map(snapshot_name, (1, 2, 3))
    names = [one, two, manifest_name(two), manifest_name(three), three, "other", one + ".part"]
    assert snapshots_in(names) == [3, 2]


def test_a_manifest_comes_back() -> None:
    assert decode_entry(encode_entry(ENTRY), 7) == ENTRY


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "its manifest has format 2, this release reads 1"),
        ({"sha256": "a"}, "sha256 in its manifest is not 64 hexadecimal digits"),
        ({"tables_sha256": "A" * 64}, "tables_sha256 in its manifest"),
        ({"data_id": ""}, "data_id in its manifest is not 32"),
        ({"block_hash": "x" * 32}, "block_hash in its manifest is not 32"),
        ({"lsn": 8}, "its manifest describes the snapshot at event 8"),
        ({"snapshot": "x"}, "its manifest describes"),
        ({"bytes": 0}, "the sizes in its manifest are impossible"),
        ({"tables_bytes": -1}, "the sizes in its manifest are impossible"),
        ({"lsn": "7"}, "its manifest cannot be read"),
    ],
)
def test_a_manifest_that_is_wrong_says_why(change: dict[str, object], says: str) -> None:
    told = msgspec.to_builtins(ENTRY) | change
    with pytest.raises(ValueError, match=says):
        decode_entry(msgspec.json.encode(told), 7)


def test_a_manifest_of_a_later_release_may_have_more() -> None:
    told = msgspec.to_builtins(ENTRY) | {"more": 1}
    assert decode_entry(msgspec.json.encode(told), 7) == ENTRY
