"""No bit of a journal can change unseen."""

from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c

from daybook.journal.blocks.format import (
    SEGMENT_HEADER_BYTES,
    pack_footer,
    pack_segment_header,
    segment_name,
    unpack_segment_header,
)
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import JournalError, NewerFormat
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from daybook.levels import LEVEL
from tests.suites.journal_rows import (
    LAYOUT,
    SEGMENT_BYTES,
    append_some,
    create,
    make_batch,
    noise,
    read_all,
)


@pytest.fixture
def disk() -> MemoryDisk:
    """A sealed segment of two blocks and a mark, and a newest one of a block and a mark."""
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 1)
    journal.mark(1)
    append_some(journal, 1)
    journal.append(make_batch(9, [((1, 1, 1, 1, 1), b"", noise(3300))]))
    journal.mark(2)
    journal.close()
    assert len(segment_names(disk)) == 2
    assert verify(disk).ok
    return disk


def spots(disk: MemoryDisk) -> Iterator[tuple[str, int, int, int]]:
    """(segment, offset of the structure, byte, bits to try) for everything in use.

    All bits of block headers, small frames and footers; one bit, a different one each time, of
    each byte of the large frame and the segment headers, which one crc covers like the rest.
    """
    places: dict[str, list[int]] = {name: [0] for name in segment_names(disk)}
    for block in read_blocks(disk):
        places[block.segment].append(block.offset)
    for segment in stat(disk).segments:
        last = [block for block in read_blocks(disk) if block.segment == segment.name][-1]
        end = last.offset + last.header.block_bytes
        starts = [*places[segment.name], end] if segment.sealed else places[segment.name]
        for byte in range(segment.used_bytes):
            start = max(offset for offset in starts if offset <= byte)
            thorough = start > 0 and byte - start < 300
            yield segment.name, start, byte, 0xFF if thorough else 1 << (byte % 8)


def test_every_changed_bit_is_found_and_its_place_named(disk: MemoryDisk) -> None:
    last_mark = [*read_blocks(disk)][-1]
    tried = 0
    for name, start, byte, bits in spots(disk):
        for bit in (1 << shift for shift in range(8) if bits >> shift & 1):
            disk.files[name][byte] ^= bit
            report = verify(disk)
            disk.files[name][byte] ^= bit
            tried += 1
            if (name, start) == (last_mark.segment, last_mark.offset):
                # Nothing shows that the very last block was durable; it holds no events.
                assert report.ok
                assert report.tail is not None
                assert (report.tail.segment, report.tail.offset) == (name, start)
                continue
            assert not report.ok, f"bit {bit} of byte {byte} of {name}"
            named = [fault for fault in report.faults if fault.segment == name]
            assert any(fault.offset == start for fault in named), (byte, report.faults)
    assert tried > 10_000
    assert verify(disk).ok


def test_a_changed_bit_is_never_read_nor_opened_as_if_nothing_was(disk: MemoryDisk) -> None:
    whole = read_all(disk)
    newest = segment_names(disk)[-1]
    last_mark = [*read_blocks(disk)][-1].offset
    for name, start, byte, _ in spots(disk):
        if byte % 5 and start == 0:
            continue
        damaged = MemoryDisk()
        damaged.files = {each: bytearray(content) for each, content in disk.files.items()}
        damaged.files[name][byte] ^= 1 << (byte % 8)
        try:
            events = read_all(damaged)
        except JournalError:
            events = []
        assert events in ([], whole)
        if name != newest:
            continue
        try:
            journal, repair = Journal.open(damaged, LAYOUT, segment_bytes=SEGMENT_BYTES)
        except JournalError:
            continue
        assert start == last_mark
        assert repair.cut_offset == last_mark
        assert journal.next_lsn == 10


def test_zeros_behind_the_end_are_unused_and_anything_else_is_a_tail(disk: MemoryDisk) -> None:
    segment = stat(disk).segments[-1]
    for byte in (segment.used_bytes, segment.used_bytes + 500, SEGMENT_BYTES - 1):
        disk.files[segment.name][byte] ^= 32
        tail = verify(disk).tail
        assert tail is not None
        assert tail.offset == segment.used_bytes
        disk.files[segment.name][byte] ^= 32


def test_a_missing_segment_is_found() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 40, count=20)
    names = segment_names(disk)
    assert len(names) >= 4
    disk.remove(names[1])
    report = verify(disk)
    assert (report.faults[0].segment, report.faults[0].offset) == (names[2], 0)
    assert "missing" in report.faults[0].what
    with pytest.raises(JournalError, match="damaged or missing"):
        read_all(disk)


def test_a_segment_of_another_journal_is_found() -> None:
    disks = []
    for data_id in (b"a" * 16, b"b" * 16):
        disk = MemoryDisk()
        journal = Journal.create(disk, LAYOUT, data_id=data_id, segment_bytes=SEGMENT_BYTES)
        append_some(journal, 20, count=20)
        disks.append(disk)
    ours, theirs = disks
    name = segment_names(ours)[1]
    ours.files[name] = theirs.files[name]
    report = verify(ours)
    assert "another data directory" in report.faults[0].what
    with pytest.raises(JournalError):
        read_all(ours)


