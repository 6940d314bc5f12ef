"""Reading blocks from any LSN on, also while another process appends.

Fault model: the newest segment may end in a block that is half-written right now, or torn. A reader
stops before it and changes nothing. Damage that something sound follows is Corruption.

Blocks are read by chunks, so memory does not grow with the journal. Must never know: what a column
means, what time it is (following waits by a callable of the caller).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from daybook.journal.block import Block, BlockCodec, RawBlock
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, JournalError, NoJournal
from daybook.journal.format import (
    BLOCK_HEADER_BYTES,
    Damage,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.layout import RowLayout
from daybook.journal.segment import (
    Segment,
    left_meanwhile,
    look_behind,
    open_segment,
    segment_names,
)


def read_blocks(
    disk: Disk,
    layout: RowLayout | None = None,
    *,
    from_lsn: int = 1,
    to_lsn: int | None = None,
    heaps: bool = True,
    proven: bool = False,
    follow: Callable[[], bool] | None = None,
) -> Iterator[Block]:
    """Blocks (marks too) from the one that holds `from_lsn` to the one that holds `to_lsn`.

    `layout` is what the caller expects, None takes what is there. Without `heaps` the blocks have
    rows only, and the hash chain is not checked. `proven` holds a block back until something
    behind it shows that it is durable. `follow` is called at the end of the journal; it waits a
    moment, and answers whether to look again. History that retention took away is skipped; if it
    is taken away while it is read, which a `Pin` prevents, that is a JournalError.

    Raises NoJournal, Corruption, NewerFormat, WrongLayout, and JournalError for what cannot be
    read.
    """
    reader = _Reader(disk, layout, heaps)
    held: Block | None = None
    try:
        for block in reader.run(from_lsn, follow):
            ready = block
            if proven:
                ready, held = held, block
            if ready is None:
                continue
            if to_lsn is not None and ready.first_lsn > to_lsn:
                return
            yield ready
            if to_lsn is not None and ready.last_lsn >= to_lsn:
                return
    except OSError as error:
        name = reader.wanted
        if isinstance(error, FileNotFoundError) and name not in segment_names(disk):
            raise left_meanwhile(name) from error
        raise JournalError(f"segment {name or '?'} cannot be read: {error}") from error
    finally:
        reader.close()


class _Reader:
    """A position in a journal: the next block is at `offset` of `segment` and begins with `lsn`."""

    def __init__(self, disk: Disk, layout: RowLayout | None, heaps: bool) -> None:
        self._disk = disk
        self._layout = layout
        self._heaps = heaps
        self._segment: Segment | None = None
        self._codec: BlockCodec | None = None
        self._offset = 0
        self._lsn = 0
        self._last_hash = b""
        self.wanted = ""
        """Name of the segment being opened or read, empty before the first."""

    def close(self) -> None:
        """Close the segment being read."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def run(self, from_lsn: int, follow: Callable[[], bool] | None) -> Iterator[Block | None]:
        """Blocks in order; None where everything so far is known to be durable."""
        while not self._start(from_lsn):
            if follow is None:
                raise NoJournal("there is no journal in the directory")
            if not follow():
                return
        while True:
            block = self._next()
            if block is not None:
                if block.last_lsn >= from_lsn or block.first_lsn >= from_lsn:
                    yield block
            elif self._next_segment():
                # A segment is begun when all before it is durable.
                yield None
            elif follow is None or not follow():
                return
            else:
                self._open_one().window.refresh()

    def _open_one(self) -> Segment:
        assert self._segment is not None
        return self._segment

    def _open(self, name: str) -> Segment:
        self.close()
        self.wanted = name
        segment = open_segment(self._disk, name, self._layout)
        try:
            self._codec = segment.codec()
        except Damage as damage:
            segment.close()
            raise Corruption(name, 0, segment.header.first_lsn, str(damage)) from damage
        self._segment = segment
        self._offset = segment.first_offset
        self._lsn = segment.header.first_lsn
        return segment

    def _start(self, from_lsn: int) -> bool:
        """Go to the block that holds the LSN, or to the end; answers whether there is a journal."""
        names = segment_names(self._disk)
        if not names:
            return False
        position = bisect_right([segment_first_lsn(name) or 0 for name in names], from_lsn)
        segment = self._open(names[max(position - 1, 0)])
        self._last_hash = segment.header.previous_hash
        self._jump(segment, from_lsn)
        while (header_end := self._hop(segment, from_lsn)) > self._offset:
            self._offset = header_end
        return True

    def _jump(self, segment: Segment, from_lsn: int) -> None:
        """Use the footer to come close; a footer is derived, so it is not trusted further."""
        try:
            footer = segment.footer()
            positions = range(footer.block_count)
            behind = bisect_right(
                positions, from_lsn, key=lambda position: footer.entry(position).first_lsn
            )
            if behind <= 1:
                return
            entry = footer.entry(behind - 1)
            packed = segment.window.take(BLOCK_HEADER_BYTES, entry.offset)
            header = unpack_block_header(packed, segment.salt)
        except Damage:
            return
        if header.first_lsn == entry.first_lsn <= from_lsn:
            self._offset = entry.offset
            self._lsn = header.first_lsn
            self._last_hash = header.previous_hash

    def _hop(self, segment: Segment, from_lsn: int) -> int:
        """End of the block at the position if all of it lies before the LSN, else the position."""
        try:
            packed = segment.window.take(BLOCK_HEADER_BYTES, self._offset)
            header = unpack_block_header(packed, segment.salt)
            following = segment.window.take(BLOCK_HEADER_BYTES, self._offset + header.block_bytes)
            after = unpack_block_header(following, segment.salt)
        except Damage:
            return self._offset
        if header.first_lsn != self._lsn or header.next_lsn > from_lsn:
            return self._offset
        self._lsn = header.next_lsn
        self._last_hash = after.previous_hash
        return self._offset + header.block_bytes

    def _next(self) -> Block | None:
        """The block at the position; None if there is none, or not yet all of it."""
        segment = self._open_one()
        raw = self._sound_block(segment)
        if raw is None:
            return None
        header = raw.header
        problem = ""
        if header.first_lsn != self._lsn:
            problem = f"the block begins with LSN {header.first_lsn} instead of {self._lsn}"
        elif self._last_hash and header.previous_hash != self._last_hash:
            problem = "the block does not carry the hash of the block before it"
        if problem:
            raise Corruption(segment.name, self._offset, self._lsn, problem)
        assert self._codec is not None
        self._offset += header.block_bytes
        self._lsn = header.next_lsn
        self._last_hash = raw.hash
        return Block(self._codec, raw, segment.name)

    def _sound_block(self, segment: Segment) -> RawBlock | None:
        """The block at the position if it is there and sound; Corruption if it should be."""
        try:
            return segment.block_at(self._offset, self._heaps)
        except Damage:
            # What was read may be old: the writer goes on meanwhile.
            segment.window.refresh()
        try:
            return segment.block_at(self._offset, self._heaps)
        except Damage as damage:
            problem = str(damage)
        if segment.is_blank_at(self._offset) or segment.begins_footer_at(self._offset):
            return None
        behind = look_behind(segment, self._offset, self._lsn)
        if not behind.evidence_offset or behind.evidence_offset == self._offset:
            return None
        segment.window.refresh()
        try:
            # The writer may have finished this block and begun the next between our two looks.
            return segment.block_at(self._offset, self._heaps)
        except Damage:
            raise Corruption(segment.name, self._offset, self._lsn, problem) from None

    def _next_segment(self) -> bool:
        """Go on to the segment behind this one; answers whether to look again.

        Raises Corruption when the later segment does not follow what was read here.
        """
        segment = self._open_one()
        names = segment_names(self._disk)
        if self._is_replaced(segment, names):
            self._follow_on(segment.name)
            return True
        later = [
            name for name in names if (segment_first_lsn(name) or 0) > segment.header.first_lsn
        ]
        if not later:
            return False
        segment.window.refresh()
        try:
            segment.block_at(self._offset, self._heaps)
            # The writer appended here before it went on to the later segment.
            return True
        except Damage:
            pass
        first_lsn = segment_first_lsn(later[0]) or 0
        if first_lsn != self._lsn and segment.file.links() == 0:
            raise left_meanwhile(segment.name)
        if first_lsn != self._lsn:
            what = (
                f"the block with LSN {self._lsn} is damaged or missing: segment {later[0]} follows"
            )
            raise Corruption(segment.name, self._offset, self._lsn, what)
        self._follow_on(later[0])
        return True

    def _is_replaced(self, segment: Segment, names: list[str]) -> bool:
        """Whether another segment took the name of this one, of which nothing was read.

        A writer does that when the first block does not fit into an empty segment.
        """
        is_empty = self._offset == segment.first_offset
        return is_empty and segment.file.links() == 0 and segment.name in names

    def _follow_on(self, name: str) -> None:
        """Go to the beginning of a segment; Corruption if it does not follow what was read."""
        last_hash = self._last_hash
        following = self._open(name)
        if last_hash and following.header.previous_hash != last_hash:
            what = "the segment does not carry the hash of the last block before it"
            raise Corruption(name, 0, following.header.first_lsn, what)
