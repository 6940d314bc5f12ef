"""Any batches that are written are read back as they were, from any LSN, whatever the segments."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.disk import MemoryDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.suites.journal_rows import (
    Content,
    Event,
    all_events,
    create,
    make_batch,
    read_all,
    reopen,
)

U64 = st.integers(0, 2**64 - 1)
ROWS = st.tuples(
    st.integers(0, 255),
    st.integers(0, 65535),
    st.integers(0, 2**32 - 1),
    U64,
    st.integers(-(2**63), 2**63 - 1),
)
CONTENTS = st.tuples(ROWS, st.binary(max_size=40), st.binary(max_size=3000))
BATCHES = st.lists(st.lists(CONTENTS, min_size=1, max_size=12), min_size=1, max_size=12)


@given(batches=BATCHES, marks=st.sets(st.integers(0, 11)), reopens=st.sets(st.integers(0, 11)))
def test_what_is_written_is_read_back(
    batches: list[list[Content]], marks: set[int], reopens: set[int]
) -> None:
    disk = MemoryDisk()
    journal = create(disk)
    written: list[Event] = []
    for number, contents in enumerate(batches):
        first_lsn = journal.next_lsn
        journal.append(make_batch(first_lsn, contents))
        written += [(first_lsn + i, *content) for i, content in enumerate(contents)]
        if number in marks:
            journal.mark(number)
        if number in reopens:
            journal.close()
            journal = reopen(disk)
    journal.close()
    assert read_all(disk) == written
    report = verify(disk)
    assert report.ok
    assert report.tail is None
    assert report.events == stat(disk).events == len(written)


@given(batches=BATCHES, data=st.data())
def test_any_range_is_read(batches: list[list[Content]], data: st.DataObject) -> None:
    disk = MemoryDisk()
    journal = create(disk)
    for contents in batches:
        journal.append(make_batch(journal.next_lsn, contents))
    last_lsn = journal.durable_lsn
    from_lsn = data.draw(st.integers(1, last_lsn))
    to_lsn = data.draw(st.integers(from_lsn, last_lsn))
    lsns = [
        event[0]
        for block in read_blocks(disk, from_lsn=from_lsn, to_lsn=to_lsn)
        for event in block.events()
    ]
    assert lsns == list(range(lsns[0], lsns[-1] + 1))
    assert lsns[0] <= from_lsn
    assert lsns[-1] >= to_lsn
    assert next(iter(all_events(disk, from_lsn)))[0] == lsns[0]


@given(batches=BATCHES)
def test_columns_rows_and_strings_tell_the_same(batches: list[list[Content]]) -> None:
    disk = MemoryDisk()
    journal = create(disk)
    for contents in batches:
        journal.append(make_batch(journal.next_lsn, contents))
    for block, contents in zip(read_blocks(disk), batches, strict=True):
        columns = block.columns()
        assert list(zip(*columns[:5], strict=True)) == list(block.rows())
        assert list(columns[5]) == [len(note) for _, note, _ in contents]
        assert list(block.strings(1)) == [body for _, _, body in contents]
        assert bytes(block.heaps()[0]) == b"".join(note for _, note, _ in contents)
