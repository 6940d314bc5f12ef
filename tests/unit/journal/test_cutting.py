"""The end of a journal is cut off: all of it, whatever happens, and a copy of it stays."""

import random
from contextlib import suppress

import pytest

from daybook.journal.cutting import decide_cut, decided_cut, finish_cut
from daybook.journal.disk import Disk, MemoryDisk
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from tests.simulation.machine.disk import FaultyDisk, PowerCut
from tests.suites.journal_rows import DATA_ID, LAYOUT, SEGMENT_BYTES, make_batch, some_contents


def filled(disk: Disk, chance: random.Random, blocks: int) -> tuple[Journal, list[Place]]:
    """A journal, and the places where its blocks begin and the last one ends."""
    journal = Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES)
    places = [journal.place]
    for _ in range(blocks):
        count = chance.choice((1, 4, 60, 200))
        journal.append(make_batch(journal.next_lsn, some_contents(journal.next_lsn, count)))
        places.append(journal.place)
    journal.close()
    return journal, places


def events_of(disk: Disk) -> list[object]:
    if not segment_names(disk):
        return []
    return [event for block in read_blocks(disk) for event in block.events()]


def cut(disk: Disk, place: Place, kept: Disk) -> None:
    decide_cut(disk, place)
    finish_cut(disk, kept)


@pytest.mark.parametrize("seed", range(25))
def test_a_journal_ends_at_the_cut_and_the_rest_is_kept(seed: int) -> None:
    chance = random.Random(seed)
    disk, kept = MemoryDisk(), MemoryDisk()
    _, places = filled(disk, chance, 14)
    whole = events_of(disk)
    place = chance.choice(places)
    cut(disk, place, kept)
    before, behind = events_of(disk), events_of(kept)
    assert before + behind == whole
    journal, repair = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
    assert not repair.cut_bytes
    assert journal.place == place
    journal.append(make_batch(journal.next_lsn, some_contents(journal.next_lsn, 3)))
    journal.close()
    assert events_of(disk)[: len(before)] == before
    assert len(events_of(disk)) == len(before) + 3


@pytest.mark.parametrize("seed", range(120))
def test_a_cut_that_was_interrupted_is_finished(seed: int) -> None:
    chance = random.Random(seed)
    disk, kept = FaultyDisk(seed), MemoryDisk()
    _, places = filled(disk, chance, 10)
    whole = events_of(disk)
    place = chance.choice(places)
    disk.crash_after(chance.randint(1, 30))
    try:
        cut(disk, place, kept)
    except BaseException:
        if not disk.dead:
            raise
    disk = disk.crash()
    if decided_cut(disk) is not None:
        finish_cut(disk, kept)
    journal, _ = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
    journal.close()
    # Nothing was decided, or everything was done.
    if journal.place == places[-1]:
        assert events_of(disk) == whole
    else:
        assert journal.place == place
        assert events_of(disk) + events_of(kept) == whole


@pytest.mark.parametrize("seed", range(60))
def test_a_cut_that_a_killed_process_decided_is_finished(seed: int) -> None:
    """It was killed before the decision was on the disk, and the next one loses its power."""
    chance = random.Random(seed)
    disk, kept = FaultyDisk(seed), MemoryDisk()
    _, places = filled(disk, chance, 10)
    whole = events_of(disk)
    place = chance.choice(places[:-1])
    disk.fail_next("sync_directory")
    with pytest.raises(OSError, match="directory"):
        decide_cut(disk, place)
    disk.survive_kill()
    assert decided_cut(disk) == place
    disk.crash_after(chance.randint(2, 12))
    with suppress(PowerCut):
        finish_cut(disk, kept)
    disk = disk.crash()
    finish_cut(disk, kept)
    journal, _ = Journal.open(disk, LAYOUT, segment_bytes=SEGMENT_BYTES)
    journal.close()
    assert journal.place == place
    assert events_of(disk) + events_of(kept) == whole


def test_a_decision_with_a_flipped_bit_is_refused() -> None:
    disk = MemoryDisk()
    _, places = filled(disk, random.Random(1), 5)
    decide_cut(disk, places[2])
    disk.files["next.cut"][3] ^= 1
    before = {name: bytes(content) for name, content in disk.files.items()}
    with pytest.raises(JournalError, match=r"next\.cut"):
        finish_cut(disk, MemoryDisk())
    assert disk.files == before


def test_a_cut_within_a_block_is_refused() -> None:
    disk = MemoryDisk()
    _, places = filled(disk, random.Random(1), 5)
    whole = events_of(disk)
    decide_cut(disk, places[2]._replace(offset=places[2].offset + 1))
    with pytest.raises(JournalError, match="no block ends"):
        finish_cut(disk, MemoryDisk())
    assert events_of(disk) == whole
