"""Windows on files, segment headers, footers, and what follows damage."""

import pytest

from daybook.journal.blocks.format import Damage, segment_name
from daybook.journal.disk import MemoryDisk, MemoryFile
from daybook.journal.errors import Corruption
from daybook.journal.segments.segment import (
    CHUNK_BYTES,
    Behind,
    Window,
    look_behind,
    open_segment,
    segment_names,
)
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import append_some, create, make_batch, noise


def test_a_window_gives_what_the_file_holds() -> None:
    disk = MemoryDisk()
    content = noise(3 * CHUNK_BYTES)
    file = disk.open_for_writing("a")
    file.pwrite(content, 0)
    window = Window(file)
    for offset in (0, 7, CHUNK_BYTES - 3, 2 * CHUNK_BYTES, 5, 3 * CHUNK_BYTES - 2, 3 * CHUNK_BYTES):
        for count in (1, 72, CHUNK_BYTES, CHUNK_BYTES + 1):
            assert window.take(count, offset) == content[offset : offset + count]


def test_a_window_may_be_stale_until_it_is_refreshed() -> None:
    file = MemoryDisk().open_for_writing("a")
    file.pwrite(b"old", 0)
    window = Window(file)
    assert window.take(3, 0) == b"old"
    file.pwrite(b"new", 0)
    assert window.take(3, 0) == b"old"
    window.refresh()
    assert window.take(3, 0) == b"new"


class CountedFile(MemoryFile):
    """A file that keeps what was read of it."""

    reads: list[int]

    def pread(self, count: int, offset: int) -> bytes:
        found = super().pread(count, offset)
        self.reads.append(len(found))
        return found


class CountedDisk(MemoryDisk):
    def open(self, name: str) -> CountedFile:
        file = CountedFile(self.files[name])
        file.reads = []
        return file


def test_many_small_blocks_cost_few_calls() -> None:
    disk = CountedDisk()
    journal = create(disk, segment_bytes=1 << 20)
    append_some(journal, 500, count=1)
    for with_heap in (True, False):
        segment = open_segment(disk, segment_name(1))
        offset = segment.first_offset
        reads = segment.file.reads  # type: ignore[attr-defined]
        reads.clear()
        for _ in range(500):
            offset += segment.block_at(offset, with_heap).header.block_bytes
        assert 0 < len(reads) < 5
        assert segment.is_blank_at(offset)


def test_large_heaps_that_are_not_asked_for_are_not_read() -> None:
    disk = CountedDisk()
    journal = create(disk, segment_bytes=64 << 20)
    bodies = [noise(100_000 + number) for number in range(40)]
    row = (1, 2, 3, 4, 5)
    for body in bodies:
        journal.append(make_batch(journal.next_lsn, [(row, b"", body)]))
    segment = open_segment(disk, segment_name(1))
    offset = segment.first_offset
    reads = segment.file.reads  # type: ignore[attr-defined]
    reads.clear()
    for body in bodies:
        header = segment.block_at(offset, with_heap=False).header
        assert header.heap_raw_bytes == len(body)
        offset += header.block_bytes
    # One window, and then little more than headers and rows.
    assert sum(reads) < CHUNK_BYTES + len(bodies) * 2000


def test_only_names_of_segments_are_segments() -> None:
    disk = FaultyDisk(0)
    for name in ("lock", "next.reserve", segment_name(9), segment_name(1), "x.seg"):
        disk.open_for_writing(name)
    assert segment_names(disk) == [segment_name(1), segment_name(9)]


@pytest.mark.parametrize("content", [b"", b"DAYBOOK\n", bytes(4096), b"x" * 100])
def test_what_is_no_segment_is_corruption(content: bytes) -> None:
    disk = MemoryDisk()
    disk.files[segment_name(1)] = bytearray(content)
    with pytest.raises(Corruption) as refused:
        open_segment(disk, segment_name(1))
    assert (refused.value.offset, refused.value.lsn) == (0, 1)


def test_footers_that_stand_elsewhere_or_end_early_are_damage() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 30, count=20)
    content = disk.files[segment_name(1)]
    footer = open_segment(disk, segment_name(1)).footer()
    content += content[footer.footer_offset :]
    segment = open_segment(disk, segment_name(1))
    with pytest.raises(Damage, match="no footer begins here"):
        segment.footer_at(footer.footer_offset + 1)
    with pytest.raises(Damage, match="has another offset than it says"):
        segment.footer_at(footer.footer_offset + (len(content) - footer.footer_offset) // 2)
    del content[footer.footer_offset + 100 :]
    with pytest.raises(Damage, match="ends within the footer"):
        segment.footer_at(footer.footer_offset)
    content += bytes(8) + bytes(20) + b"dbTR"
    with pytest.raises(Damage, match="outside of the segment"):
        segment.footer()


def test_behind_the_end_is_nothing() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 2)
    segment = open_segment(disk, segment_name(1))
    second = segment.first_offset + segment.block_at(4096, with_heap=False).header.block_bytes
    end = second + segment.block_at(second, with_heap=False).header.block_bytes
    assert look_behind(segment, end, 9) == Behind(0, end)
    assert look_behind(segment, 4096, 1).evidence_offset == second
    assert look_behind(segment, 4096, 6) == Behind(0, end)
