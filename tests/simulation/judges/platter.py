"""Reading what is surely on the platter: the judge of what was durable when something was said.

It looks at the durable content of the simulated disk alone, not at what the journal believes.
"""

from collections.abc import Iterator

from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import Damage, segment_name
from daybook.journal.disk import MemoryDisk
from daybook.journal.segments.segment import Segment, read_segment_header
from tests.simulation.machine.disk import FaultyDisk


class PlatterReader:
    """A position in the journal; `new_blocks` continues from there as far as all is sound."""

    def __init__(self) -> None:
        self.next_lsn = 1
        self._name = ""
        self._offset = 0
        self._codec: BlockCodec | None = None

    def new_blocks(self, disk: FaultyDisk) -> Iterator[Block]:
        """Blocks with events that became durable since the last call."""
        image = MemoryDisk()
        image.files = disk.durable_files()
        segment: Segment | None = None
        while True:
            if segment is None:
                segment = self._open(image)
                if segment is None:
                    return
                # All segments have the same data id and layout.
                self._codec = self._codec or segment.codec()
            try:
                raw = segment.block_at(self._offset, with_heap=True)
                sound = raw.header.first_lsn == self.next_lsn
            except Damage:
                sound = False
            if not sound:
                following = segment_name(self.next_lsn)
                if following == self._name or following not in image.files:
                    return
                self._name, self._offset, segment = following, 0, None
                continue
            self._offset += raw.header.block_bytes
            if raw.header.event_count:
                self.next_lsn = raw.header.next_lsn
                assert self._codec is not None
                yield Block(self._codec, raw, segment.name)

    def _open(self, image: MemoryDisk) -> Segment | None:
        name = self._name or segment_name(1)
        if name not in image.files:
            return None
        file = image.open(name)
        try:
            segment = Segment(file, name, read_segment_header(file))
        except Damage:
            return None
        if not self._name or not self._offset:
            self._name, self._offset = name, segment.first_offset
        return segment
