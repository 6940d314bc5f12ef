"""The events of several blocks as columns: one numpy array for each column, over all blocks.

Rows frames are decompressed once; the heap of a block only when a detail in it is needed. Must
never know the meaning of events.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts import events
from daybook.engine.facts.events import HEAPS, Row
from daybook.journal.blocks.block import Block, Buffer
from daybook.journal.blocks.format import Damage
from daybook.journal.errors import Corruption

ROW_COLUMNS: Final = len(events.COLUMNS)
DETAIL_BYTES: Final = ROW_COLUMNS + HEAPS.index("detail")
HEADERS_BYTES: Final = ROW_COLUMNS + HEAPS.index("headers")
BODY_BYTES: Final = ROW_COLUMNS + HEAPS.index("body")


class Columns:
    """The events of consecutive blocks; marks have none.

    `arrays` are in the order of the layout: the columns of a row, then the lengths of its heaps.
    Ids of addresses and queues have eight bytes where a block needs them, and four elsewhere.
    The event at position p has LSN `first_lsn` + p.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Decompress the rows of blocks, at least one of which has events. Raises Corruption."""
        self.blocks: Final = [block for block in blocks if block.count]
        self.first_lsn: Final = self.blocks[0].first_lsn
        ends = list(accumulate((block.count for block in self.blocks), initial=0))
        self.count: Final = ends[-1]
        self.starts: Final = np.array(ends[:-1], np.int64)
        self.arrays: Final = _arrays_of(self.blocks, self.starts, self.count)
        self._details = b""
        self._ends: list[int] = []
        self._open_from = 0

    def column(self, position: int) -> NDArray[Any]:
        """Return a column by its position in the layout."""
        return self.arrays[position]

    def sizes(self, positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """Bytes of headers and body of some events."""
        headers: NDArray[np.int64] = self.arrays[HEADERS_BYTES][positions].astype(np.int64)
        headers += self.arrays[BODY_BYTES][positions]
        return headers

    def events(self, positions: NDArray[np.intp]) -> Iterator[tuple[int, Row, bytes, int, int]]:
        """(LSN, row, detail, bytes of headers, bytes of body) of some events, in order.

        Raises Corruption.
        """
        chosen = [array[positions].tolist() for array in self.arrays]
        rows: Iterator[Any] = zip(*chosen[:ROW_COLUMNS], strict=True)
        lengths = zip(chosen[DETAIL_BYTES], chosen[HEADERS_BYTES], chosen[BODY_BYTES], strict=True)
        for position, row, (detail, headers, body) in zip(
            positions.tolist(), rows, lengths, strict=True
        ):
            found = self._detail(position) if detail else b""
            yield self.first_lsn + position, row, found, headers, body

    def details(self, positions: NDArray[np.intp]) -> Iterator[bytes]:
        """Details of some events, in order. Raises Corruption."""
        yield from map(self._detail, positions.tolist())

    def _detail(self, position: int) -> bytes:
        within = position - self._open_from
        if not 0 <= within < len(self._ends) - 1:
            self._open(int(np.searchsorted(self.starts, position, "right")) - 1)
            within = position - self._open_from
        return self._details[self._ends[within] : self._ends[within + 1]]

    def _open(self, number: int) -> None:
        """Decompress the heap of a block."""
        block = self.blocks[number]
        try:
            self._details = bytes(block.heaps()[0])
        except Damage as damage:
            raise _corruption(block, damage) from damage
        self._ends = list(accumulate(block.columns()[DETAIL_BYTES], initial=0))
        self._open_from = int(self.starts[number])


def _arrays_of(blocks: list[Block], starts: NDArray[np.int64], count: int) -> list[NDArray[Any]]:
    """Put the columns of blocks together; small blocks of the same form and size at once."""
    frames = _decompressed(blocks)
    alike: dict[tuple[int, int], list[int]] = {}
    for number, block in enumerate(blocks):
        alike.setdefault((block.header.flags, block.count), []).append(number)
    # A column is as wide as in the block where it is widest.
    codes = zip(*[_codes(blocks[numbers[0]]) for numbers in alike.values()], strict=True)
    arrays = [np.empty(count, np.result_type(*forms)) for forms in codes]
    for (_, length), numbers in alike.items():
        block = blocks[numbers[0]]
        joined = b"".join([frames[number] for number in numbers])
        rows = np.frombuffer(joined, np.uint8).reshape(len(numbers), -1)
        order = block.codec.order(block.header)
        first = int(starts[numbers[0]])
        places: Any = slice(first, first + length)
        if len(numbers) > 1:
            places = (starts[numbers][:, np.newaxis] + np.arange(length)).ravel()
        columns = zip(arrays, _codes(block), order.starts, order.ends, strict=True)
        for array, code, start, end in columns:
            part = np.ascontiguousarray(rows[:, length * start : length * end])
            array[places] = part.view(code).ravel()
    return arrays


def _codes(block: Block) -> list[str]:
    """The types of the columns of a block."""
    return ["<" + code for code in block.codec.codes(block.header)]


def _decompressed(blocks: list[Block]) -> Sequence[Buffer]:
    """Decompress the rows frames of blocks. Raises Corruption."""
    codec = blocks[0].codec
    try:
        for block in blocks:
            codec.check_size(block.header)
        frames = [(block.rows_frame, block.header.rows_raw_bytes) for block in blocks]
        return codec.decompress_all(frames)
    except Damage:
        for block in blocks:
            try:
                block.columns()
            except Damage as damage:
                raise _corruption(block, damage) from damage
        raise


def _corruption(block: Block, damage: Damage) -> Corruption:
    return Corruption(block.segment, block.offset, block.first_lsn, str(damage))
