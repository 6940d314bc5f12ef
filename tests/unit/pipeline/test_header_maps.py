"""Header blocks as maps: cut as a whole or one by one, the same comes out."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from daybook.engine.messages.headers import as_dict, build
from daybook.pipeline.header_maps import header_maps
from tests.support.worlds.second_format import MAPS, encode, installed

names = st.text(min_size=1, max_size=6)
pieces = st.sampled_from([b"a", b"b", b":", b"\n", b"\\n", b"\\c", b"\\\\", b"\xff", b"\xc3\xbc"])
canonical = st.lists(st.tuples(names, st.text(max_size=6)), max_size=4).map(build)
plain = st.lists(st.sampled_from(["a:1", "b:2", "c:x:y", "d:"]), max_size=4, unique=True).map(
    lambda lines: "".join(line + "\n" for line in lines).encode()
)
anything = st.lists(pieces, max_size=8).map(b"".join)


def maps(blocks: list[bytes]) -> list[dict[str, str] | None]:
    found = header_maps(pa.array(blocks, pa.binary()), np.zeros(len(blocks), np.uint8))
    assert found.type == pa.map_(pa.string(), pa.string())
    found.validate(full=True)
    rows = found.to_pylist()
    assert all(row is None or len(row) == len(dict(row)) for row in rows)
    return [dict(row) if row is not None else None for row in rows]


@given(st.lists(plain | canonical | anything, max_size=5) | st.lists(plain, max_size=5))
@example([b"a:1", b"b:2\n"])
@example([b"", b"a:1\n", b"", b"b:2\n", b""])
@example([b"a:1\na:2\n"])
@example([b"a:1\n\nb:2\n"])
@example([b"no colon\n"])
@example([b"\xff:\xfe\n", b"b:2\n"])
@example([b":2\n"])
@example([b"\\c:\\n\n"])
def test_it_is_what_headers_are(blocks: list[bytes]) -> None:
    assert maps(blocks) == [as_dict(block) if block else None for block in blocks]


def test_nothing_becomes_nothing() -> None:
    assert maps([]) == []
    assert maps([b"", b""]) == [None, None]


def test_a_slice_of_an_array_is_only_that() -> None:
    blocks = pa.array([b"a:1\n", b"b:2\n", b"c:3\n"], pa.binary())
    [found] = header_maps(blocks.slice(1, 1), np.zeros(1, np.uint8)).to_pylist()
    assert dict(found) == {"b": "2"}


def test_other_formats_are_translated_and_unknown_ones_are_null() -> None:
    block = encode({"n": 7, "on": True}, destination="d")
    blocks = pa.array([b"a:1\n", block, b"", b""], pa.binary())
    flags = np.array([1, MAPS | 1, MAPS, 0], np.uint8)
    with installed():
        found = header_maps(blocks, flags).to_pylist()
    said = [{"a": "1"}, {"destination": "d", "n": "7", "on": "true"}, None, None]
    assert [dict(row) if row is not None else None for row in found] == said
    unknown = header_maps(blocks, flags).to_pylist()
    assert unknown[0] == [("a", "1")]
    assert unknown[1:] == [None, None, None]
