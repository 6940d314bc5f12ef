"""A whole index is read, and every contradiction in it is found and named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daybook.paging.checks import index_check, usability
from daybook.paging.checks.index_check import check
from daybook.paging.fold.index import Index
from daybook.paging.tables import pages, records
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.records import QueueRecord
from daybook.paging.tables.tables import (
    BLOCK_VALUE,
    BLOCKS,
    FLIGHT_KEY,
    FLIGHTS,
    ID_KEY,
    IDS,
    IDS_KEY,
    PAGE_KEY,
    PAGES,
    QUEUES,
    TIMER_KEY,
    TIMERS,
    IndexDamaged,
    Tables,
    open_for_writing,
    page_key,
)
from tests.support.stored.blocks import DATA_ID, blocks_of
from tests.support.stored.stored_rows import flip
from tests.support.world import World

Spoil = Callable[[Tables, Transaction], None]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    world = World()
    for number in range(30):
        expires = world.now // 1000 + 5000 if number % 10 == 0 else 0
        world.send(
            "orders",
            expires=expires,
            persistent=number % 4 > 0,
            duplicate_id="first" if number == 0 else "",
        )
    world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
    index = Index(tmp_path, DATA_ID)
    index.advance(blocks_of(world.journal, [10, 20]))
    index.close()
    return tmp_path


def spoil(path: Path, work: Spoil) -> None:
    tables = open_for_writing(path, DATA_ID)
    tables.write(lambda txn: work(tables, txn))
    tables.close()


def only_page(tables: Tables, txn: Transaction) -> tuple[bytes, pages.Rows]:
    ((key, value),) = txn.rows(tables.db(PAGES))
    return bytes(key), pages.decode(bytes(value), 1, PAGE_KEY.unpack(key)[2])


def put_rows(tables: Tables, txn: Transaction, rows: pages.Rows) -> None:
    txn.put(page_key(1, 4, int(rows.message[0])), pages.encode(rows), db=tables.db(PAGES))


def lose_an_entry(tables: Tables, txn: Transaction) -> None:
    put_rows(tables, txn, only_page(tables, txn)[1].take(slice(0, -1)))


def change_an_entry(tables: Tables, txn: Transaction) -> None:
    _, rows = only_page(tables, txn)
    put_rows(tables, txn, rows._replace(delivery_count=rows.delivery_count + 1))


def disorder(tables: Tables, txn: Transaction) -> None:
    _, rows = only_page(tables, txn)
    put_rows(tables, txn, rows.take([0, 2, 1, *range(3, len(rows.message))]))


def repeat_an_entry(tables: Tables, txn: Transaction) -> None:
    _, rows = only_page(tables, txn)
    put_rows(tables, txn, rows.take(slice(3, 4)))


def flip_a_bit(tables: Tables, txn: Transaction) -> None:
    key, _ = only_page(tables, txn)
    flip(txn, tables.db(PAGES), key, 402)


def page_of_nobody(tables: Tables, txn: Transaction) -> None:
    _, rows = only_page(tables, txn)
    key = page_key(77, 4, int(rows.message[0]))
    txn.put(key, pages.encode(rows), db=tables.db(PAGES))


def short_key(tables: Tables, txn: Transaction) -> None:
    txn.put(b"short", b"", db=tables.db(PAGES))


def lose_a_timer(tables: Tables, txn: Transaction) -> None:
    cursor = txn.cursor(tables.db(TIMERS))
    assert cursor.first()
    cursor.delete()


def add_a_timer(tables: Tables, txn: Transaction) -> None:
    txn.put(TIMER_KEY.pack(1, 2, 3), b"", db=tables.db(TIMERS))


def lose_a_flight(tables: Tables, txn: Transaction) -> None:
    cursor = txn.cursor(tables.db(FLIGHTS))
    assert cursor.first()
    cursor.delete()


def add_a_flight(tables: Tables, txn: Transaction) -> None:
    cursor = txn.cursor(tables.db(FLIGHTS))
    assert cursor.first()
    txn.put(FLIGHT_KEY.pack(1, 99), cursor.value(), db=tables.db(FLIGHTS))


def add_ids(tables: Tables, txn: Transaction) -> None:
    txn.put(IDS_KEY.pack(1, 9), b"", db=tables.db(IDS))


def lose_a_block(tables: Tables, txn: Transaction) -> None:
    assert txn.delete(ID_KEY.pack(11), db=tables.db(BLOCKS))


def lose_the_last_block(tables: Tables, txn: Transaction) -> None:
    assert txn.delete(ID_KEY.pack(21), db=tables.db(BLOCKS))


def shorten_a_block(tables: Tables, txn: Transaction) -> None:
    txn.put(ID_KEY.pack(1), bytes(BLOCK_VALUE.size - 1), db=tables.db(BLOCKS))


def rewrite_queue(tables: Tables, txn: Transaction, **changes: int) -> None:
    value = txn.get(ID_KEY.pack(1), db=tables.db(QUEUES))
    record = records.decode(QueueRecord, value or b"", "a queue")
    changed = QueueRecord(*[changes.get(f, getattr(record, f)) for f in record.__struct_fields__])
    txn.put(ID_KEY.pack(1), records.encode(changed), db=tables.db(QUEUES))


def other_sum(tables: Tables, txn: Transaction) -> None:
    rewrite_queue(tables, txn, sum=5)


def queue_of_no_address(tables: Tables, txn: Transaction) -> None:
    rewrite_queue(tables, txn, address=44)


def queue_with_another_id(tables: Tables, txn: Transaction) -> None:
    rewrite_queue(tables, txn, owner=3, temporary=1)


def flip_a_record(tables: Tables, txn: Transaction) -> None:
    flip(txn, tables.db(QUEUES), ID_KEY.pack(1), -8)


def test_a_sound_index(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(made) > 30
    assert index_check.main([str(made)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("work", "what"),
    [
        (lose_an_entry, "queue 1 does not have the messages it counts"),
        (change_an_entry, "the sum of the messages of queue 1 is wrong"),
        (disorder, "out of its place"),
        (repeat_an_entry, "out of its place"),
        (flip_a_bit, "the crc of a row of table 'pages' does not fit"),
        (page_of_nobody, "page of queue 77, which does not exist"),
        (short_key, "pages: a key is too long, or too short"),
        (lose_a_timer, "has a timer that is not listed"),
        (add_a_timer, "timers are needed, and others are listed"),
        (lose_a_flight, "it lacks message .* in flight from queue 1"),
        (add_a_flight, "3 entries are in flight, and consumers have 2"),
        (add_ids, "there are 2 pages of ids, and 1 are needed"),
        (lose_a_block, "the blocks go from event 11 to 21"),
        (lose_the_last_block, "the last block ends before event 21"),
        (shorten_a_block, "the place of a block has 8 and 51 bytes"),
        (other_sum, "the sum of the messages of queue 1 is wrong"),
        (queue_of_no_address, "it refers to 44, which it has not"),
        (queue_with_another_id, "cannot be read|is temporary, and its owner 3 is gone"),
        (flip_a_record, "the crc of a row of table 'queues' does not fit"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_contradiction_is_named(
    made: Path, work: Spoil, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(made, work)
    with pytest.raises(IndexDamaged, match=what):
        check(made)
    assert index_check.main([str(made)]) == usability.DAMAGED
    assert "damaged" in capsys.readouterr().err
