"""Torn or corrupt: what opening makes of damage in the newest segment."""

import pytest

from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    RESERVE_NAME,
    peek_segment_header_bytes,
    segment_name,
    unpack_segment_header,
)
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import Corruption
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.repair import Repair
from daybook.journal.segments.segment import NEXT_IS_MISSING, segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.suites.journal_rows import (
    LAYOUT,
    SEGMENT_BYTES,
    append_some,
    create,
    file_bytes,
    make_batch,
    noise,
    overwrite,
    read_all,
    reopen,
)

NAME = segment_name(1)


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    copy = MemoryDisk()
    copy.files = {name: bytearray(content) for name, content in disk.files.items()}
    return copy


def offsets(disk: MemoryDisk) -> list[int]:
    return [block.offset for block in read_blocks(disk)]


def repaired(disk: MemoryDisk, known_durable_lsn: int = 0) -> Repair:
    journal, repair = Journal.open(
        disk, LAYOUT, segment_bytes=SEGMENT_BYTES, known_durable_lsn=known_durable_lsn
    )
    journal.close()
    return repair


def test_a_block_torn_at_any_byte_is_cut_and_all_before_it_is_kept() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    appended = append_some(journal, 3)
    start, end = offsets(disk)[-1], stat(disk).segments[-1].used_bytes
    content = file_bytes(disk, NAME)
    for cut in range(start, end):
        torn = copy_of(disk)
        overwrite(torn, NAME, cut, bytes(end - cut))
        assert read_all(torn) == appended[:8]
        repair = repaired(torn)
        # The last write may end in zeros, which look like bytes that were never written.
        kept = content[start:cut].rstrip(b"\0")
        assert repair.cut_bytes == len(kept)
        assert repair.cut_offset == (start if kept else 0)
        assert file_bytes(torn, NAME) == content[:start] + bytes(SEGMENT_BYTES - start)
        journal = reopen(torn)
        assert append_some(journal, 1) == appended[8:]
        assert read_all(torn) == appended


def test_a_block_whose_beginning_is_missing_is_cut() -> None:
    disk = MemoryDisk()
    appended = append_some(create(disk), 2)
    start, end = offsets(disk)[-1], stat(disk).segments[-1].used_bytes
    for lost in (1, BLOCK_HEADER_BYTES, end - start - 1):
        torn = copy_of(disk)
        overwrite(torn, NAME, start, bytes(lost))
        assert read_all(torn) == appended[:4]
        assert repaired(torn).cut_bytes == end - start
        assert read_all(torn) == appended[:4]


def test_damage_that_something_follows_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 3)
    for position, offset in enumerate(offsets(disk)[:-1]):
        for byte in (offset, offset + 30, offset + BLOCK_HEADER_BYTES + 5):
            damaged = copy_of(disk)
            damaged.files[NAME][byte] ^= 4
            before = file_bytes(damaged, NAME)
            with pytest.raises(Corruption, match="Nothing was changed") as refused:
                repaired(damaged)
            assert refused.value.segment == NAME
            assert refused.value.offset == offset
            assert refused.value.lsn == 1 + 4 * position
            assert file_bytes(damaged, NAME) == before


def test_a_mark_makes_damage_in_the_last_events_corruption() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 1)
    unmarked = copy_of(disk)
    journal.mark(5)
    byte = offsets(disk)[0] + 90
    for damaged in (disk, unmarked):
        damaged.files[NAME][byte] ^= 1
    assert repaired(unmarked).cut_bytes > 0
    with pytest.raises(Corruption):
        repaired(disk)


def test_a_whole_block_of_zeros_before_a_sound_one_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 3)
    first, second, third = offsets(disk)
    overwrite(disk, NAME, second, bytes(third - second))
    with pytest.raises(Corruption) as refused:
        repaired(disk)
    assert refused.value.offset == second > first


def test_what_a_checkpoint_knows_is_not_cut() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 2)
    assert repaired(disk, known_durable_lsn=8).cut_bytes == 0
    with pytest.raises(Corruption, match="LSN 9 is known to have been durable"):
        repaired(disk, known_durable_lsn=9)
    disk.files[NAME][offsets(disk)[1] + 9] ^= 1
    with pytest.raises(Corruption, match="LSN 8 is known"):
        repaired(copy_of(disk), known_durable_lsn=8)
    assert repaired(disk, known_durable_lsn=4).cut_bytes > 0


def test_a_copy_of_blocks_inside_a_message_is_not_taken_for_blocks() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 1)
    # The body holds a mark of another journal whose LSN lies ahead, and a copy of our own past.
    other = Journal.create(MemoryDisk(), LAYOUT, data_id=b"z" * 16)
    foreign = other._codec.encode_mark(99, 1, bytes(16)).data
    body = b"\x00".join((foreign, file_bytes(disk, NAME)[4096:5000].rstrip(b"\0")))
    journal.append(make_batch(5, [((1, 1, 1, 1, 1), noise(900), body + noise(901))]))
    start = offsets(disk)[1]
    assert foreign[:4] in file_bytes(disk, NAME)[start:]
    disk.files[NAME][start + 20] ^= 1
    assert repaired(disk).cut_offset == start