def test_a_segment_that_continues_another_history_is_found() -> None:
    """The same journal continued in two ways from a copy: each segment is sound by itself."""
    disks = []
    for seed in (1, 2):
        disk = MemoryDisk()
        journal = create(disk)
        for number in range(12):
            journal.append(make_batch(number + 1, [((1, 1, 1, 1, 1), b"", noise(900 + seed))]))
        journal.mark(1)
        disks.append(disk)
    ours, theirs = disks
    names = segment_names(ours)
    assert names == segment_names(theirs)
    assert len(names) > 2
    ours.files[names[1]] = theirs.files[names[1]]
    found = verify(ours).faults
    assert [(fault.segment, fault.offset) for fault in found] == [(names[1], 0), (names[2], 0)]
    assert all("hash of the last block before it" in fault.what for fault in found)


def test_a_segment_under_another_name_is_found(disk: MemoryDisk) -> None:
    names = segment_names(disk)
    disk.rename(names[0], segment_name(2))
    assert "says LSN 1, the name 2" in verify(disk).faults[0].what
    with pytest.raises(JournalError, match="says LSN 1, the name 2"):
        read_all(disk)


def test_a_segment_of_other_columns_is_found(disk: MemoryDisk) -> None:
    content = disk.files[segment_names(disk)[1]]
    header = unpack_segment_header(bytes(content[:4096]))
    content[:4096] = pack_segment_header(
        first_lsn=header.first_lsn,
        data_id=header.data_id,
        previous_hash=header.previous_hash,
        segment_bytes=header.segment_bytes,
        layout=header.layout.replace(b'"weight"', b'"height"'),
        level=header.level,
    )
    assert any("other columns" in fault.what for fault in verify(disk).faults)


def test_damage_does_not_hide_damage_behind_it() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 30, count=20)
    journal.mark(1)
    blocks = [*read_blocks(disk)]
    hit = [blocks[1], blocks[5], blocks[9], blocks[-3]]
    for position, block in enumerate(hit):
        disk.files[block.segment][block.offset + (10 if position % 2 else 100)] ^= 1
    found = {(fault.segment, fault.offset, fault.lsn) for fault in verify(disk).faults}
    assert {(block.segment, block.offset, block.first_lsn) for block in hit} <= found


def test_a_journal_with_no_sound_header_is_reported(disk: MemoryDisk) -> None:
    for name in segment_names(disk):
        disk.files[name][SEGMENT_HEADER_BYTES] ^= 1
    report = verify(disk)
    assert [fault.offset for fault in report.faults] == [0, 0, 0]


def test_a_newer_format_is_refused(disk: MemoryDisk) -> None:
    name = segment_names(disk)[0]
    content = disk.files[name]
    content[8] = LEVEL + 1
    content[68:72] = bytes(4)
    content[68:72] = crc32c(content[:4096]).to_bytes(4, "little")
    with pytest.raises(
        NewerFormat, match=f"format version {LEVEL + 1}, this release reads up to {LEVEL}"
    ):
        verify(disk)
    with pytest.raises(NewerFormat):
        read_all(disk)


def test_progress_counts_bytes(disk: MemoryDisk) -> None:
    done: list[int] = []
    verify(disk, progress=done.append)
    assert sum(done) == sum(block.header.block_bytes for block in read_blocks(disk))


def test_a_newer_segment_behind_ours_is_refused(disk: MemoryDisk) -> None:
    content = disk.files[segment_names(disk)[1]]
    content[8] = LEVEL + 1
    content[68:72] = bytes(4)
    content[68:72] = crc32c(content[:4096]).to_bytes(4, "little")
    with pytest.raises(NewerFormat, match=segment_names(disk)[1]):
        verify(disk)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"entries": b""}, "lists other blocks"),
        ({"last_lsn": 77}, "ends with another block"),
        ({"last_hash": b"x" * 16}, "ends with another block"),
    ],
)
def test_a_sound_footer_that_says_something_else_is_found(
    disk: MemoryDisk, change: dict[str, Any], says: str
) -> None:
    name = segment_name(1)
    segment = open_segment(disk, name)
    footer = segment.footer()
    fields: dict[str, Any] = {
        "entries": footer.packed_entries,
        "last_lsn": footer.last_lsn,
        "last_hash": footer.last_hash,
    }
    offset = footer.footer_offset
    packed = pack_footer(**(fields | change), footer_offset=offset, salt=segment.salt)
    disk.files[name][offset:] = packed
    faults = verify(disk).faults
    assert [(fault.segment, fault.offset) for fault in faults] == [(name, offset)]
    assert says in faults[0].what
