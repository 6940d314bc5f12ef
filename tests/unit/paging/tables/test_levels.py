"""Pages of many levels change as a dictionary would, and their books stay true."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.queues.entry import SCHEDULED_LEVEL
from daybook.engine.state.digest import entry_hash
from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.paging.tables import pages
from daybook.paging.tables.levels import U64_MASK, Levels
from daybook.paging.tables.pages import U8, U32, U64, Row, rows_of
from daybook.paging.tables.plain_events import NONE_PLACED, NONE_TAKEN, Placed, Taken
from daybook.paging.tables.records import LevelRecord, ready_entry
from daybook.paging.tables.tables import (
    PAGES,
    TIMERS,
    IndexDamaged,
    Tables,
    open_for_writing,
    page_key,
    timer_of,
)
from tests.support.stored.stored_rows import flip

Model = dict[tuple[int, int], dict[int, Row]]
LEVELS = (SCHEDULED_LEVEL, 5, 4)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    tables = open_for_writing(tmp_path, bytes(16))
    yield tables
    tables.close()


def row(message_id: int, expires: int = 0, due: int = 0) -> Row:
    flags = 1 + message_id % 2
    return (message_id, 100 + message_id % 50, 3, message_id % 3, flags, expires, due, 0)


def placed(queue: int, priority: int, rows: list[Row]) -> Placed:
    count = len(rows)
    return Placed(np.full(count, queue, U32), np.full(count, priority, U8), rows_of(rows))


def taken(queue: int, priority: int, ids: list[int]) -> Taken:
    count = len(ids)
    return Taken(np.full(count, queue, U32), np.full(count, priority, U8), np.array(ids, U64))


def put(tables: Tables, levels: Levels, ids: list[int], expires: int = 0) -> None:
    change = placed(1, 4, [row(number, expires) for number in ids])
    tables.write(lambda txn: levels.change(txn, change, NONE_TAKEN))


def take(tables: Tables, levels: Levels, ids: list[int]) -> None:
    tables.write(lambda txn: levels.change(txn, NONE_PLACED, taken(1, 4, ids)))


def page_ids(tables: Tables, levels: Levels, queue: int = 1) -> list[list[int]]:
    with tables.read() as txn:
        return [rows.message.tolist() for _, rows in levels.each_page(txn, queue)]


def fill_of(tables: Tables, levels: Levels) -> list[int]:
    return [len(ids) for ids in page_ids(tables, levels)]


def test_new_entries_fill_the_last_page_and_then_new_ones(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(1, 201)))
    put(tables, levels, list(range(201, 301)))
    assert fill_of(tables, levels) == [213, 87]
    put(tables, levels, list(range(301, 427)))
    put(tables, levels, [427])
    assert fill_of(tables, levels) == [213, 213, 1]


def test_an_entry_that_expires_makes_the_page_wider(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(1, 201)))
    put(tables, levels, [201], expires=9)
    put(tables, levels, [202])
    assert fill_of(tables, levels) == [150, 52]
    take(tables, levels, list(range(1, 160)))
    assert page_ids(tables, levels) == [list(range(160, 203))]


def test_what_leaves_from_the_front_takes_whole_pages_along(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(1, 1001)))
    take(tables, levels, list(range(1, 501)))
    assert fill_of(tables, levels) == [139, 213, 148]
    take(tables, levels, list(range(501, 1001)))
    assert page_ids(tables, levels) == []
    assert levels.of(1) == []


def test_what_comes_back_goes_into_the_page_where_it_belongs(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(2, 1001, 2)))
    put(tables, levels, [1, 215, 999])
    assert [number for ids in page_ids(tables, levels) for number in ids] == sorted(
        {1, 215, 999, *range(2, 1001, 2)}
    )
    # A full page in the middle gave way to two with room.
    assert fill_of(tables, levels) == [108, 107, 213, 75]


def test_pages_with_little_left_join_the_next_one(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(1, 641)))
    take(tables, levels, [number for number in range(1, 427) if number % 10])
    assert fill_of(tables, levels) == [42, 213, 1]
    take(tables, levels, [number for number in range(427, 640) if number % 10])
    assert fill_of(tables, levels) == [42, 22]
    take(tables, levels, [430, 440])
    assert fill_of(tables, levels) == [42, 20]
    take(tables, levels, [10])
    assert fill_of(tables, levels) == [61]


def test_replacing_an_entry(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, [1, 2, 3])
    again = placed(1, 4, [(2, 7, 8, 9, 1, 0, 0, 0)])
    tables.write(lambda txn: levels.change(txn, again, taken(1, 4, [2])))
    with tables.read() as txn:
        ((_, rows),) = levels.each_page(txn, 1)
    assert rows.message.tolist() == [1, 2, 3]
    assert rows.delivery_count.tolist()[1] == 9


@pytest.mark.parametrize("ids", [[5], [1, 5], [0], [1, 2, 3, 4], [400]])
def test_taking_what_is_not_there_is_damage(tables: Tables, ids: list[int]) -> None:
    levels = Levels(tables)
    put(tables, levels, [1, 2, 3])
    with pytest.raises(IndexDamaged, match=r"message \d+ is not in the pages of queue 1"):
        take(tables, levels, ids)


def test_taking_from_a_level_without_pages_is_damage(tables: Tables) -> None:
    with pytest.raises(IndexDamaged, match="message 7 is not in the pages of queue 1"):
        take(tables, Levels(tables), [7])


def test_a_damaged_page_is_not_added_to(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, [1, 2, 3])

    tables.write(lambda txn: flip(txn, tables.db(PAGES), page_key(1, 4, 1), 160))
    with pytest.raises(IndexDamaged, match="the crc of a row of table 'pages' does not fit"):
        put(tables, levels, [4])


def test_choosing_what_a_start_drops(tables: Tables) -> None:
    levels = Levels(tables)
    put(tables, levels, list(range(1, 301)))
    with tables.read() as txn:
        assert levels.transients(txn, 1).message.tolist() == [
            number for number in range(1, 301) if row(number)[4] % 2 == 0
        ]
        assert levels.all_of(txn, 1).message.tolist() == list(range(1, 301))
        assert levels.all_of(txn, 2).message.tolist() == []
    levels.forget(1)
    assert levels.of(1) == []
    assert levels.sums == {}


# ---- against a model


def draw_change(draw: random.Random, model: Model, next_id: int) -> tuple[Placed, Taken, int]:
    """Random entries in and out of a few levels, as batches bring them; applied to the model."""
    into, out = [], []
    for key in [(queue, level) for queue in (1, 2) for level in LEVELS]:
        level = model.setdefault(key, {})
        known = sorted(level)
        removed: list[int] = []
        shape = draw.randrange(5)
        if shape == 0:
            removed = known[: draw.randrange(len(known) + 1)]
        elif shape == 1:
            removed = draw.sample(known, draw.randrange(len(known) // 2 + 1))
        elif shape == 2 and known:
            start = draw.randrange(len(known))
            removed = known[start : start + draw.randrange(400)]
        coming = range(next_id, next_id + draw.choice([0, 0, 1, 30, 400]))
        next_id += len(coming)
        expires = draw.choice([0, 0, 0, 77])
        due = 55 if key[1] == SCHEDULED_LEVEL else 0
        rows = [row(number, expires, due) for number in coming]
        # Some of what leaves comes back otherwise, and something from long ago, too.
        rows += [(number, 9, 9, 9, 1, 0, due, 0) for number in removed if draw.random() < 0.05]
        older = {draw.randint(1, next_id) for _ in range(draw.choice([0, 3]))} - {next_id, *known}
        rows += [row(number, 0, due) for number in older if number not in coming]
        draw.shuffle(rows)
        for number in removed:
            del level[number]
        level.update({each[0]: each for each in rows})
        draw.shuffle(removed)
        into.append(placed(*key, rows))
        out.append(taken(*key, removed))
    queue, priority, parts = zip(*into, strict=True)
    everything = Placed(np.concatenate(queue), np.concatenate(priority), pages.join(parts))
    return everything, Taken(*map(np.concatenate, zip(*out, strict=True))), next_id


def compare(tables: Tables, levels: Levels, model: Model) -> None:
    timers = []
    with tables.read() as txn:
        for queue in (1, 2):
            found: dict[int, list[Row]] = {}
            for priority, rows in levels.each_page(txn, queue):
                assert len(rows.message) > 0
                columns = [column.tolist() for column in rows]
                found.setdefault(priority, []).extend(zip(*columns, strict=True))
            total = 0
            books = []
            for priority in LEVELS:
                expected = [each for _, each in sorted(model[queue, priority].items())]
                assert found.get(priority, []) == expected
                for message_id, size, address, count, flags, expires, due, _ in expected:
                    known = (address, count, flags, expires, due)
                    total += entry_hash(queue, ready_entry(message_id, priority, size, *known))
                    times = ((EXPIRY, expires), (DELIVERY, due))
                    timers += [
                        (reason, (time, message_id, queue)) for reason, time in times if time
                    ]
                transient = [each[1] for each in expected if not each[4] & 1]
                book = (len(expected), sum(each[1] for each in expected), len(transient))
                books += [LevelRecord(priority, *book, sum(transient))] if expected else []
            assert levels.of(queue) == books
            assert levels.sums.get(queue, 0) == total & U64_MASK
        rows = txn.rows(tables.db(TIMERS))
        assert [timer_of(key) for key, _ in rows] == sorted(timers)


@given(seed=st.integers(0, 1 << 32))
def test_levels_are_dictionaries(seed: int) -> None:
    draw = random.Random(seed)
    model: Model = {}
    next_id = 1
    with TemporaryDirectory() as directory:
        tables = open_for_writing(Path(directory), bytes(16))
        levels = Levels(tables)
        for _ in range(8):
            into, out, next_id = draw_change(draw, model, next_id)
            tables.write(lambda txn, i=into, o=out: levels.change(txn, i, o))
            compare(tables, levels, model)
        tables.close()


def test_entries_come_behind_a_page_in_one_piece_or_in_several(tables: Tables) -> None:
    """At the end of a level, whether the last page has room for all, for some, or for none."""
    levels = Levels(tables)
    end = 0
    for count in (1, 1, pages.PLAIN_MAX - 3, 3, pages.PLAIN_MAX, 1, 2 * pages.PLAIN_MAX + 1):
        put(tables, levels, list(range(end + 1, end + count + 1)))
        end += count
    with tables.read() as txn:
        found = [rows for _, rows in levels.each_page(txn, 1)]
    assert [number for rows in found for number in rows.message.tolist()] == [*range(1, end + 1)]
    assert max(len(rows.message) for rows in found) == pages.PLAIN_MAX
    assert len(found) == -(-end // pages.PLAIN_MAX)
    assert levels.known[1][4].count == end


def test_entries_that_need_more_come_behind_a_page_without_that(tables: Tables) -> None:
    levels = Levels(tables)
    for expires in (0, 5, 0):
        first = 1 + sum(level.count for level in levels.known.get(1, {}).values())
        put(tables, levels, [first, first + 1], expires)
    with tables.read() as txn:
        (found,) = [rows for _, rows in levels.each_page(txn, 1)]
    assert found.message.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.expires.tolist() == [0, 0, 5, 5, 0, 0]
