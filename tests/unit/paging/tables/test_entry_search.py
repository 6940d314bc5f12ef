"""Single entries are found in the pages, and noted."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daybook.engine.queues.queue import PAST_ALL, Queue
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.entry_search import Finder
from daybook.paging.tables.levels import Levels
from daybook.paging.tables.pages import U8, U32, rows_of
from daybook.paging.tables.plain_events import NONE_TAKEN, Placed
from daybook.paging.tables.tables import Tables, open_for_writing
from tests.support.topology import new_address, new_queue

COUNT = 500


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    """Even ids 2 to 1000 in queue 1 at priority 4, and 7 at priority 9."""
    tables = open_for_writing(tmp_path, bytes(16))
    rows = rows_of(
        [(2 * n, n, 3, 1, 1, 0, 0, 0) for n in range(1, COUNT + 1)] + [(7, 5, 3, 2, 1, 88, 0, 0)]
    )
    priority = np.array([4] * COUNT + [9], U8)
    change = Placed(np.full(COUNT + 1, 1, U32), priority, rows)
    tables.write(lambda txn: Levels(tables).change(txn, change, NONE_TAKEN))
    yield tables
    tables.close()


@pytest.fixture
def queue() -> Queue:
    queue = new_queue(1, "orders", new_address(1, "orders"))
    queue.level(4).open_paged(0, PAST_ALL).count = COUNT
    queue.level(9).open_paged(0, PAST_ALL).count = 1
    return queue


def test_entries_are_found_by_id(tables: Tables, queue: Queue) -> None:
    finder = Finder(tables)
    assert finder.indexed_lsn == PAST_ALL

    def work(txn: Transaction) -> None:
        finder.begin(txn)
        for message_id in (2, 1000, 500, 502, 2, 7):
            entry = finder.find(queue, message_id)
            assert entry is not None
            assert entry.message.id == message_id
            assert entry.message.priority == (9 if message_id == 7 else 4)
            assert entry.message.size == (5 if message_id == 7 else message_id // 2)
            assert entry.message.expires == (88 if message_id == 7 else 0)
        for message_id in (1, 501, 1001, 5000):
            assert finder.find(queue, message_id) is None
        finder.end()

    tables.write(work)
    adopted = finder.take_adopted()
    assert adopted is not None
    assert adopted.message.tolist() == [2, 1000, 500, 502, 2, 7]
    assert adopted.priority.tolist() == [4, 4, 4, 4, 4, 9]
    assert finder.take_adopted() is None


def test_levels_that_hold_nothing_are_not_looked_at(tables: Tables, queue: Queue) -> None:
    finder = Finder(tables)
    queue.level(4).open_paged(0, PAST_ALL).count = 0

    def work(txn: Transaction) -> None:
        finder.begin(txn)
        assert finder.find(queue, 2) is None
        assert finder.find(new_queue(2, "mails", queue.address), 2) is None

    tables.write(work)
