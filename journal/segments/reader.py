"""Reading blocks from any LSN on, also while another process appends.

Fault model: the newest segment may end in a block that is just being written, or torn. A reader
stops before it without repairing it. Damage that is followed by a sound block or footer is
Corruption.

The file is read in chunks, so memory does not grow with the journal. Must never know: what a column
means, what time it is (to follow, it waits by a function of the caller).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from daybook.journal.blocks.block import Block, BlockCodec, RawBlock
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    Damage,
    segment_first_lsn,
    unpack_block_header,
)
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.confirmed import UNBOUNDED
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, JournalError, NoJournal
from daybook.journal.segments.segment import (
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
    near: tuple[int, int] = (0, 0),
) -> Iterator[Block]:
    """Yield blocks, marks included, from the one with `from_lsn` to the one with `to_lsn`.

    `layout` is the expected layout; None accepts any. Without `heaps` the blocks have rows only,
    and the hash chain is not checked. `proven` delays each block until a later block or segment
    proves that it is durable. `follow` is called at the end of the journal; it waits a moment and
    returns whether to look again. `near` is where a block before `from_lsn` probably is: its first
    LSN, and its offset in the segment of `from_lsn`; so less has to be searched. History that
    retention has removed is skipped; if retention removes it during the read, which a `Pin`
    prevents, a JournalError is raised.

    Raises NoJournal, Corruption, NewerFormat, WrongLayout, and JournalError if a file cannot be
    read.
    """
    reader = _Reader(disk, layout, heaps, near)
    previous: Block | None = None
    try:
        for block in reader.run(from_lsn, follow):
            ready = block
            if proven:
                ready, previous = previous, block
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

    def __init__(
        self, disk: Disk, layout: RowLayout | None, heaps: bool, near: tuple[int, int]
    ) -> None:
        self._near = near
        self._disk = disk
        self._layout = layout
        self._heaps = heaps
        self._segment: Segment | None = None
        self._codec: BlockCodec | None = None
        self._offset = 0
        self._lsn = 0
        self._last_hash = b""
        # Where the journal ends for readers; the disk of a node has it.
        self._confirmed = 0
        self.wanted = ""
        """Name of the segment being opened or read, "" before the first."""

    def close(self) -> None:
        """Close the segment being read."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def run(self, from_lsn: int, follow: Callable[[], bool] | None) -> Iterator[Block | None]:
        """Yield blocks in order; None where everything so far is known to be durable."""
        while not self._start(from_lsn):
            if follow is None:
                raise NoJournal("there is no journal in the directory")
            if not follow():
                return
        while True:
            block = None if self._is_at_end() else self._next()
            if block is not None:
                if block.last_lsn >= from_lsn or block.first_lsn >= from_lsn:
                    yield block
            elif not self._is_at_end() and self._next_segment():
                # A new segment proves that everything before it is durable.
                yield None
            elif follow is None or not follow():
                return
            else:
                self._open_one().window.refresh()

    def _is_at_end(self) -> bool:
        """Return whether everything that follows is not confirmed yet."""
        if self._lsn > self._confirmed:
            self._confirmed = getattr(self._disk, "confirmed_lsn", UNBOUNDED)
            # Events that were not confirmed may have been replaced.
            self._open_one().window.refresh()
        return self._lsn > self._confirmed

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
        """Go to the block with the LSN, or to the end; return whether there is a journal."""
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
        """Use the footer to move near the LSN; it is derived data, so its entry is checked."""
        try:
            footer = segment.footer()
            positions = range(footer.block_count)
            behind = bisect_right(
                positions, from_lsn, key=lambda position: footer.entry(position).first_lsn
            )
            if behind <= 1:
                return
            entry = footer.entry(behind - 1)
        except Damage:
            first_lsn, offset = self._near
            if first_lsn:
                self._go(segment, first_lsn, offset, from_lsn)
            return
        self._go(segment, entry.first_lsn, entry.offset, from_lsn)

    def _go(self, segment: Segment, first_lsn: int, offset: int, from_lsn: int) -> None:
        """Go to a block before the LSN, if it is at the given place."""
        try:
            packed = segment.window.take(BLOCK_HEADER_BYTES, offset)
            header = unpack_block_header(packed, segment.salt)
        except Damage:
            return
        if header.first_lsn == first_lsn <= from_lsn:
            self._offset = offset
            self._lsn = header.first_lsn
            self._last_hash = header.previous_hash

    def _hop(self, segment: Segment, from_lsn: int) -> int:
        """Return the end of the current block if it ends before the LSN, else the position."""
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
        """Return the block at the position; None if there is none or it is not complete yet."""
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
        """Return the block at the position if it is sound. Raises Corruption if it must be."""
        try:
            return segment.block_at(self._offset, self._heaps)
        except Damage:
            # The chunk may be outdated, because the writer continues meanwhile.
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
            # The writer may have finished this block and begun the next between the two reads.
            return segment.block_at(self._offset, self._heaps)
        except Damage:
            raise Corruption(segment.name, self._offset, self._lsn, problem) from None

    def _next_segment(self) -> bool:
        """Move to the next segment; return whether to look again.

        Raises Corruption if the next segment does not continue this one.
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
            # The writer appended here before it began the later segment.
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
        """Return whether another segment has replaced this one, which was not read yet.

        A writer does that if the first block does not fit into an empty segment.
        """
        is_empty = self._offset == segment.first_offset
        return is_empty and segment.file.links() == 0 and segment.name in names

    def _follow_on(self, name: str) -> None:
        """Go to the beginning of a segment. Raises Corruption if it is not the next one."""
        last_hash = self._last_hash
        if self._open_one().name in getattr(self._disk, "remade", ()):
            # Its blocks were compressed again, so the next segment carries another hash.
            last_hash = self._last_hash = b""
        following = self._open(name)
        if last_hash and following.header.previous_hash != last_hash:
            what = "the segment does not carry the hash of the last block before it"
            raise Corruption(name, 0, following.header.first_lsn, what)
