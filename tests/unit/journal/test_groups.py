"""A group of blocks that a crash tore is cut off, and nothing that was durable before it."""

import random

import pytest

from daybook.journal.disk import Disk, MemoryDisk
from daybook.journal.errors import Corruption
from daybook.journal.groups import GROUP_NAME, GroupMark, drop_torn_group, marked_group
from daybook.journal.journal import Journal
from daybook.journal.places import BEFORE_ALL, Begun, Place, next_part
from daybook.replication import replica_files
from daybook.replication.replica_files import ReplicaFiles
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import DATA_ID, LAYOUT, SEGMENT_BYTES
from tests.unit.journal.test_replica import a_journal, append, bytes_at, whole_segments


def files_on(disk: Disk) -> ReplicaFiles:
    return ReplicaFiles(disk, MemoryDisk(), LAYOUT, segment_bytes=SEGMENT_BYTES)


def follow(files: ReplicaFiles, ours: Disk, until: Place) -> None:
    """Let it have everything up to a place, as one group in each segment."""
    while (part := next_part(ours, files.place, until)) is not None:
        if isinstance(part, Begun):
            files.begin_segment(part.header)
        else:
            files.append(part.place, bytes_at(ours, *part))


def a_leader(seed: int) -> tuple[MemoryDisk, Journal]:
    chance = random.Random(seed)
    ours = MemoryDisk()
    journal = a_journal(ours)
    for _ in range(30):
        append(journal, chance.choice((1, 2, 9)))
    return ours, journal


def crash_in_a_group(seed: int) -> tuple[FaultyDisk, int]:
    """Return the disk after a crash, and the event up to which was said to be durable."""
    ours, journal = a_leader(seed)
    disk = FaultyDisk(seed)
    files = files_on(disk)
    files.continue_from(DATA_ID, BEFORE_ALL, bytes(16))
    disk.crash_after(random.Random(seed).randint(1, 45))
    said = 0
    try:
        while (part := next_part(ours, files.place, journal.place)) is not None:
            if isinstance(part, Begun):
                files.begin_segment(part.header)
            else:
                files.append(part.place, bytes_at(ours, *part))
                said = files.lsn
    except BaseException:
        if not disk.dead:
            raise
    return disk.crash(), said


@pytest.mark.parametrize("seed", range(80))
def test_what_was_said_to_be_durable_survives_a_power_cut(seed: int) -> None:
    disk, said = crash_in_a_group(seed)
    again = files_on(disk)
    assert again.lsn >= said
    ours, journal = a_leader(seed)
    again.continue_from(DATA_ID, again.place, again.last_hash)
    follow(again, ours, journal.place)
    again.close()
    theirs = MemoryDisk()
    follower = files_on(theirs)
    follower.continue_from(DATA_ID, BEFORE_ALL, bytes(16))
    follow(follower, ours, journal.place)
    assert again_bytes(disk) == whole_segments(theirs) == whole_segments(ours)


def again_bytes(disk: FaultyDisk) -> dict[str, bytes]:
    found = {}
    for name in disk.names():
        if name.endswith(".seg"):
            file = disk.open(name)
            found[name] = file.pread(file.size(), 0).rstrip(b"\0")
    return found


def test_without_the_mark_a_torn_group_is_corruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the mark is needed: a simulated disk writes what was not synced in any order."""
    monkeypatch.setattr(replica_files, "drop_torn_group", lambda disk: None)
    corrupt = 0
    for seed in range(80):
        disk, _ = crash_in_a_group(seed)
        try:
            files_on(disk)
        except Corruption:
            corrupt += 1
    assert corrupt


def test_the_mark_is_gone_when_single_blocks_follow_or_the_files_are_closed() -> None:
    ours, journal = a_leader(1)
    disk = MemoryDisk()
    files = files_on(disk)
    files.continue_from(DATA_ID, BEFORE_ALL, bytes(16))
    append(journal, 1)
    follow(files, ours, journal.place)
    assert marked_group(disk) is not None
    append(journal, 1)
    follow(files, ours, journal.place)
    assert marked_group(disk) is None
    append(journal, 1)
    append(journal, 1)
    follow(files, ours, journal.place)
    assert marked_group(disk) is not None
    files.close()
    assert marked_group(disk) is None


def test_damage_that_is_not_in_a_group_stays_corruption() -> None:
    ours, journal = a_leader(1)
    disk = MemoryDisk()
    files = files_on(disk)
    files.continue_from(DATA_ID, BEFORE_ALL, bytes(16))
    follow(files, ours, journal.place)
    files.close()
    name = sorted(each for each in disk.files if each.endswith(".seg"))[-1]
    disk.files[name][4_096 + 100] ^= 1
    with pytest.raises(Corruption):
        files_on(disk)


@pytest.mark.parametrize("packed", [b"", b"abc", bytes(20), b"x" * 20])
def test_a_mark_that_was_not_written_whole_is_none(packed: bytes) -> None:
    disk = MemoryDisk()
    disk.files[GROUP_NAME] = bytearray(packed)
    assert marked_group(disk) is None


def test_a_mark_of_a_segment_that_is_not_the_newest_is_passed_over() -> None:
    ours, _ = a_leader(1)
    before = whole_segments(ours)
    assert len(before) > 1
    mark = GroupMark(ours)
    mark.set(Place(1, 4_096))
    drop_torn_group(ours)
    assert whole_segments(ours) == before
