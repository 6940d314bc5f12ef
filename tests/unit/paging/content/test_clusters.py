"""Clusters give back what went in, and nothing wrong whatever becomes of the file."""

import errno
import random
from itertools import accumulate
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.format import Damage
from daybook.journal.disk import MemoryDisk, MemoryFile
from daybook.paging.content import clusters
from daybook.paging.content.clusters import (
    ClusterReader,
    Gathered,
    Range,
    check_cluster,
    merge_clusters,
    write_cluster,
)
from daybook.paging.content.content import DecodedCache

DATA_ID = b"d" * 16
Messages = dict[tuple[int, int], tuple[bytes, bytes]]

texts = st.integers(0, 3000).map(lambda size: bytes(number % 251 for number in range(size)))


@st.composite
def contents(draw: st.DrawFn) -> Messages:
    """Headers and body by queue and message."""
    steps = draw(st.lists(st.integers(1, 5), min_size=1, max_size=60))
    ids = list(accumulate(steps, initial=100))
    return {(draw(st.integers(1, 4)), number): (draw(texts)[:20], draw(texts)) for number in ids}


def gathered(messages: Messages) -> Gathered:
    keys = sorted(messages)
    texts = [messages[key] for key in keys]
    return Gathered(
        np.array([queue for queue, _ in keys], np.uint64),
        np.array([number for _, number in keys], np.uint64),
        np.array([len(headers) for headers, _ in texts], np.uint32),
        np.array([len(body) for _, body in texts], np.uint32),
        [headers + body for headers, body in texts],
    )


def some(count: int, first: int = 1) -> Messages:
    """Messages of three queues, enough for some units."""
    source = random.Random(count)
    return {
        (1 + number % 3, number): (b"key:%d" % number, source.randbytes(700))
        for number in range(first, first + count)
    }


def written(disk: MemoryDisk, messages: Messages) -> Range:
    numbers = [number for _, number in messages]
    return write_cluster(disk, DATA_ID, min(numbers), max(numbers), gathered(messages))


def reader_of(disk: MemoryDisk, *ranges: Range, cache_bytes: int = 1 << 20) -> ClusterReader:
    reader = ClusterReader(disk, DATA_ID, DecodedCache(cache_bytes))
    reader.know(list(ranges))
    return reader


def ids_of(messages: Messages, queue_id: int) -> list[int]:
    return sorted(number for queue, number in messages if queue == queue_id)


@given(messages=contents(), cache_bytes=st.sampled_from((0, 50_000)), step=st.integers(1, 9))
def test_what_went_in_comes_out(messages: Messages, cache_bytes: int, step: int) -> None:
    disk = MemoryDisk()
    known = written(disk, messages)
    check_cluster(disk, DATA_ID, known)
    reader = reader_of(disk, known, cache_bytes=cache_bytes)
    for queue_id in range(6):
        # One in two ids, more or less, is not there, or of another queue.
        ids = list(range(1, known.last + 50))
        for start in range(0, len(ids), 7 * step):
            asked = ids[start : start + 7 * step]
            own = [messages.get((queue_id, number)) for number in asked]
            assert reader.fetch(queue_id, asked) == own
    assert reader.take_notes() == []
    reader.close()


def test_a_cluster_of_format_1_is_read_and_merged() -> None:
    disk, older, newer = MemoryDisk(), some(60), some(60, 200)
    first = clusters.FORMATS[0]
    with patch.multiple(clusters, FORMAT=first, SHAPE=clusters.SHAPES[first]):
        before = written(disk, older)
    check_cluster(disk, DATA_ID, before)
    wide = {(queue << 40, number): text for (queue, number), text in newer.items()}
    parts = [before, written(disk, wide)]
    merged = merge_clusters(disk, DATA_ID, parts, 1, parts[1].last)
    for known in (parts, [merged]):
        reader = reader_of(disk, *known)
        for messages in (older, wide):
            for queue_id in {queue for queue, _ in messages}:
                ids = ids_of(messages, queue_id)
                expected = [messages[queue_id, number] for number in ids]
                assert reader.fetch(queue_id, ids) == expected


def test_several_clusters_and_what_lies_between() -> None:
    disk = MemoryDisk()
    old, new = some(200), some(200, first=1000)
    reader = reader_of(disk, written(disk, old), written(disk, new))
    everything = old | new
    ids = sorted({*ids_of(everything, 2), 500, 999, 3000})
    assert reader.fetch(2, ids) == [everything.get((2, number)) for number in ids]
    assert reader.fetch(2, []) == []
    reader.know([])
    assert reader.fetch(2, ids[:3]) == [None] * 3
    assert reader.take_notes() == []


