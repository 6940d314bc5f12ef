"""Content by LSN: from any segment, beside a writer, bounded, and never wrong."""

import random
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.facts import events
from daybook.engine.facts.rows import pack_wide
from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.format import segment_first_lsn, segment_name
from daybook.journal.disk import Disk, MemoryDisk, RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.content.content import FILES_MAX, ContentReader, DecodedCache, Event
from daybook.paging.tables.layout import LAYOUT

SEGMENT_BYTES = 8192


class CountingFile:
    """A file of a `CountingDisk`."""

    def __init__(self, disk: "CountingDisk", name: str) -> None:
        self.disk = disk
        self.file = disk.disk.open(name)
        disk.open_files += 1

    def pread(self, count: int, offset: int) -> bytes:
        self.disk.reads += 1
        data = self.file.pread(count, offset)
        self.disk.bytes += len(data)
        return data

    def size(self) -> int:
        return self.file.size()

    def close(self) -> None:
        self.disk.open_files -= 1
        self.file.close()


class CountingDisk:
    """A disk that counts reads, their bytes, and how many files are open."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.reads = 0
        self.bytes = 0
        self.open_files = 0

    def open(self, name: str) -> CountingFile:
        return CountingFile(self, name)

    def names(self) -> list[str]:
        return self.disk.names()


class Written:
    """A journal of the broker's layout, and what was written to it by LSN."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        body_bytes: int = 120,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.disk: Any = disk if disk is not None else MemoryDisk()
        self.journal = Journal.create(
            self.disk, LAYOUT, data_id=b"d" * 16, segment_bytes=segment_bytes
        )
        self.events: list[Event] = []
        self.body_bytes = body_bytes

    def append(self, count: int) -> None:
        """Append a block of so many events; every third has no content."""
        rows, details, headers, bodies = [], [], [], []
        first = len(self.events) + 1
        for lsn in range(first, first + count):
            event = self._make(lsn)
            self.events.append(event)
            rows.append(pack_wide(event.row, *[len(text) for text in event[1:]]))
            for heap, text in zip((details, headers, bodies), event[1:], strict=True):
                if text:
                    heap.append(text)
        self.journal.append(Batch(first, rows, (details, headers, bodies), first))

    def _make(self, lsn: int) -> Event:
        row = events.row(events.ROUTED, message=lsn, queue=1 + lsn % 3, time=lsn)
        if lsn % 3 == 0:
            return Event(row, b"", b"", b"")
        detail = b"" if lsn % 2 else b"detail %d" % lsn
        body = random.Random(lsn).randbytes(lsn % self.body_bytes)
        return Event(row, detail, b"number:%d\n" % lsn, body)

    def content(self, lsn: int) -> tuple[bytes, bytes]:
        return self.events[lsn - 1][2:]

    def check(self, reader: ContentReader, lsns: list[int]) -> None:
        """The reader returns the written content."""
        assert reader.fetch(lsns) == [self.content(lsn) for lsn in lsns]

    def refusal(self, reader: ContentReader, lsn: int) -> str:
        """The reader's error, empty if it returns the written content."""
        try:
            self.check(reader, [lsn])
        except StoreError as error:
            return str(error)
        return ""

    @property
    def segments(self) -> list[str]:
        return segment_names(self.disk)

    @property
    def last(self) -> int:
        return len(self.events)

    def places(self) -> dict[int, tuple[int, int]]:
        """Segment and offset of the block of each event."""
        return {
            lsn: (segment_first_lsn(block.segment) or 0, block.offset)
            for block in read_blocks(self.disk, LAYOUT)
            for lsn in range(block.first_lsn, block.last_lsn + 1)
        }


@pytest.fixture
def written() -> Iterator[Written]:
    """Several segments of blocks of one to nine events, with marks between."""
    made = Written()
    for number in range(120):
        made.append(1 + number % 9)
        if number % 7 == 0:
            made.journal.mark(number)
    assert len(made.segments) > 3
    yield made
    made.journal.close()


def reader_of(written: Written) -> ContentReader:
    return ContentReader(written.disk, LAYOUT)


def test_everything_in_one_go(written: Written) -> None:
    written.check(reader_of(written), list(range(1, written.last + 1)))


