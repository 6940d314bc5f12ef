"""Making catalogs: reads blocks, and collects their keys (ADR 64).

All of it is done in steps of some milliseconds, between which a caller may do other work.
Fault model: the journal may be damaged or leave meanwhile, the disk may be full; the caller gets
the error, and an incomplete file never has a catalog's name. Must never know later queries.
"""

import hashlib
import os
from array import array
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from daybook.engine.facts import events
from daybook.engine.facts.details import CarriedDetail, RoutedDetail
from daybook.engine.facts.events import BODY_OMITTED, FLAGS, KIND, LARGE, MESSAGE, RELATED, Row
from daybook.engine.facts.kinds import TOPOLOGY, WITH_CHUNKS
from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.catalogs.catalog_file import (
    GROUP_PAIRS,
    SUFFIX,
    CatalogFile,
    Description,
    Table,
    Writer,
    catalog_name,
)
from daybook.paging.catalogs.catalog_keys import (
    BODIES,
    MESSAGES,
    SUBJECTS,
    body_key,
    header_key,
    header_lines,
    pair_of,
    subject_of,
)
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT

PIECE_BYTES: Final = 4 * 1024 * 1024
"""How many bytes of the newest segment a piece covers, and how many may be without a catalog."""
PIECE_EVENTS: Final = 1 << 16
"""How many events are a piece, too: blocks of many that are alike take few bytes, but as long to
read."""
HEADER_SHARE: Final = 10
"""The tables of headers take one byte for so many of the journal, at most."""
PAIR_BYTES: Final = 5
"""The approximate size of a pair of the table of a header."""
NAMES_MAX: Final = 256
"""How many names of headers one catalog has tables for."""
NAME_BYTES_MAX: Final = 200
ALL: Final = "*"
WORK: Final = "work-"
_NUMBER_BITS: Final = 32

Steps = Generator[None, None, None]


class HeaderChoice:
    """Which headers are catalogued: those of the names in a list, or all."""

    def __init__(self, words: str) -> None:
        """`words` are names, separated by commas; `*` for all, "" for none."""
        names = {word.strip() for word in words.split(",")} - {""}
        self.words: Final = words
        self.all: Final = ALL in names
        self.names: Final = frozenset() if self.all else frozenset(names)


class _Headers:
    """The pairs of each header name."""

    def __init__(self, choice: HeaderChoice) -> None:
        self._choice: Final = choice
        self._pairs: dict[bytes, array[int]] = {
            name.encode("utf-8", "replace"): array("Q") for name in sorted(choice.names)
        }
        self._blocks: dict[bytes, int] = {}
        self.all = choice.all

    def add(self, lines: set[bytes], number: int) -> None:
        """Add the different header lines of a block."""
        seen: set[bytes] = set()
        for line in lines:
            pair = pair_of(line)
            if pair is None:
                continue
            name, value = pair
            pairs = self._pairs.get(name)
            if pairs is None:
                if not self._choice.all:
                    continue
                if len(self._pairs) >= NAMES_MAX or len(name) > NAME_BYTES_MAX:
                    self.all = False
                    continue
                pairs = self._pairs[name] = array("Q")
            pairs.append(header_key(value) << _NUMBER_BITS | number)
            seen.add(name)
        for name in seen:
            self._blocks[name] = self._blocks.get(name, 0) + 1

    def chosen(self, stored_bytes: int) -> tuple[dict[str, "array[int]"], tuple[str, ...]]:
        """Return the pairs of the names for which there is room, and the other names."""
        room = stored_bytes // HEADER_SHARE // PAIR_BYTES
        found: dict[str, array[int]] = {}
        left_out = []
        order = sorted(
            self._pairs.items(),
            key=lambda each: (-self._blocks.get(each[0], 0), len(each[1]), each[0]),
        )
        for raw, pairs in order:
            try:
                name = raw.decode()
            except UnicodeDecodeError:
                # No query can ask for it.
                continue
            if len(pairs) <= room:
                room -= len(pairs)
                found[name] = pairs
            else:
                left_out.append(name)
        return found, tuple(sorted(left_out))


