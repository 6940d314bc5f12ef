"""Summaries of many blocks, for checking a journal: the same as `BlockCodec.summarise`, in
numpy.

A writer's blocks are often small, where plain Python is quicker; a check of a journal has thousands
of events in each. Must never know the meaning of a column beyond the names in the layout.
"""

from typing import Any, Final

import numpy as np

from daybook.journal.blocks.block import BLOOM_FACTOR, Block, Summary, kind_bit

SMALL: Final = 64
"""Up to so many events the summary is made in plain Python."""


def summary_of_block(block: Block) -> Summary:
    """Return the summary of a block; raises Damage if its rows cannot be decoded."""
    if block.is_mark:
        return Summary()
    columns, codec = block.columns(), block.codec
    if block.count <= SMALL:
        return codec.summarise(columns)
    times = np.asarray(columns[codec.time])
    messages = np.asarray(columns[codec.message])
    named = messages[messages != 0]
    kinds = 0
    for kind in np.flatnonzero(np.bincount(np.asarray(columns[codec.kind]))).tolist():
        kinds |= kind_bit(kind)
    return Summary(
        int(times.min()), int(times.max()),
        int(named.min()) if len(named) else 0, int(named.max()) if len(named) else 0,
        kinds, _queue_bits(np.asarray(columns[codec.queue])),
    )  # fmt: skip


def _queue_bits(queues: "np.ndarray[Any, Any]") -> int:
    """Return the bits of many queues, as `queue_bit` gives that of one."""
    spread = queues.astype(np.uint64) * np.uint64(BLOOM_FACTOR) >> np.uint64(32)
    bits = np.uint64(1) << (np.uint64(1) + spread % np.uint64(63))
    bits[queues == 0] = 1
    return int(np.bitwise_or.reduce(bits))
