"""Pages give back what they were made of, and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.events import ID_MAX, OF_HEADERS, SHORT_ID_MAX
from daybook.engine.messages.annotations import annotated, hash_of
from daybook.engine.messages.message import PRIORITIES, message_without_content
from daybook.engine.queues.entry import HELD_LEVEL, RETAINED, SCHEDULED_LEVEL, Entry, Scheduled
from daybook.engine.state.digest import entry_hash
from daybook.paging.tables import pages
from daybook.paging.tables.pages import SIZE_MAX, Rows, rows_of
from daybook.paging.tables.tables import IndexDamaged

Known = tuple[int, int, int, int, int, int, int, int]

NOTED = {hash_of(each): each for each in (b"", b"some", b"others")}
"""Annotations by their hash."""
ids = st.integers(1, (1 << 63) - 1)
places = st.integers(1, 9) | st.integers(SHORT_ID_MAX - 1, SHORT_ID_MAX + 2) | st.just(ID_MAX)
times = st.one_of(st.just(0), st.integers(0, (1 << 63) - 1))
known = st.tuples(
    ids, st.integers(0, SIZE_MAX), places, st.integers(0, 65535),
    st.one_of(st.integers(0, 255), st.integers(0, 65535)), times, times, st.sampled_from([*NOTED]),
)  # fmt: skip
entries = st.lists(known, min_size=1, max_size=101, unique_by=lambda row: row[0]).map(sorted)


def listed(rows: Rows) -> list[Known]:
    return list(zip(*[column.tolist() for column in rows], strict=True))


def some(
    count: int,
    first: int = 1,
    expires: int = 0,
    due: int = 0,
    flags: int = 1,
    address: int = 3,
    annotated: int = 0,
) -> Rows:
    return rows_of(
        [(first + n, 200 + n, address, n % 4, flags, expires, due, annotated) for n in range(count)]
    )


@given(rows=entries, before=entries, cut=st.data())
def test_plain_rows_become_the_same_pages(
    rows: list[Known], before: list[Known], cut: st.DataObject
) -> None:
    short = [(*row[:2], row[2] & SHORT_ID_MAX, row[3], row[4] & 255, 0, 0, 0) for row in rows]
    plain = rows_of(short)
    assert not pages.extras_of(plain)
    made = pages.PlainRows(plain)
    start = cut.draw(st.integers(0, len(short) - 1))
    stop = cut.draw(st.integers(start + 1, len(short)))
    part = plain.take(slice(start, stop))
    assert made.page(start, stop) == pages.encode(part)
    first = rows_of([(*row[:2], 1, row[3], 1, 0, 0, 0) for row in before])
    page = pages.encode(first)
    header = pages.header_of(page, 7, before[0][0])
    assert made.appended(page, header, start, stop) == pages.append(page, header, part)


@given(entries=entries)
def test_a_page_gives_back_what_it_was_made_of(entries: list[Known]) -> None:
    page = pages.encode(rows_of(entries))
    assert len(page) <= pages.PAGE_BYTES_MAX
    assert listed(pages.decode(page, 7, entries[0][0])) == entries
    header = pages.header_of(page, 7, entries[0][0])
    assert (header.messages, header.last) == (len(entries), entries[-1][0])
    assert bool(header.extras & pages.WITH_EXPIRES) == any(entry[5] for entry in entries)
    assert bool(header.extras & pages.WITH_DUE) == any(entry[6] for entry in entries)
    assert bool(header.extras & pages.WITH_UPPER_FLAGS) == any(entry[4] > 255 for entry in entries)
    is_wide = any(entry[2] > SHORT_ID_MAX for entry in entries)
    assert bool(header.extras & pages.WITH_UPPER_ADDRESS) == is_wide
    assert bool(header.extras & pages.WITH_ANNOTATIONS) == any(entry[7] for entry in entries)


@pytest.mark.parametrize(
    ("extras", "most"),
    [
        ({}, 213), ({"expires": 9}, 150), ({"due": 9}, 150), ({"expires": 9, "due": 9}, 116),
        ({"address": 1 << 32}, 176), ({"flags": 256, "due": 9, "address": 1 << 32}, 127),
        ({"flags": 256}, 203), ({"expires": 9, "due": 9, "flags": 256}, 112),
        ({"annotated": 7}, 150), ({"annotated": 7, "address": 1 << 32}, 131),
    ],
)  # fmt: skip
def test_a_full_page_takes_one_page_of_lmdb(extras: dict[str, int], most: int) -> None:
    assert pages.capacity(pages.extras_of(some(1, **extras))) == most
    assert len(pages.encode(some(most, **extras))) <= 4080
    with pytest.raises(AssertionError):
        pages.encode(some(most + 1, **extras))
    with pytest.raises(AssertionError):
        pages.encode(pages.NO_ROWS)


def test_many_rows_become_full_pages() -> None:
    found = pages.encode_all(some(500))
    assert [first for first, _ in found] == [1, 214, 427]
    decoded = [pages.decode(page, 1, first) for first, page in found]
    assert listed(pages.join(decoded)) == listed(some(500))


@given(length=st.integers(0, 391))
def test_a_page_that_was_cut_is_found(length: int) -> None:
    page = pages.encode(some(20))
    assert len(page) == 392
    with pytest.raises(IndexDamaged, match="page of queue 7"):
        pages.decode(page[:length], 7, 1)


def test_a_sound_page_under_another_key_is_found() -> None:
    page = pages.encode(some(20, first=10))
    with pytest.raises(IndexDamaged, match="begins with 10 and ends with 29"):
        pages.decode(page, 7, 11)


def test_an_empty_page_is_damage() -> None:
    with pytest.raises(IndexDamaged, match="12 bytes for 0 messages"):
        pages.decode(pages.HEADER.pack(0, 0, 0, 0), 7, 1)


@given(count=st.integers(1, 100), more=st.integers(1, 100))
def test_appending_is_making_a_page_of_both(count: int, more: int) -> None:
    page = pages.encode(some(count))
    rows = some(more, first=1000)
    grown = pages.append(page, pages.header_of(page, 1, 1), rows)
    assert grown == pages.encode(pages.join([some(count), rows]))


def test_no_rows_of_no_entries() -> None:
    assert listed(rows_of([])) == []


def test_rows_may_be_taken_in_any_way() -> None:
    rows = some(5)
    assert listed(rows.take(slice(1, 3))) == listed(rows)[1:3]
    assert listed(rows.take(np.array([4, 0]))) == [listed(rows)[4], listed(rows)[0]]


@given(entries=entries, queue=places, level=st.integers(0, HELD_LEVEL))
def test_hashes_are_those_of_the_digest(entries: list[Known], queue: int, level: int) -> None:
    rows = rows_of(entries)
    levels = [SCHEDULED_LEVEL if entry[6] else level for entry in entries]
    found = pages.entry_hashes(
        np.full(len(entries), queue, pages.U64), np.array(levels, pages.U8), rows
    )
    expected = []
    for (message_id, size, address, delivery_count, flags, expires, due, noted), each in zip(
        entries, levels, strict=True
    ):
        # Where one level has all priorities, the priority is between the bits of the flags.
        aside = flags >> 4 & 15, flags & 15 | flags >> 4 & OF_HEADERS
        priority, own = (each, flags) if each < PRIORITIES else aside
        message = message_without_content(message_id, address, priority, own, expires, size)
        message = annotated(message, NOTED[noted])
        entry = Scheduled(message, due) if due else Entry(message)
        entry.level = each
        entry.delivery_count = delivery_count
        entry.retained = flags & RETAINED > 0
        expected.append(entry_hash(queue, entry))
    assert found.tolist() == expected