class Builder:
    """Collects the keys of a catalog, block by block."""

    def __init__(self, disk: Disk, data_id: bytes, choice: HeaderChoice) -> None:
        self._data_id: Final = data_id
        self._content: Final = ContentReader(disk, LAYOUT, cache_bytes=1 << 20)
        self._first: Block | None = None
        self._last: Block | None = None
        self._first_lsn = 0
        self._last_lsn = 0
        self._lsns = array("Q")
        self._offsets = array("Q")
        self._messages: list[Any] = []
        self._subjects: Final[dict[str, array[int]]] = {name: array("Q") for name in SUBJECTS}
        self._positions: Final[dict[str, array[int]]] = {name: array("I") for name in SUBJECTS}
        self._choice: Final = choice
        self._headers: Final = _Headers(choice)
        self._bodies = array("Q")
        self._all_bodies = True

    @property
    def size(self) -> int:
        """How many bytes of the journal the blocks take."""
        if self._first is None or self._last is None:
            return 0
        return self._last.offset + self._last.header.block_bytes - self._first.offset

    @property
    def last_lsn(self) -> int:
        """The last event, 0 if there is none yet."""
        return self._last_lsn

    @property
    def is_piece(self) -> bool:
        """Whether the blocks are as much as a piece has."""
        return is_piece(self.size, self._last_lsn + 1 - self._first_lsn)

    def add(self, block: Block) -> Steps:
        """Add the next block, in steps. Raises Damage."""
        self._first = self._first or block
        self._last = block
        if block.is_mark:
            return
        self._first_lsn = self._first_lsn or block.first_lsn
        self._last_lsn = block.last_lsn
        number = len(self._lsns)
        self._lsns.append(block.first_lsn)
        self._offsets.append(block.offset)
        columns = block.columns()
        both = np.concatenate([np.asarray(columns[MESSAGE]), np.asarray(columns[RELATED])])
        self._messages.append(_different(both[both > 0]))
        kinds = set(columns[KIND])
        if not kinds.isdisjoint(TOPOLOGY):
            self._add_topology(block)
        if not kinds.isdisjoint(WITH_CHUNKS):
            yield from self._add_content(block, number)

    def _add_topology(self, block: Block) -> None:
        begin = block.first_lsn - self._first_lsn
        for position, row in enumerate(cast(Iterator[Row], block.rows())):
            subject = subject_of(row)
            if subject is not None:
                self._subjects[subject[0]].append(subject[1])
                self._positions[subject[0]].append(begin + position)

    def _add_content(self, block: Block, number: int) -> Steps:
        lines: set[bytes] = set()
        bodies: set[bytes] = set()
        kinds, flags = block.columns()[KIND].tolist(), block.columns()[FLAGS].tolist()
        details, headers, texts = (list(block.strings(heap)) for heap in range(3))
        for position, kind in enumerate(kinds):
            if kind not in WITH_CHUNKS or flags[position] & BODY_OMITTED:
                continue
            lines.update(header_lines(flags[position], headers[position]))
            if flags[position] & LARGE:
                yield from self._add_large(kind, details[position], number)
            else:
                bodies.add(texts[position])
        for body in bodies:
            self._add_body(hashlib.sha256(body).digest(), number)
        self._headers.add(lines, number)

    def _add_body(self, sha256: bytes, number: int) -> None:
        self._bodies.append(body_key(sha256) << _NUMBER_BITS | number)

    def _add_large(self, kind: int, detail: bytes, number: int) -> Steps:
        digest = hashlib.sha256()
        try:
            for piece in chunks_of(self._content, kind, detail):
                digest.update(piece)
                yield
        except StoreError:
            self._all_bodies = False
            return
        self._add_body(digest.digest(), number)

    def finish(self, *, whole: bool) -> Generator[None, None, bytes]:
        """Return the content of the catalog, in steps; there must be an event."""
        assert self._first is not None
        assert self._last is not None
        self._content.close()
        writer = Writer()
        blocks = writer.add_plain(self._lsns.tobytes() + self._offsets.tobytes())
        counts = [len(each) for each in self._messages]
        numbers = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
        messages = np.concatenate(self._messages)
        self._messages = []
        tables = {MESSAGES: (yield from writer.add(_groups(messages, numbers)))}
        for name in SUBJECTS:
            keys = np.array(self._subjects[name], np.uint64)
            if len(keys):
                positions = np.array(self._positions[name], np.uint32)
                tables[name] = yield from writer.add(_groups(keys, positions))
        tables[BODIES] = yield from writer.add(_packed_groups(self._bodies))
        pairs, left_out = self._headers.chosen(self.size)
        headers: dict[str, Table] = {}
        for name in sorted(pairs):
            headers[name] = yield from writer.add(_packed_groups(pairs[name]))
        return writer.content(
            Description(
                self._data_id, self._first_lsn, self._last_lsn,
                self._first.offset, self._last.offset + self._last.header.block_bytes,
                self._first.header.previous_hash, self._last.hash, whole,
                blocks, tables, headers, self._headers.all, left_out, self._choice.words,
                self._all_bodies,
            )
        )  # fmt: skip


def chunks_of(content: ContentReader, kind: int, detail: bytes) -> Iterator[bytes]:
    """Yield the pieces of the body of a large message. Raises StoreError."""
    decoded = cast("RoutedDetail | CarriedDetail", events.decode_detail(kind, detail))
    before = 0
    for lsn in events.chunk_lsns(decoded):
        yield from content.chunks([lsn], before)
        before = lsn


def _different(keys: Any) -> Any:
    """Return keys in order, each once; much faster than `np.unique`, which hashes them."""
    keys = np.sort(keys)
    return keys[np.flatnonzero(np.diff(keys, prepend=keys[:1] - np.uint64(1)))]


def _packed_groups(pairs: "array[int]") -> Iterator[tuple[int, bytes]]:
    packed = _different(np.array(pairs, np.uint64))
    keys = packed >> np.uint64(_NUMBER_BITS)
    return _groups(keys, packed.astype(np.uint32))