def test_few_are_held_open() -> None:
    disk = MemoryDisk()
    parts = [some(3, first=1 + 10 * number) for number in range(clusters.OPEN_MAX + 5)]
    reader = reader_of(disk, *[written(disk, part) for part in parts])
    for part in (*parts, *reversed(parts)):
        for key, content in part.items():
            assert reader.fetch(key[0], [key[1]]) == [content]


def test_a_range_that_took_the_place_of_others() -> None:
    """Units of clusters that were merged are not taken for those of the new one."""
    disk = MemoryDisk()
    old, new = some(300), some(300, first=301)
    reader = reader_of(disk, written(disk, old), written(disk, new))
    ids = ids_of(old, 1)
    assert reader.fetch(1, ids) == [old[1, number] for number in ids]
    merged = written(disk, old | new)
    reader.know([merged])
    ids = ids_of(old | new, 1)
    assert reader.fetch(1, ids) == [(old | new)[1, number] for number in ids]


def test_any_flipped_byte_is_noticed_and_never_read() -> None:
    disk = MemoryDisk()
    messages = some(150)
    known = written(disk, messages)
    content = disk.files[known.name]
    source = random.Random(5)
    header_and_trailer = [*range(60), *range(len(content) - 150, len(content))]
    for place in [*header_and_trailer, *source.sample(range(len(content)), 200)]:
        content[place] ^= 1 << source.randrange(8)
        before = bytes(content)
        with pytest.raises(Damage):
            check_cluster(disk, DATA_ID, known)
        reader = reader_of(disk, known)
        for queue_id in (1, 2, 3):
            ids = ids_of(messages, queue_id)
            found = reader.fetch(queue_id, ids)
            assert found in ([messages[queue_id, n] for n in ids], [None] * len(ids))
        (note,) = reader.take_notes()
        assert known.name in note
        assert "read from the journal" in note
        assert reader.take_notes() == []
        assert bytes(content) == before
        disk.files[known.name] = content = bytearray(before)
        written(disk, messages)
        content = disk.files[known.name]


@pytest.mark.parametrize("size", [0, 10, 5000, -1])
def test_a_short_file(size: int) -> None:
    disk = MemoryDisk()
    messages = some(100)
    known = written(disk, messages)
    del disk.files[known.name][size:]
    reader = reader_of(disk, known)
    assert reader.fetch(1, ids_of(messages, 1)) == [None] * len(ids_of(messages, 1))
    assert len(reader.take_notes()) == 1
    with pytest.raises(Damage):
        check_cluster(disk, DATA_ID, known)


def test_a_file_of_another_journal() -> None:
    disk = MemoryDisk()
    messages = some(10)
    known = written(disk, messages)
    reader = ClusterReader(disk, b"e" * 16, DecodedCache(0))
    reader.know([known])
    assert reader.fetch(1, [1]) == [None]
    assert "its header is not the one" in reader.take_notes()[0]


def test_a_missing_file_is_told_once_the_table_still_names_it() -> None:
    disk = MemoryDisk()
    known = written(disk, some(10))
    other = written(disk, some(10, first=100))
    reader = reader_of(disk, known, other)
    disk.remove(known.name)
    disk.remove(other.name)
    assert reader.fetch(1, [3, 100]) == [None, None]
    assert reader.take_notes() == []
    # The one was deleted since its name was read, the other is missing.
    reader.know([other])
    (note,) = reader.take_notes()
    assert other.name in note
    assert "the file is missing" in note
    reader.know([other])
    assert reader.fetch(1, [100]) == [None]
    assert reader.take_notes() == []


class _FullFile(MemoryFile):
    """Takes a few bytes at a time, and at last none."""

    room = 0

    def pwrite(self, data: bytes, offset: int) -> int:
        if offset + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(data[:1000], offset)


class _FullDisk(MemoryDisk):
    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def open_for_writing(self, name: str) -> MemoryFile:
        file = _FullFile(self.files.setdefault(name, bytearray()))
        file.room = self.room
        return file


@pytest.mark.parametrize("room", [0, 100, 40_000])
def test_a_full_disk_has_no_part_of_a_cluster(room: int) -> None:
    disk = _FullDisk(room)
    with pytest.raises(OSError, match="No space left"):
        written(disk, some(200))
    assert disk.names() == []
    disk.room = 1 << 30
    messages = some(200)
    known = written(disk, messages)
    assert reader_of(disk, known).fetch(3, [5]) == [messages[3, 5]]
