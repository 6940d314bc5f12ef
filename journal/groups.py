"""Groups of blocks that are written and synced at once (ADR 118).

Usually one block is in flight, so only the newest can be torn, and damage before a sound block is
corruption. A copy that catches up with many small blocks cannot sync each. So it marks where a
group begins, in a file, before it writes the group: behind that place a crash may have left any
part of it.

Invariants: the mark is durable before the first byte of a group, and a group is durable before
anything behind it. Must never know a connection.
"""

from struct import Struct
from typing import Final

from crc32c import crc32c

from daybook.journal.blocks.format import segment_name
from daybook.journal.cutting import blank_behind, end_of_sound_blocks
from daybook.journal.disk import Disk, File, write_all
from daybook.journal.places import BEFORE_ALL, Place
from daybook.journal.segments.segment import open_segment, segment_names

GROUP_NAME: Final = "next.group"
"""The file with the mark."""
# In one sector, so it is there whole or not at all.
_MARK: Final = Struct("<QQI")


class GroupMark:
    """The mark of one journal, for the process that writes it."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._file: File | None = None
        self._place = BEFORE_ALL

    def set(self, place: Place) -> None:
        """Mark that a group begins at a place; durable when this returns. Raises OSError."""
        if self._file is None:
            self._file = self._disk.open_for_writing(GROUP_NAME)
            self._write(place)
            self._disk.sync_directory()
        else:
            self._write(place)

    def _write(self, place: Place) -> None:
        assert self._file is not None
        write_all(self._file, _MARK.pack(*place, crc32c(_MARK.pack(*place, 0))), 0)
        self._file.fdatasync()
        self._place = place

    def clear(self) -> None:
        """Take the mark away, once the group is durable. Raises OSError."""
        if self._place != BEFORE_ALL:
            self._write(BEFORE_ALL)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def marked_group(disk: Disk) -> Place | None:
    """Return where a group begins that may be torn; None if none was being written."""
    try:
        file = disk.open(GROUP_NAME)
    except FileNotFoundError:
        return None
    try:
        packed = file.pread(_MARK.size, 0)
    finally:
        file.close()
    if len(packed) < _MARK.size:
        return None
    segment, offset, crc = _MARK.unpack(packed)
    place = Place(segment, offset)
    # A mark that was not written whole was not followed by blocks.
    is_sound = crc == crc32c(_MARK.pack(*place, 0))
    return place if is_sound and place != BEFORE_ALL else None


def drop_torn_group(disk: Disk) -> None:
    """Cut off what a crash left of a group, behind its last block that is whole and has all before
    it. No part of it was acknowledged. Raises JournalError and OSError; may be repeated."""
    place = marked_group(disk)
    names = segment_names(disk)
    # Only the newest segment is written.
    if place is None or not names or names[-1] != segment_name(place.segment):
        return
    segment = open_segment(disk, names[-1])
    try:
        end = place._replace(offset=end_of_sound_blocks(segment, place))
    finally:
        segment.close()
    blank_behind(disk, end)
    mark = GroupMark(disk)
    mark.set(BEFORE_ALL)
    mark.close()