@pytest.mark.parametrize("step", [2, 7, 40])
def test_some_here_and_there(written: Written, step: int) -> None:
    written.check(reader_of(written), list(range(step, written.last + 1, step)))


def test_one_by_one_in_any_order(written: Written) -> None:
    reader = reader_of(written)
    lsns = list(range(1, written.last + 1))
    random.Random(5).shuffle(lsns)
    for lsn in lsns:
        written.check(reader, [lsn])


def test_nothing_asked_is_nothing_given(written: Written) -> None:
    assert reader_of(written).fetch([]) == []


def test_whole_events(written: Written) -> None:
    reader = reader_of(written)
    for lsn in (1, 2, 4, 100, written.last):
        assert reader.event(lsn, lsn) == written.events[lsn - 1]


def test_beside_a_writer_over_segments(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    written = Written(disk)
    reader = ContentReader(RealDisk(tmp_path), LAYOUT)
    for number in range(200):
        written.append(1 + number % 5)
        written.check(reader, [written.last])
        written.check(reader, sorted({1, written.last // 2 + 1, written.last}))
    assert len(written.segments) > 3
    reader.close()
    written.journal.close()


def test_while_a_writer_appends(tmp_path: Path) -> None:
    written = Written(RealDisk(tmp_path))
    written.append(1)
    durable = [1]
    wrong: list[int] = []
    reads = 0

    def append() -> None:
        for number in range(400):
            written.append(1 + number % 7)
            durable[0] = written.last

    writer = threading.Thread(target=append)
    reader = ContentReader(RealDisk(tmp_path), LAYOUT, cache_bytes=5000)
    source = random.Random(1)
    writer.start()
    while writer.is_alive() or reads < 100:
        last = durable[0]
        lsns = sorted({last, source.randrange(1, last + 1), source.randrange(1, last + 1)})
        wrong += [
            lsn
            for lsn, found in zip(lsns, reader.fetch(lsns), strict=True)
            if found != written.content(lsn)
        ]
        reads += 1
    writer.join()
    assert wrong == []
    assert len(written.segments) > 3
    reader.close()
    written.journal.close()


def test_what_stays_is_not_read_again(written: Written) -> None:
    disk = CountingDisk(written.disk)
    reader = ContentReader(disk, LAYOUT)
    lsns = list(range(1, written.last + 1))
    written.check(reader, lsns)
    before = disk.reads
    written.check(reader, lsns)
    assert disk.reads == before


def test_what_stays_is_bounded(written: Written) -> None:
    cache = DecodedCache(20_000)
    reader = ContentReader(written.disk, LAYOUT, cache=cache)
    for _ in range(2):
        for lsn in range(1, written.last + 1):
            written.check(reader, [lsn])
            assert cache.bytes <= 20_000


def test_a_block_larger_than_what_may_stay_stays_alone() -> None:
    written = Written(body_bytes=1000)
    written.append(3)
    written.append(100)
    cache = DecodedCache(1000)
    reader = ContentReader(written.disk, LAYOUT, cache=cache)
    written.check(reader, [1, 2, 4])
    large = cache.bytes
    assert large > 1000
    written.check(reader, list(range(4, written.last)))
    assert cache.bytes == large
    written.check(reader, [1])
    assert cache.bytes < large


def test_few_files_are_open() -> None:
    written = Written(body_bytes=3000)
    for _ in range(200):
        written.append(3)
    assert len(written.segments) > 2 * FILES_MAX
    disk = CountingDisk(written.disk)
    reader = ContentReader(disk, LAYOUT, cache_bytes=0)
    for lsn in range(1, written.last + 1):
        written.check(reader, [lsn])
        assert disk.open_files <= FILES_MAX
    reader.close()
    assert disk.open_files == 0


def test_open_segments_keep_little_of_what_they_read() -> None:
    written = Written(body_bytes=10, segment_bytes=1 << 16)
    for _ in range(5000):
        written.append(1)
    assert len(written.segments) > FILES_MAX
    reader = ContentReader(written.disk, LAYOUT, cache_bytes=0)
    tracemalloc.start()
    try:
        seen = []
        for lsn in range(1, written.last + 1, 20):
            written.check(reader, [lsn])
            seen.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # What two segments keep is there after a few of them; from then on nothing is added.
    few, last = seen[len(seen) // 5], max(seen[-len(seen) // 4 :])
    assert len(reader._open) == FILES_MAX
    assert last < few + 200_000


def test_far_apart_nothing_between_is_read() -> None:
    written = Written(body_bytes=4000, segment_bytes=1 << 22)
    for _ in range(100):
        written.append(20)
    disk = CountingDisk(written.disk)
    places = written.places()
    reader = ContentReader(disk, LAYOUT, places.__getitem__)
    written.check(reader, [1000])
    assert disk.bytes < 120_000


def test_hints_save_looking(written: Written) -> None:
    places = written.places()
    asked: list[int] = []

    def locate(lsn: int) -> tuple[int, int]:
        asked.append(lsn)
        return places[lsn]

    wanted = [written.last - 40, written.last // 2]
    for lsn in wanted:
        hinted, blind = CountingDisk(written.disk), CountingDisk(written.disk)
        written.check(ContentReader(hinted, LAYOUT, locate), [lsn])
        written.check(ContentReader(blind, LAYOUT), [lsn])
        assert hinted.reads <= blind.reads
    assert asked == wanted


def test_wrong_hints_are_of_no_consequence(written: Written) -> None:
    places = list(written.places().values())
    source = random.Random(3)
    segments = [segment for segment, _ in places]

    def locate(lsn: int) -> tuple[int, int] | None:
        if source.random() < 0.2:
            return None
        if source.random() < 0.5:
            return source.choice(places)
        return source.choice(segments), source.randrange(3 * SEGMENT_BYTES)

    reader = ContentReader(written.disk, LAYOUT, locate, cache_bytes=0)
    for _ in range(600):
        written.check(reader, [source.randrange(1, written.last + 1)])


def test_without_footers_blocks_are_found_all_the_same(written: Written) -> None:
    for name in written.segments[:-1]:
        _flip(written.disk, name, len(written.disk.files[name]) - 10)
    reader = ContentReader(written.disk, LAYOUT, cache_bytes=0)
    for lsn in range(written.last, 0, -1):
        written.check(reader, [lsn])


def test_hopping_does_not_begin_anew_each_time() -> None:
    written = Written(body_bytes=4000, segment_bytes=1 << 22)
    for _ in range(600):
        written.append(2)
    assert len(written.segments) == 1
    disk = CountingDisk(written.disk)
    reader = ContentReader(disk, LAYOUT, cache_bytes=0)
    written.check(reader, [written.last])
    whole = disk.bytes
    disk.bytes = 0
    written.check(reader, [written.last - 300])
    assert 0 < disk.bytes < whole / 2


def _flip(disk: MemoryDisk, name: str, offset: int, bits: int = 0x40) -> None:
    disk.files[name][offset] ^= bits


def test_a_flipped_bit_is_never_a_wrong_body(written: Written) -> None:
    name = written.segments[1]
    size = len(written.disk.files[name])
    refused = 0
    for offset in range(0, size, 13):
        _flip(written.disk, name, offset, 1 << offset % 8)
        reader = reader_of(written)
        for lsn in range(1, written.last + 1, 11):
            refusal = written.refusal(reader, lsn)
            if refusal:
                refused += 1
                assert name in refusal
                assert "Restore the segment" in refusal
        _flip(written.disk, name, offset, 1 << offset % 8)
    assert refused > size // 130


def test_a_segment_cut_short(written: Written) -> None:
    name = written.segments[1]
    whole = bytes(written.disk.files[name])
    first = segment_first_lsn(name) or 0
    end = segment_first_lsn(written.segments[2]) or 0
    for size in range(0, len(whole), 97):
        written.disk.files[name][:] = whole[:size]
        reader = reader_of(written)
        refused = []
        for lsn in range(first, end):
            refusal = written.refusal(reader, lsn)
            if refusal:
                assert name in refusal
                refused.append(lsn)
        assert refused == list(range(refused[0], end)) if refused else size > len(whole) - 3000


def test_a_segment_that_is_gone(written: Written) -> None:
    name = written.segments[1]
    first = segment_first_lsn(name) or 0
    written.disk.remove(name)
    reader = reader_of(written)
    with pytest.raises(StoreError, match="the segment that follows is missing"):
        reader.fetch([first])
    written.check(reader, [first - 1])


def test_a_segment_that_goes_while_it_is_known(written: Written) -> None:
    reader = reader_of(written)
    written.check(reader, [written.last])
    first = segment_first_lsn(written.segments[1]) or 0
    written.disk.remove(written.segments[1])
    with pytest.raises(StoreError, match="the segment that follows is missing"):
        reader.fetch([first])


def test_all_segments_that_were_known_left(written: Written) -> None:
    """The journal grew meanwhile, and retention took the last segment that the reader knew."""
    reader = reader_of(written)
    written.check(reader, [1])
    known = written.segments
    while len(written.segments) < len(known) + 2:
        written.append(10)
    reader.close()
    for name in known:
        written.disk.remove(name)
    written.check(reader, [written.last])


def test_history_that_is_gone(written: Written) -> None:
    names = written.segments
    written.disk.remove(names[0])
    begins = segment_first_lsn(names[1])
    with pytest.raises(StoreError, match=f"it begins with event {begins}"):
        reader_of(written).fetch([1])


def test_an_empty_directory() -> None:
    with pytest.raises(StoreError, match="event 1 is not in the journal: it is empty"):
        ContentReader(MemoryDisk(), LAYOUT).fetch([1])


def test_a_segment_of_another_journal(written: Written) -> None:
    other = MemoryDisk()
    names = written.segments
    Journal.create(other, LAYOUT, data_id=b"x" * 16, segment_bytes=SEGMENT_BYTES).close()
    reader = reader_of(written)
    written.check(reader, [1])
    written.disk.files[names[1]][:] = other.files[segment_name(1)]
    with pytest.raises(StoreError, match="LSN 1"):
        reader.fetch([segment_first_lsn(names[1]) or 0])
    renamed = MemoryDisk()
    renamed.files = {names[0]: written.disk.files[names[0]], **other.files}
    assert open_segment(renamed, segment_name(1)).header.data_id == b"x" * 16


def test_what_is_not_there_yet(written: Written) -> None:
    with pytest.raises(StoreError, match=written.segments[-1]):
        reader_of(written).fetch([written.last + 1])


def test_a_disk_that_fails(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    written = Written(disk)
    written.append(5)
    written.journal.close()
    path = tmp_path / segment_name(1)
    path.rename(tmp_path / "elsewhere")
    path.mkdir()
    with pytest.raises(StoreError, match="journal verify"):
        ContentReader(disk, LAYOUT).fetch([1])


# ---- the requested content, or nothing


class Mixed:
    """Messages, chunks, and what was carried: by LSN, several blocks of each size."""

    def __init__(self, blocks: tuple[int, ...]) -> None:
        self.disk = MemoryDisk()
        self.journal = Journal.create(self.disk, LAYOUT, data_id=b"d" * 16)
        rows = [
            events.row(events.ROUTED, message=1, queue=1, time=1),
            events.row(events.ROUTED, message=2, queue=1, time=1),
            events.row(events.CHUNK_RECEIVED, time=1),
            events.row(events.CHUNK_RECEIVED, related=3, time=1),
            events.row(events.CHUNK_RECEIVED, time=1),
            events.row(events.CHUNK_RECEIVED, related=4, time=1),
            events.row(events.CARRIED, message=1, related=1, time=1),
            events.row(events.CARRIED, message=2, related=2, time=1),
            events.row(events.DELIVERED, message=2, queue=1, time=1),
        ]
        lsn = 1
        for count in blocks:
            some = rows[lsn - 1 : lsn - 1 + count]
            bodies = [b"body %d" % (lsn + place) for place in range(count)]
            packed = [
                pack_wide(row, 0, 0, len(body)) for row, body in zip(some, bodies, strict=True)
            ]
            self.journal.append(Batch(lsn, packed, ([], [], bodies), 1))
            lsn += count
        self.reader = ContentReader(self.disk, LAYOUT)


BLOCKS_OF = [(9,), (1,) * 9, (4, 5), (7, 2)]


@pytest.mark.parametrize("blocks", BLOCKS_OF)
def test_what_was_carried_is_found_where_it_is_now(blocks: tuple[int, ...]) -> None:
    reader = Mixed(blocks).reader
    assert reader.fetch([1, 2]) == [(b"", b"body 1"), (b"", b"body 2")]
    assert reader.fetch([7, 8], [1, 2]) == [(b"", b"body 7"), (b"", b"body 8")]
    assert reader.fetch([1, 8], [1, 2]) == [(b"", b"body 1"), (b"", b"body 8")]
    assert reader.event(8, 2).body == b"body 8"
    assert reader.chunks([3, 4, 6], 0) == [b"body 3", b"body 4", b"body 6"]
    assert reader.chunks([4, 6], 3) == [b"body 4", b"body 6"]
    assert reader.chunks([], 0) == []


@pytest.mark.parametrize("blocks", BLOCKS_OF)
@pytest.mark.parametrize(
    ("lsns", "messages", "wrong"),
    [
        ([7], [2], "event 7 of the journal is not the content of 2"),
        ([7, 8], [2, 1], "event 7 of the journal is not the content of 2"),
        ([1, 7], [1, 2], "event 7 of the journal is not the content of 2"),
        ([1], [2], "event 1 of the journal is not the content of 2"),
        ([3], [3], "event 3 of the journal is not the content of 3"),
        ([9], [2], "event 9 of the journal is not the content of 2"),
        ([2, 3], None, "event 3 of the journal is not the content of 3"),
        ([7], None, "event 7 of the journal is not the content of 7"),
    ],
)
def test_content_of_another_message_is_never_given(
    blocks: tuple[int, ...], lsns: list[int], messages: list[int] | None, wrong: str
) -> None:
    reader = Mixed(blocks).reader
    with pytest.raises(StoreError, match=f"{wrong}, .*delete the folder 'index'"):
        reader.fetch(lsns, messages)
    if messages is not None and len(lsns) == 1:
        with pytest.raises(StoreError, match=wrong):
            reader.event(lsns[0], messages[0])


@pytest.mark.parametrize("blocks", BLOCKS_OF)
@pytest.mark.parametrize(
    ("lsns", "before", "wrong"),
    [
        ([4, 6], 0, "event 4 of the journal is not a first chunk"),
        ([3, 6], 0, "event 6 of the journal is not the chunk that follows 3"),
        ([3, 4, 5], 0, "event 5 of the journal is not the chunk that follows 4"),
        ([6], 3, "event 6 of the journal is not the chunk that follows 3"),
        ([1], 0, "event 1 of the journal is not a first chunk"),
        ([7], 1, "event 7 of the journal is not the chunk that follows 1"),
    ],
)
def test_chunks_of_another_body_are_never_given(
    blocks: tuple[int, ...], lsns: list[int], before: int, wrong: str
) -> None:
    with pytest.raises(StoreError, match=wrong):
        Mixed(blocks).reader.chunks(lsns, before)


def test_the_time_of_an_event_is_that_of_its_block(written: Written) -> None:
    reader = ContentReader(written.disk, LAYOUT)
    blocks = {lsn: block.header.time for block in read_blocks(written.disk, LAYOUT)
              for lsn in range(block.first_lsn, block.last_lsn + 1)}  # fmt: skip
    for lsn in random.Random(1).sample(range(1, written.last + 1), 60):
        assert reader.time_of(lsn) == blocks[lsn] <= lsn
    with pytest.raises(StoreError, match="no block begins here"):
        reader.time_of(written.last + 1)
    written.append(4)
    assert reader.time_of(written.last) == written.last - 3


def test_an_event_before_the_journal_is_as_old_as_its_beginning(written: Written) -> None:
    reader = ContentReader(written.disk, LAYOUT)
    assert reader.time_of(1) == 1
    first, second = written.segments[:2]
    written.disk.remove(first)
    reader.close()
    begins = segment_first_lsn(second) or 0
    assert reader.time_of(1) == reader.time_of(begins) == begins
