"""A replica gets the bytes of another journal, and refuses everything else."""

import random

import pytest

from daybook.journal.blocks.format import BLOCK_HEADER_BYTES, NO_HASH, Damage, segment_name
from daybook.journal.disk import Disk, MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.places import BEFORE_ALL, Begun, Place, next_part
from daybook.journal.replica import Replica
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import DATA_ID, LAYOUT, SEGMENT_BYTES, make_batch, some_contents


def a_journal(disk: Disk) -> Journal:
    return Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES)


def append(journal: Journal, count: int) -> None:
    journal.append(make_batch(journal.next_lsn, some_contents(journal.next_lsn, count)))


def empty_replica(disk: Disk) -> Replica:
    return Replica.empty(disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES)


def bytes_at(disk: Disk, place: Place, count: int) -> bytes:
    file = disk.open(segment_name(place.segment))
    try:
        return file.pread(count, place.offset)
    finally:
        file.close()


def follow(replica: Replica, disk: Disk, until: Place) -> None:
    """Let a replica have everything up to a place."""
    while (part := next_part(disk, replica.place, until)) is not None:
        if isinstance(part, Begun):
            replica.begin(part.header)
            continue
        for block in replica.cut_into_blocks(bytes_at(disk, *part)):
            replica.append_block(block)


def put_whole(replica: Replica, data: bytes) -> None:
    """Let a replica have the bytes of one block."""
    (cut,) = replica.cut_into_blocks(data)
    replica.append_block(cut)


def whole_segments(disk: MemoryDisk) -> dict[str, bytes]:
    """Return what each segment has, without room at its end that is only reserved."""
    return {
        name: bytes(content).rstrip(b"\0")
        for name, content in disk.files.items()
        if name.endswith(".seg")
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_replica_has_the_same_bytes(seed: int) -> None:
    chance = random.Random(seed)
    ours, theirs = MemoryDisk(), MemoryDisk()
    journal, replica = a_journal(ours), empty_replica(theirs)
    for _ in range(chance.randint(1, 60)):
        append(journal, chance.choice((1, 2, 5, 40, 300)))
        if chance.random() < 0.2:
            journal.mark(1_000_000)
        if chance.random() < 0.3:
            follow(replica, ours, journal.place)
    # A segment without blocks does not follow yet: another one may still replace it.
    append(journal, 1)
    follow(replica, ours, journal.place)
    assert whole_segments(theirs) == whole_segments(ours)
    assert (replica.place, replica.durable_lsn, replica.last_hash) == (
        journal.place, journal.durable_lsn, journal.last_hash,
    )  # fmt: skip


def test_a_replica_continues_as_a_journal() -> None:
    ours, theirs = MemoryDisk(), MemoryDisk()
    journal, replica = a_journal(ours), empty_replica(theirs)
    for count in (3, 90, 200, 1):
        append(journal, count)
    follow(replica, ours, journal.place)
    replica.close()
    continued, _ = Journal.open(theirs, LAYOUT, segment_bytes=SEGMENT_BYTES)
    assert continued.next_lsn == journal.next_lsn
    append(continued, 2)
    append(journal, 2)
    assert whole_segments(theirs) == whole_segments(ours)


def test_nothing_is_behind_the_end() -> None:
    disk = MemoryDisk()
    journal = a_journal(disk)
    assert next_part(disk, journal.place, journal.place) is None
    append(journal, 1)
    assert isinstance(next_part(disk, BEFORE_ALL, journal.place), Begun)


@pytest.mark.parametrize("at", [0, 5, BLOCK_HEADER_BYTES - 1, BLOCK_HEADER_BYTES, -1])
def test_a_block_with_a_flipped_bit_is_refused(at: int) -> None:
    ours, theirs = MemoryDisk(), MemoryDisk()
    journal, replica = a_journal(ours), empty_replica(theirs)
    append(journal, 1)
    start = journal.place
    append(journal, 7)
    follow(replica, ours, start)
    block = bytearray(bytes_at(ours, start, journal.place.offset - start.offset))
    block[at] ^= 16
    before = {name: bytes(content) for name, content in theirs.files.items()}
    with pytest.raises(Damage):
        put_whole(replica, bytes(block))
    assert theirs.files == before
    follow(replica, ours, journal.place)
    assert whole_segments(theirs) == whole_segments(ours)


def test_a_block_of_another_journal_or_another_place_is_refused() -> None:
    ours, theirs = MemoryDisk(), MemoryDisk()
    journal, replica = a_journal(ours), empty_replica(theirs)
    append(journal, 1)
    places = [journal.place]
    for count in (2, 2):
        append(journal, count)
        places.append(journal.place)
    follow(replica, ours, places[0])
    second = bytes_at(ours, places[1], places[2].offset - places[1].offset)
    with pytest.raises(Damage, match="LSN 4 instead of 2"):
        put_whole(replica, second)
    other = Replica.empty(MemoryDisk(), LAYOUT, data_id=bytes(16), segment_bytes=SEGMENT_BYTES)
    begun = next_part(ours, BEFORE_ALL, journal.place)
    assert isinstance(begun, Begun)
    with pytest.raises(Damage, match="data directory"):
        other.begin(begun.header)


@pytest.mark.parametrize("seed", range(60))
def test_what_a_replica_said_is_durable_survives_a_power_cut(seed: int) -> None:
    chance = random.Random(seed)
    ours = MemoryDisk()
    journal = a_journal(ours)
    for _ in range(12):
        append(journal, chance.choice((1, 5, 60)))
    disk = FaultyDisk(seed)
    replica = empty_replica(disk)
    disk.crash_after(chance.randint(1, 80))
    said = 0
    try:
        while (part := next_part(ours, replica.place, journal.place)) is not None:
            if isinstance(part, Begun):
                replica.begin(part.header)
                continue
            for block in replica.cut_into_blocks(bytes_at(ours, *part)):
                replica.append_block(block)
                said = replica.durable_lsn
    except BaseException:
        if not disk.dead:
            raise
    disk = disk.crash()
    again = Replica.open_or_empty(disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES)
    assert again.durable_lsn >= said
    follow(again, ours, journal.place)
    assert again.last_hash == journal.last_hash


def test_a_block_before_the_first_segment_is_refused() -> None:
    ours = MemoryDisk()
    journal = a_journal(ours)
    start = journal.place
    append(journal, 1)
    block = bytes_at(ours, start, journal.place.offset - start.offset)
    with pytest.raises(Damage, match="no segment"):
        put_whole(empty_replica(MemoryDisk()), block)


def test_the_hash_before_a_journal_is_of_no_block() -> None:
    assert empty_replica(MemoryDisk()).last_hash == NO_HASH