def _groups(keys: Any, numbers: Any) -> Iterator[tuple[int, bytes]]:
    """Yield sorted pairs in groups: the first key, and differences of keys with the numbers.

    Numbers of equal keys are in their order.
    """
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], numbers[order]
    for start in range(0, len(keys), GROUP_PAIRS):
        some = keys[start : start + GROUP_PAIRS]
        steps = np.diff(some, prepend=some[:1])
        raw = steps.tobytes() + numbers[start : start + GROUP_PAIRS].tobytes()
        yield int(some[0]), raw


def is_piece(size: int, events: int) -> bool:
    """Whether so many bytes of the journal, with so many events, are as much as a piece has."""
    return size >= PIECE_BYTES or events >= PIECE_EVENTS


class Job(NamedTuple):
    """A catalog that is missing: of a segment from an event on.

    `until` is 0 for a sealed segment, all of which is read; of the newest segment, the blocks that
    end before that event are, or so many of them as are a piece if that `is_one_piece`.
    """

    segment: str
    from_lsn: int
    until: int = 0
    is_one_piece: bool = False
    offset: int = 0
    """Where the piece begins in its segment, 0 for the first one."""


def catalogued(
    disk: Disk, data_id: bytes, choice: HeaderChoice, job: Job
) -> Generator[None, None, bytes]:
    """Return the catalog for a job, in steps; b"" if there is no block yet.

    Raises JournalError, Damage and OSError.
    """
    builder = Builder(disk, data_id, choice)
    for block in read_blocks(disk, LAYOUT, from_lsn=job.from_lsn):
        if block.segment != job.segment or (job.until and block.last_lsn >= job.until):
            break
        yield from builder.add(block)
        yield
        if job.is_one_piece and builder.is_piece:
            break
    if not builder.last_lsn:
        return b""
    return (yield from builder.finish(whole=not job.until))


def missing_catalogs(
    disk: Disk, data_id: bytes, directory: Path, from_name: str = ""
) -> Iterator[Job]:
    """Yield the missing catalogs of sealed segments, the newest first, down to one of them."""
    names = segment_names(disk)
    for position in range(len(names) - 2, -1, -1):
        if names[position] < from_name:
            return
        first = segment_first_lsn(names[position]) or 1
        last = (segment_first_lsn(names[position + 1]) or 1) - 1
        told = description(directory, data_id, first)
        if first <= last and (told is None or not told.whole or told.last_lsn != last):
            yield Job(names[position], first)


def all_sealed(disk: Disk) -> Iterator[Job]:
    """Yield the catalogs of all sealed segments, the newest first."""
    for name in segment_names(disk)[-2::-1]:
        yield Job(name, segment_first_lsn(name) or 1)


def next_piece(disk: Disk, data_id: bytes, directory: Path, until: int) -> Job:
    """Return the next piece of the newest segment, which has no catalog behind `until`."""
    name = segment_names(disk)[-1]
    position = segment_first_lsn(name) or 1
    offset = 0
    while (told := description(directory, data_id, position)) is not None and not told.whole:
        position = told.last_lsn + 1
        offset = told.end
    return Job(name, position, until, is_one_piece=True, offset=offset)


def description(directory: Path, data_id: bytes, first_lsn: int) -> Description | None:
    """Return the description of a catalog, None if there is none that can be read."""
    try:
        told = CatalogFile(directory / catalog_name(first_lsn)).told
    except Damage:
        return None
    is_ours = told.data_id == data_id and told.first_lsn == first_lsn <= told.last_lsn
    return told if is_ours else None


def write_catalog(directory: Path, first_lsn: int, content: bytes) -> None:
    """Write a catalog under its name. Raises OSError, and then removes its partial file."""
    directory.mkdir(mode=0o700, exist_ok=True)
    work = directory / f"{WORK}{os.getpid()}-{first_lsn}"
    try:
        descriptor = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        work.replace(directory / catalog_name(first_lsn))
    except BaseException:
        with suppress(OSError):
            work.unlink(missing_ok=True)
        raise


def remove_work(directory: Path) -> None:
    """Remove leftovers of killed processes."""
    for path in directory.glob(WORK + "*"):
        process = path.name.removeprefix(WORK).partition("-")[0]
        if not Path("/proc", process).exists():
            with suppress(OSError):
                path.unlink()


def remove_others(directory: Path, disk: Disk) -> None:
    """Remove the catalogs of segments that left, and pieces of sealed segments that have one for
    all of it."""
    firsts = [segment_first_lsn(name) or 0 for name in segment_names(disk)]
    if not firsts:
        return
    covered = 0
    for path in sorted(directory.glob("*" + SUFFIX)):
        if not path.stem.isdigit():
            continue
        first = int(path.stem)
        if first < firsts[0] or first <= covered:
            with suppress(OSError):
                path.unlink()
        elif first in firsts[:-1]:
            with suppress(Damage):
                told = CatalogFile(path).told
                covered = told.last_lsn if told.whole else covered
