"""A manifest says what the segment says, in a form that does not change."""

import msgspec
import pytest

from daybook.journal.archive.manifest import decode_manifest, describe, encode_manifest
from daybook.journal.blocks.format import Damage, segment_name
from daybook.journal.disk import MemoryDisk
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.journal.segments.stat import stat
from tests.suites.archive_suite import NOW, some_journal

SHA256 = "ab" * 32


@pytest.fixture
def disk() -> MemoryDisk:
    return some_journal()


def test_it_says_what_the_segment_says(disk: MemoryDisk) -> None:
    for figures in stat(disk).segments[:-1]:
        segment = open_segment(disk, figures.name)
        entry = describe(segment, sha256=SHA256, archived_at=NOW)
        assert (entry.first_lsn, entry.last_lsn) == (figures.first_lsn, figures.last_lsn)
        assert (entry.time_min, entry.time_max) == (figures.time_min, figures.time_max)
        assert entry.bytes == figures.file_bytes
        assert decode_manifest(encode_manifest(entry), figures.name) == entry
    with pytest.raises(Damage):
        describe(open_segment(disk, segment_names(disk)[-1]), sha256=SHA256, archived_at=NOW)


def test_its_form_is_for_ever() -> None:
    packed = b"""{
 "format": 1,
 "segment": "00000000000000000011.seg",
 "first_lsn": 11,
 "last_lsn": 20,
 "bytes": 8000,
 "sha256": "%s",
 "data_id": "000102030405060708090a0b0c0d0e0f",
 "previous_hash": "00000000000000000000000000000000",
 "last_hash": "ffffffffffffffffffffffffffffffff",
 "time_min": -1,
 "time_max": 1763640000000000,
 "archived_at": 1763640000000001
}
""" % SHA256.encode()
    entry = decode_manifest(packed, segment_name(11))
    assert (entry.last_lsn, entry.time_min, entry.archived_at) == (20, -1, NOW + 1)
    assert encode_manifest(entry) == packed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "manifest format 2, this release reads 1"),
        ({"sha256": "ab"}, "its sha256 is not 64 hexadecimal digits"),
        ({"last_hash": "g" * 32}, "its last_hash is not 32 hexadecimal digits"),
        ({"last_lsn": 0}, "its LSNs or its size in bytes are impossible"),
        ({"bytes": 0}, "its LSNs or its size in bytes are impossible"),
        ({"segment": segment_name(2)}, "it describes segment 00000000000000000002.seg"),
        ({"first_lsn": 2}, "it describes segment 00000000000000000001.seg, LSN 2"),
        ({"bytes": "many"}, "it is not a manifest"),
    ],
)
def test_what_makes_no_sense_is_refused(
    disk: MemoryDisk, change: dict[str, object], says: str
) -> None:
    entry = describe(open_segment(disk, segment_name(1)), sha256=SHA256, archived_at=NOW)
    packed = msgspec.json.encode(msgspec.to_builtins(entry) | change)
    with pytest.raises(ValueError, match=says):
        decode_manifest(packed, segment_name(1))