def test_a_block_out_of_place_is_corruption_even_at_the_end() -> None:
    for next_lsn, previous_hash in ((4, None), (5, b"y" * 16)):
        disk = MemoryDisk()
        journal = create(disk)
        append_some(journal, 1)
        end = stat(disk).segments[-1].used_bytes
        mark = journal._codec.encode_mark(next_lsn, 1, previous_hash or journal.last_hash)
        overwrite(disk, NAME, end, mark.data)
        with pytest.raises(Corruption) as refused:
            repaired(disk)
        assert refused.value.offset == end
        with pytest.raises(Corruption):
            list(read_blocks(disk))


def sealed(disk: MemoryDisk) -> str:
    """A journal whose newest segment is sealed: the power went before the next got its name."""
    journal = create(disk)
    append_some(journal, 30, count=20)
    journal.close()
    names = segment_names(disk)
    disk.rename(names[-1], RESERVE_NAME)
    reserve = disk.files[RESERVE_NAME]
    header_bytes = peek_segment_header_bytes(bytes(reserve))
    reserve[header_bytes:] = bytes(len(reserve) - header_bytes)
    return names[-2]


def test_a_sealed_newest_segment_is_gone_on_from() -> None:
    disk = MemoryDisk()
    name = sealed(disk)
    journal = reopen(disk)
    assert journal.segment == name
    appended = append_some(journal, 1)
    assert len(segment_names(disk)) > 1
    assert read_all(disk)[-4:] == appended


def test_damage_before_a_sound_footer_is_corruption() -> None:
    disk = MemoryDisk()
    name = sealed(disk)
    last = offsets(disk)[-1]
    disk.files[name][last + 80] ^= 1
    with pytest.raises(Corruption) as refused:
        repaired(disk)
    assert (refused.value.segment, refused.value.offset) == (name, last)


def test_a_sealed_segment_that_ends_too_early_is_corruption() -> None:
    disk = MemoryDisk()
    name = sealed(disk)
    with pytest.raises(Corruption, match="LSN 999"):
        repaired(disk, known_durable_lsn=999)
    assert segment_names(disk)[-1] == name


def test_a_half_written_footer_is_cut_and_written_again() -> None:
    disk = MemoryDisk()
    name = sealed(disk)
    before = read_all(disk)
    content = disk.files[name]
    header_bytes = peek_segment_header_bytes(bytes(content))
    reserved = unpack_segment_header(bytes(content[:header_bytes])).segment_bytes
    content[-7:] = bytes(7 + reserved - len(content))
    assert repaired(copy_of(disk)).cut_bytes > 0
    journal = reopen(disk)
    appended = append_some(journal, 30, count=20)
    assert segment_names(disk)[-1] != name
    assert read_all(disk) == before + appended
    assert all(segment.sealed for segment in stat(disk).segments[:-1])


def test_a_sealed_segment_that_was_not_cut_to_size_yet_is_sealed() -> None:
    disk = MemoryDisk()
    name = sealed(disk)
    before = read_all(disk)
    disk.files[name].extend(bytes(100))
    journal = reopen(disk)
    assert read_all(disk) == before
    appended = append_some(journal, 1)
    assert read_all(disk) == before + appended
    assert all(segment.sealed for segment in stat(disk).segments[:-1])


@pytest.mark.parametrize("lost", [1, 4000])
def test_a_newest_segment_that_was_cut_short_is_corruption(lost: int) -> None:
    disk = MemoryDisk()
    append_some(create(disk), 3)
    (name,) = segment_names(disk)
    del disk.files[name][-lost:]
    with pytest.raises(Corruption, match="it was truncated") as refused:
        repaired(disk)
    assert (refused.value.segment, refused.value.offset) == (name, len(disk.files[name]))
    assert "it was truncated" in verify(disk).faults[0].what


def test_a_newest_segment_that_is_missing_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 30, count=20)
    names = segment_names(disk)
    disk.remove(names[-1])
    with pytest.raises(Corruption, match="that one is missing") as refused:
        repaired(disk)
    assert refused.value.segment == names[-2]
    assert [fault.what for fault in verify(disk).faults] == [NEXT_IS_MISSING]
    disk.remove(RESERVE_NAME)
    with pytest.raises(Corruption, match="that one is missing"):
        repaired(disk)


def test_a_segment_that_does_not_follow_the_one_before_it_is_corruption() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 30, count=20)
    names = segment_names(disk)
    other = MemoryDisk()
    append_some(create(other), 30, count=5)
    disk.remove(names[-2])
    with pytest.raises(Corruption, match="events 361 to 540 are missing"):
        repaired(disk)


def test_a_damaged_footer_of_the_segment_before_does_not_keep_the_journal_from_opening() -> None:
    disk = MemoryDisk()
    appended = append_some(create(disk), 30, count=20)
    disk.files[segment_names(disk)[-2]][-1] ^= 1
    repaired(disk)
    assert read_all(disk) == appended
