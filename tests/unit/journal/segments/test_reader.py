"""Reading beside a writer, and from damaged journals; the rest is in the suite."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from daybook.journal.blocks.format import BLOCK_HEADER_BYTES, pack_segment_header, segment_name
from daybook.journal.disk import MemoryDisk, MemoryFile, RealDisk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import CHUNK_BYTES, segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import (
    DATA_ID,
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
    some_contents,
)


def test_a_reader_beside_a_writer_sees_everything_once(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    journal = create(disk)
    done = threading.Event()
    problems: list[str] = []
    lsns: list[int] = []

    def follow() -> None:
        def wait() -> bool:
            return not (done.is_set() and lsns and lsns[-1] == journal.durable_lsn)

        for block in read_blocks(RealDisk(tmp_path), LAYOUT, follow=wait):
            for event in block.events():
                lsn = event[0]
                lsns.append(lsn)
                if event[1:] != some_contents(lsn, 1)[0]:
                    problems.append(f"LSN {lsn} was read as {event}")

    def check() -> None:
        while not done.is_set():
            problems.extend(fault.what for fault in verify(RealDisk(tmp_path)).faults)
            stat(RealDisk(tmp_path))

    threads = [threading.Thread(target=follow), threading.Thread(target=check)]
    for thread in threads:
        thread.start()
    for number in range(250):
        append_some(journal, 1, count=1 + number % 9)
        if number % 11 == 0:
            journal.mark(number)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert lsns == list(range(1, journal.next_lsn))
    assert len(segment_names(disk)) > 5


def test_an_empty_segment_is_replaced_under_a_reader(tmp_path: Path) -> None:
    """The first block did not fit into it: a larger one of the same name takes its place."""
    disk = RealDisk(tmp_path)
    journal = create(disk)
    append_some(journal, 3)
    # As a mark does that does not fit.
    journal._roll(0)
    before = journal.next_lsn
    assert segment_names(disk)[-1] == segment_name(before), "the newest is empty"
    large = noise(4 * SEGMENT_BYTES)
    turns = iter(range(9))

    def write() -> bool:
        turn = next(turns)
        if turn == 1:
            journal.append(make_batch(before, [(*some_contents(before, 1)[0][:-1], large)]))
        elif turn == 2:
            append_some(journal, 3)
        return turn < 5

    lsns = [
        event[0] for block in read_blocks(disk, LAYOUT, follow=write) for event in block.events()
    ]
    assert lsns == list(range(1, journal.next_lsn))
    assert journal.next_lsn > before + 1


@pytest.mark.parametrize("proven", [False, True])
def test_a_half_written_block_is_not_there_until_it_is_whole(proven: bool) -> None:
    disk = MemoryDisk()
    journal = create(disk)
    appended = append_some(journal, 1)
    start = stat(disk).segments[0].used_bytes
    append_some(journal, 1)
    append_some(journal, 1)
    name = segment_name(1)
    whole = file_bytes(disk, name)
    steps = [start + 1, start + BLOCK_HEADER_BYTES, start + BLOCK_HEADER_BYTES + 9, len(whole)]
    overwrite(disk, name, start, bytes(len(whole) - start))

    def write_some() -> bool:
        if not steps:
            return False
        end = steps.pop(0)
        overwrite(disk, name, start, whole[start:end])
        return True

    seen = [block.first_lsn for block in read_blocks(disk, follow=write_some, proven=proven)]
    assert seen == ([1, 5] if proven else [1, 5, 9])
    assert read_all(disk)[: len(appended)] == appended


def test_a_block_that_is_finished_between_two_looks_is_read() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    append_some(journal, 2)
    name = segment_name(1)
    whole = file_bytes(disk, name)
    first, second = [block.offset for block in read_blocks(disk)]
    disk.files[name][first + BLOCK_HEADER_BYTES + 3] ^= 1

    class Finishing(MemoryDisk):
        """The writer finishes the block while the reader looks at what follows it."""

        def __init__(self, looks: int) -> None:
            super().__init__()
            self.files = {name: bytearray(content) for name, content in disk.files.items()}
            self.looks = looks

        def open(self, name: str) -> "CountingFile":
            return CountingFile(self, name)

    class CountingFile(MemoryFile):
        def __init__(self, owner: Finishing, name: str) -> None:
            super().__init__(owner.files[name])
            self.owner = owner

        def pread(self, count: int, offset: int) -> bytes:
            if count == CHUNK_BYTES:
                self.owner.looks -= 1
                if self.owner.looks == 0:
                    self.content[:] = whole
            return super().pread(count, offset)

    for looks in (2, 3, 4):
        assert [block.offset for block in read_blocks(Finishing(looks))] == [first, second]
    for looks in (1, 2, 3, 4):
        report = verify(Finishing(looks))
        assert report.ok, (looks, report)
        assert report.events == 8


def test_damage_that_something_follows_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 3)
    blocks = [*read_blocks(disk)]
    disk.files[segment_name(1)][blocks[1].offset + 90] ^= 1
    reading = read_blocks(disk)
    assert next(reading).first_lsn == 1
    with pytest.raises(Corruption) as refused:
        next(reading)
    assert (refused.value.offset, refused.value.lsn) == (blocks[1].offset, 5)


def test_a_damaged_footer_costs_only_time() -> None:
    disk = MemoryDisk()
    appended = append_some(create(disk), 30, count=20)
    names = segment_names(disk)
    for name in names[:-1]:
        disk.files[name][-3] ^= 1
    assert read_all(disk) == appended
    assert next(read_blocks(disk, from_lsn=145)).first_lsn == 141
    for name in names[:-1]:
        del disk.files[name][-60:]
    assert read_all(disk) == appended


def test_a_footer_that_leads_astray_is_not_followed() -> None:
    disk = MemoryDisk()
    appended = append_some(create(disk), 30, count=20)
    blocks = [block for block in read_blocks(disk) if block.segment == segment_name(1)]
    assert len(blocks) > 3
    # The block that the footer names is damaged: reading from there reports it all the same.
    disk.files[segment_name(1)][blocks[2].offset + 1] ^= 1
    with pytest.raises(Corruption) as refused:
        list(read_blocks(disk, from_lsn=blocks[2].first_lsn))
    assert refused.value.offset == blocks[2].offset
    assert len(appended) == 600


def test_history_that_retention_took_is_skipped() -> None:
    disk = MemoryDisk()
    appended = append_some(create(disk), 30, count=20)
    names = segment_names(disk)
    disk.remove(names[0])
    first_lsn = int(names[1].removesuffix(".seg"))
    assert read_all(disk) == appended[first_lsn - 1 :]
    assert verify(disk).ok


def test_a_segment_that_does_not_carry_on_the_chain_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 30, count=20)
    name = segment_names(disk)[1]
    header = pack_segment_header(
        first_lsn=int(name.removesuffix(".seg")),
        data_id=DATA_ID,
        previous_hash=b"x" * 16,
        segment_bytes=8192,
        layout=LAYOUT.encode(),
        level=1,
    )
    overwrite(disk, name, 0, header)
    with pytest.raises(Corruption, match="does not carry the hash of the last block before it"):
        read_all(disk)
    assert any("does not carry" in fault.what for fault in verify(disk).faults)


def test_a_layout_that_makes_no_sense_is_corruption() -> None:
    disk = MemoryDisk()
    append_some(create(disk), 1)
    header = pack_segment_header(
        first_lsn=1,
        data_id=DATA_ID,
        previous_hash=bytes(16),
        segment_bytes=8192,
        layout=b"[]",
        level=1,
    )
    overwrite(disk, segment_name(1), 0, header)
    uses: list[Callable[[], object]] = [lambda: next(read_blocks(disk)), lambda: stat(disk)]
    for use in uses:
        with pytest.raises(Corruption, match="layout in the segment header is invalid"):
            use()
    assert "is invalid" in verify(disk).faults[0].what


def test_what_cannot_be_read_is_said() -> None:
    disk = FaultyDisk(1)
    append_some(create(disk), 1)
    disk.fail_next("pread")
    with pytest.raises(JournalError, match=r"cannot be read: .*Input/output error"):
        list(read_blocks(disk))


def test_blocks_larger_than_a_chunk_are_read() -> None:
    disk = MemoryDisk()
    journal = create(disk)
    body = noise(2 * CHUNK_BYTES + 77)
    journal.append(make_batch(1, [((1, 1, 1, 1, 1), b"", body)]))
    append_some(journal, 1)
    assert read_all(disk)[0][3] == body
    assert reopen(disk).next_lsn == 6


def test_damage_across_the_border_of_two_chunks_is_judged_by_what_follows() -> None:
    for shift in range(0, BLOCK_HEADER_BYTES + 2, 8):
        disk = MemoryDisk()
        journal = Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=1 << 20)
        start = 4096
        journal.append(make_batch(1, [((1, 1, 1, 1, 1), b"", noise(CHUNK_BYTES - 200 + shift))]))
        journal.mark(1)
        mark = [*read_blocks(disk)][-1].offset
        assert abs(mark - start - CHUNK_BYTES) < 200
        disk.files[segment_name(1)][start + 500] ^= 1
        with pytest.raises(Corruption, match=str(mark)):
            Journal.open(disk, LAYOUT)
