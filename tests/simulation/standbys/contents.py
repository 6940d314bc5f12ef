"""The events of a simulated journal, read from files; a segment again only if it has changed."""

from functools import lru_cache

from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.groups import GroupMark, drop_torn_group, marked_group
from daybook.journal.places import Place
from daybook.journal.segments.reader import read_blocks
from tests.simulation.machine.disk import FaultyDisk


def contents(disk: FaultyDisk) -> dict[int, int]:
    """Return the numbers in a journal, by their LSNs; without a torn group, which a node that
    starts again cuts off."""
    found: dict[int, int] = {}
    group = marked_group(disk)
    for name in disk.names():
        first = segment_first_lsn(name)
        if first is not None:
            file = disk.open(name)
            torn = group if group is not None and group.segment == first else None
            found |= _of_segment(name, first, file.pread(file.size(), 0), torn)
    return found


@lru_cache(512)
def _of_segment(name: str, first: int, data: bytes, torn: Place | None) -> dict[int, int]:
    disk = FaultyDisk(0)
    disk.open_for_writing(name).pwrite(data, 0)
    if torn is not None:
        GroupMark(disk).set(torn)
        drop_torn_group(disk)
    return _read(disk, first)


def contents_at_rest(disk: FaultyDisk) -> dict[int, int]:
    """As `contents`, and check how the segments follow each other."""
    return _read(disk, 1)


def _read(disk: FaultyDisk, first: int) -> dict[int, int]:
    return {
        int(event[0]): int(event[2])
        for block in read_blocks(disk, from_lsn=first) for event in block.events()
    }  # fmt: skip
