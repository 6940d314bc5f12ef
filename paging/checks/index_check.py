"""Reading a whole index: checks every crc, every order, and every count.

Run with the words DIRECTORY and JOURNAL (which may be left out) by `paging.checks.usability`, in a
process of its own, because damage of the structure may end the process. Exit codes: 0 sound, 3
damaged, 1 not readable now; the error output names the fault. Only reads.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from daybook.engine.queues.entry import LEVELS as LEVEL_COUNT
from daybook.engine.state.invariants import check as check_invariants
from daybook.engine.state.state import State
from daybook.errors import cause_of
from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import Disk, RealDisk
from daybook.paging.checks.journal_agreement import check_against
from daybook.paging.checks.usability import DAMAGED
from daybook.paging.content.cluster_writer import known_of, live_in
from daybook.paging.content.clusters import check_cluster
from daybook.paging.tables import annotations, id_pages, pages
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.levels import U64_MASK, Level, Levels, timer_keys
from daybook.paging.tables.loading import load_state
from daybook.paging.tables.pages import U8, U64, Rows
from daybook.paging.tables.records import LevelRecord
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import (
    ANNOTATIONS,
    BLOCK_VALUE,
    BLOCKS,
    FLIGHTS,
    ID_KEY,
    IDS,
    LAST_VALUE,
    LAST_VALUE_KEY,
    LAST_VALUES,
    PAGE_KEY,
    PAGES,
    TIMERS,
    UNREADABLE,
    IndexUnwritable,
    Tables,
    level_of,
    open_for_reading,
    timer_of,
)


def check(path: Path, *, clusters: bool = True, journal: Disk | None = None) -> int:
    """Read everything; return the indexed LSN. Raises IndexDamaged with the first contradiction.

    Without `clusters` their files are not checked: a base has none. With `journal`, the journal
    must contain the events that the tables refer to.
    """
    check_structure(path)
    tables = open_for_reading(path)
    try:
        with tables.read() as txn:
            sums: dict[int, int] = {}
            state = load_state(tables, txn, None, sums=sums)
            wrong = [*check_invariants(state), *_blocks(tables, txn), *_flights(tables, txn, state)]
            wrong += _ids(tables, txn, state)
            wrong += _last_values(tables, txn, state)
            if wrong:
                raise _damaged(path, wrong[0])
            _check_pages(tables, txn, state, sums)
            if clusters:
                _check_clusters(tables, txn)
            if journal is not None:
                check_against(tables, txn, journal)
            return tables.position(txn)[0]
    finally:
        tables.close()


def _damaged(path: Path, what: str) -> IndexDamaged:
    return IndexDamaged(f"the index in {path} is damaged: {what}")


def _blocks(tables: Tables, txn: Transaction) -> Iterator[str]:
    """Blocks follow each other, and the last one ends with the indexed LSN."""
    expected = 0
    for key, value in txn.rows(tables.db(BLOCKS)):
        if len(key) != ID_KEY.size or len(value) != BLOCK_VALUE.size:
            yield f"the place of a block has {len(key)} and {len(value)} bytes"
            return
        first_lsn = ID_KEY.unpack(key)[0]
        if expected and first_lsn != expected:
            yield f"the blocks go from event {expected} to {first_lsn}"
        expected = first_lsn + BLOCK_VALUE.unpack(value)[2]
    lsn = tables.position(txn)[0]
    if expected and expected != lsn + 1:
        yield f"the last block ends before event {expected}, and {lsn} is the last one indexed"


def _flights(tables: Tables, txn: Transaction, state: State) -> Iterator[str]:
    """As many entries are in flight as consumers hold; loading has shown that those of consumers
    exist."""
    unacked = sum(len(consumer.unacked) for consumer in state.consumers.values())
    found = txn.count(tables.db(FLIGHTS))
    if unacked != found:
        yield f"{found} entries are in flight, and consumers have {unacked}"


def _ids(tables: Tables, txn: Transaction, state: State) -> Iterator[str]:
    """There are only pages of ids that an address needs; loading has shown that those are sound."""
    found = txn.count(tables.db(IDS))
    needed = id_pages.page_count(state)
    if found != needed:
        yield f"there are {found} pages of ids, and {needed} are needed"


def _last_values(tables: Tables, txn: Transaction, state: State) -> Iterator[str]:
    """Last values are of last value queues that exist, and of messages that came."""
    if not tables.has(LAST_VALUES):
        return
    lsn = tables.position(txn)[0]
    for key, value in txn.rows(tables.db(LAST_VALUES)):
        if len(value) != LAST_VALUE.size:
            yield f"a last value has {len(value)} bytes"
            return
        queue_id, _ = LAST_VALUE_KEY.unpack(key)
        message_id, noted = LAST_VALUE.unpack(value)
        if queue_id not in state.keyed and not state.queues[queue_id].deleting:
            yield f"it has a last value of queue {queue_id}, which keeps none"
        if not message_id <= noted <= lsn:
            yield f"message {message_id} is a last value since event {noted} of {lsn}"


def _check_pages(tables: Tables, txn: Transaction, state: State, sums: dict[int, int]) -> None:
    """Check that pages are sound and in order, and match the counts of the queues."""
    levels = Levels(tables)
    timers = noted = 0
    for queue_id, priority, rows in _each_page(tables, txn):
        if queue_id not in state.queues:
            raise _damaged(tables.path, f"it has a page of queue {queue_id}, which does not exist")
        timers += _check_timers(tables, txn, queue_id, priority, rows)
        noted += len(annotations.of_rows(tables, txn, queue_id, rows))
        known = levels.known.setdefault(queue_id, {}).setdefault(priority, Level())
        transient = (rows.flags & 1) == 0
        known.count += len(rows.message)
        known.bytes += int(rows.size.sum(dtype=np.int64))
        known.transients += int(transient.sum())
        known.transient_bytes += int(rows.size[transient].sum(dtype=np.int64))
        count = len(rows.message)
        hashes = pages.entry_hashes(
            np.full(count, queue_id, U64), np.full(count, priority, U8), rows
        )
        total = levels.sums.get(queue_id, 0) + int(hashes.sum(dtype=np.uint64))
        levels.sums[queue_id] = total & U64_MASK
    for queue in state.queues.values():
        told = [
            LevelRecord(priority, paged.count, paged.bytes, paged.transients, paged.transient_bytes)
            for priority in range(LEVEL_COUNT - 1, -1, -1)
            if (paged := queue.paged_range(priority)) is not None
        ]
        if levels.of(queue.id) != told:
            raise _damaged(tables.path, f"queue {queue.id} does not have the messages it counts")
        if levels.sums.get(queue.id, 0) != sums.get(queue.id, 0):
            raise _damaged(tables.path, f"the sum of the messages of queue {queue.id} is wrong")
    if timers != txn.count(tables.db(TIMERS)):
        raise _damaged(tables.path, f"{timers} timers are needed, and others are listed")
    if tables.has(ANNOTATIONS) and noted != txn.count(tables.db(ANNOTATIONS)):
        raise _damaged(tables.path, f"{noted} entries are annotated, and others are listed")


def _check_clusters(tables: Tables, txn: Transaction) -> None:
    """The counts of ranges agree with the pages, and every unit of their clusters is sound."""
    ranges = known_of(tables, txn)
    if not ranges:
        return
    firsts = np.array([known.range.first for known in ranges], U64)
    counts = np.zeros(len(ranges), np.int64)
    for _, _, rows in _each_page(tables, txn):
        counts += live_in(firsts, rows.message)
    disk, data_id = RealDisk(tables.path / CLUSTERS_DIRECTORY), tables.data_id(txn)
    for (known, live), count in zip(ranges, counts.tolist(), strict=True):
        if live != count:
            what = f"{live} messages are counted from {known.first} to {known.last}, not {count}"
            raise _damaged(tables.path, what)
        try:
            if known.bytes:
                check_cluster(disk, data_id, known)
        except FileNotFoundError:
            # A start removed it because it was damaged: readers do without it.
            continue
        except (Damage, OSError) as error:
            raise _damaged(tables.path, f"cluster {known.name}: {error}") from error


def _check_timers(tables: Tables, txn: Transaction, queue_id: int, level: int, rows: Rows) -> int:
    """Check that all timers of a page's entries are listed; return how many there are."""
    count = len(rows.message)
    keys = list(timer_keys(np.full(count, queue_id, U64), np.full(count, level, U8), rows))
    for key in keys:
        if txn.get(key, db=tables.db(TIMERS)) is None:
            _, (_, message_id, _) = timer_of(key)
            what = f"message {message_id} of queue {queue_id} has a timer that is not listed"
            raise _damaged(tables.path, what)
    return len(keys)


