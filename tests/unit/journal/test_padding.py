"""Blocks that end with a device block, which a torn write of the next one cannot reach."""

from collections.abc import Iterator

import pytest

from daybook.journal.blocks.format import (
    DEVICE_BLOCKS,
    PADDING_BYTES_MIN,
    pack_padding,
    padding_bytes,
    segment_name,
)
from daybook.journal.disk import Disk, MemoryDisk
from daybook.journal.errors import Corruption, JournalError
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.simulation.machine.disk import FaultyDisk, PowerCut
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    append_some,
    make_batch,
    noise,
    read_all,
    some_contents,
)

SEGMENT_BYTES = 65_536
PADDED = [size for size in DEVICE_BLOCKS if size]
SEEDS = range(40)


def create(disk: Disk, device_block_bytes: int) -> Journal:
    return Journal.create(
        disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES,
        device_block_bytes=device_block_bytes,
    )  # fmt: skip


def reopen(disk: Disk, device_block_bytes: int) -> Journal:
    return Journal.open(
        disk, LAYOUT, segment_bytes=SEGMENT_BYTES, device_block_bytes=device_block_bytes
    )[0]


def ends(disk: Disk) -> Iterator[int]:
    """Where blocks end, oldest first."""
    for block in read_blocks(disk, LAYOUT):
        yield block.offset + block.header.block_bytes


@pytest.mark.parametrize("size", PADDED)
def test_every_block_ends_with_a_device_block(size: int) -> None:
    """Events with and without strings, marks, blocks of all sizes, over several segments."""
    disk = MemoryDisk()
    journal = create(disk, size)
    events = append_some(journal, 60)
    for count in (1, 350, 1_000, 5_000, 20_000):
        journal.append(make_batch(journal.next_lsn, [((1, 1, 1, 1, 1), b"", noise(count))]))
        journal.mark(7)
    journal.append(make_batch(journal.next_lsn, [((1, 1, 1, 1, 1), b"", b"")]))
    last = journal.durable_lsn
    journal.close()
    assert {end % size for end in ends(disk)} == {0}
    assert read_all(disk)[: len(events)] == events
    assert [event[0] for event in read_all(disk)] == list(range(1, last + 1))
    report = verify(disk)
    assert report.ok
    assert report.marks == 5
    assert len(stat(disk).segments) > 1
    assert reopen(disk, size).durable_lsn == last


@pytest.mark.parametrize("size", PADDED)
def test_padding_fills_a_device_block(size: int) -> None:
    for end in range(1, 5_000):
        count = padding_bytes(end, size)
        assert (end + count) % size == 0
        assert count == 0 or count >= PADDING_BYTES_MIN
        assert len(pack_padding(count)) == count < size + PADDING_BYTES_MIN


def test_a_journal_may_change_its_device_blocks() -> None:
    """Earlier blocks stay as they are; the next block but one begins a device block."""
    disk = MemoryDisk()
    create(disk, 0).close()
    for size in (0, 4096, 512, 0, 4096):
        journal = reopen(disk, size)
        append_some(journal, 3)
        journal.close()
        assert size == 0 or list(ends(disk))[-1] % size == 0
    assert verify(disk).ok
    assert len(read_all(disk)) == 5 * 3 * 4


@pytest.mark.parametrize("damaged", range(2))
def test_padding_is_checked_as_all_else(damaged: int) -> None:
    """A bit that turns in it is damage: nothing of a block is beyond its crc and hash."""
    disk = MemoryDisk()
    journal = create(disk, 4096)
    append_some(journal, 2)
    journal.close()
    end = next(ends(disk))
    disk.files[segment_name(1)][end - 1 - 3_000 * damaged] ^= 1
    assert not verify(disk).ok
    with pytest.raises(Corruption):
        reopen(disk, 4096)


def cut_while_appending(seed: int, device_block_bytes: int) -> tuple[int, int]:
    """Durable LSNs before and after a power cut in a write that spoils its device block."""
    disk = FaultyDisk(seed, collateral_bytes=4096)
    journal = create(disk, device_block_bytes)
    append_some(journal, 1 + seed % 5)
    durable = journal.durable_lsn
    if seed % 3 == 0:
        journal.mark(7)
    disk.crash_after(1 + seed % 2)
    with pytest.raises(PowerCut):
        journal.append(make_batch(journal.next_lsn, some_contents(journal.next_lsn, 4)))
    try:
        return durable, reopen(disk.crash(), device_block_bytes).durable_lsn
    except JournalError:
        return durable, -1


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_durable_survives_a_write_that_spoils_its_device_block(seed: int) -> None:
    before, after = cut_while_appending(seed, 4096)
    assert after >= before


def test_without_padding_such_a_write_may_take_what_was_durable() -> None:
    """The reason for padding: without it a torn device block damages the block before."""
    lost = [seed for seed in SEEDS if (pair := cut_while_appending(seed, 0))[1] < pair[0]]
    assert lost
