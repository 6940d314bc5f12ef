"""Headers of many messages as one Arrow map array.

Header lines (`engine.messages.headers`) are cut into names and values by Arrow as a whole, where
nothing but colons is escaped and no name is repeated, which is nearly always; otherwise one message
at a time. Headers of other formats are made header lines before. Must never know where headers come
from.
"""

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from daybook.engine.facts.events import FORMAT
from daybook.engine.facts.formats import LINES
from daybook.engine.messages.content import View, is_known
from daybook.engine.messages.headers import as_dict

_LINE_FEED = 10


def header_maps(blocks: pa.Array, flags: NDArray[np.uint8]) -> pa.Array:
    """Maps name to value of an array of headers (binary), in the formats that the flags name.

    Null where there are no headers, or where they are in a format that this version does not know.
    """
    foreign = flags & FORMAT != LINES
    if foreign.any():
        blocks = _as_lines(blocks, flags, foreign)
    absent = pc.equal(pc.binary_length(blocks), 0)
    found = _as_a_whole(blocks, absent)
    return found if found is not None else _one_by_one(blocks, absent)


def _as_lines(blocks: pa.Array, flags: NDArray[np.uint8], foreign: NDArray[np.bool_]) -> pa.Array:
    """The same with header lines for what is in another format; empty if that is unknown."""
    lines = blocks.to_pylist()
    for place in np.flatnonzero(foreign).tolist():
        if lines[place]:
            its_flags = int(flags[place])
            known = is_known(its_flags)
            lines[place] = View(its_flags, lines[place]).lines() if known else b""
    return pa.array(lines, blocks.type)


def _as_a_whole(blocks: pa.Array, absent: pa.Array) -> pa.Array | None:
    """Convert all blocks at once; return None if they need to be converted one by one."""
    text = b"".join(blocks.to_pylist())
    ends = np.cumsum(pc.binary_length(blocks).to_numpy())
    # If not every backslash begins an escaped colon, there are other escapes.
    colons = text.count(b"\\c")
    if not text or text.count(b"\\") != colons:
        return None
    is_end = np.frombuffer(text, np.uint8) == _LINE_FEED
    # Every block that is not empty must end with a line feed; empty ones end where the one before
    # does.
    if not is_end[ends[ends > 0] - 1].all():
        return None
    try:
        whole = pa.array([text], pa.binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    lines = pc.split_pattern(whole, "\n").values[:-1]
    pairs = pc.split_pattern(lines, ":", max_splits=1)
    if pc.min(pc.list_value_length(pairs)).as_py() != 2:
        return None
    flat = pairs.flatten().cast(pa.string())
    if colons:
        flat = pc.replace_substring(flat, "\\c", ":")
    even = np.arange(0, len(flat), 2)
    names, values = flat.take(pa.array(even)), flat.take(pa.array(even + 1))
    breaks = np.flatnonzero(is_end) + 1
    offsets = np.concatenate([[0], np.searchsorted(breaks, ends, "right")])
    if _repeats(names, offsets):
        return None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values, mask=absent)


def _repeats(names: pa.Array, offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> bool:
    """Return whether a name occurs twice in a block."""
    encoded = names.dictionary_encode()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    keys = rows * len(encoded.dictionary) + encoded.indices.to_numpy()
    return len(np.unique(keys)) != len(keys)


def _one_by_one(blocks: pa.Array, absent: pa.Array) -> pa.Array:
    rows = [as_dict(block) for block in blocks.to_pylist()]
    ends = list(accumulate(map(len, rows), initial=0))
    names = [name for row in rows for name in row]
    values = [value for row in rows for value in row.values()]
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string()),
        mask=absent,
    )  # fmt: skip