def _each_page(tables: Tables, txn: Transaction) -> Iterator[tuple[int, int, Rows]]:
    """(Queue, priority, rows) of every page, whose order was checked."""
    last = (0, 0, 0)
    for key, value in txn.rows(tables.db(PAGES)):
        if len(key) != PAGE_KEY.size:
            raise _damaged(tables.path, f"the key of a page has {len(key)} bytes")
        queue_id, level, first = PAGE_KEY.unpack(key)
        rows = pages.decode(value, queue_id, first)
        message = rows.message
        if (
            level_of(level) >= LEVEL_COUNT
            or (queue_id, level, first) <= last
            or not (message[1:] > message[:-1]).all()
        ):
            raise _damaged(tables.path, f"message {first} of queue {queue_id} is out of its place")
        last = (queue_id, level, int(message[-1]))
        yield queue_id, level_of(level), rows


def main(arguments: list[str]) -> int:
    """Check the directory that is named; return the exit code."""
    path, *journal = [Path(argument) for argument in arguments]
    try:
        check(path, journal=RealDisk(journal[0]) if journal else None)
    except IndexDamaged as error:
        print(error, file=sys.stderr)
        return DAMAGED
    except IndexUnwritable as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(cause_of(error), UNREADABLE) else DAMAGED
    except (OSError, MemoryError) as error:
        print(str(error) or "there is no memory for it", file=sys.stderr)
        return 1
    # Whatever tables that make no sense cause in the code that reads them.
    except Exception as error:
        what = f"the index in {arguments[0]} is damaged: reading it fails with {error!r}"
        print(what, file=sys.stderr)
        return DAMAGED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
