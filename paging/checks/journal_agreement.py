"""Checks that the journal contains the events that the tables refer to: carried content, and chunks
of bodies.

Does not compare with the state of a fold (`history.verification.verification`).
Costs a read of each event that is named. Only reads. Must never know how the answer is used.
"""

from collections.abc import Iterator

from daybook.engine.facts.details import CarriedDetail, RoutedDetail
from daybook.engine.facts.events import KIND, decode_detail
from daybook.engine.queues.queue import StoreError
from daybook.errors import cause_of
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.carried_content import located
from daybook.paging.tables.checked import IndexDamaged, Transaction
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import CARRIED, ID_KEY, LARGE, LARGE_KEY, Tables


def check_against(tables: Tables, txn: Transaction, disk: Disk) -> None:
    """Raise IndexDamaged with the first thing that the journal contradicts.

    Events that have left the journal are not checked. Damage of the journal is not searched for,
    and does not count against the tables; raises OSError.
    """
    first = first_lsn_of(disk)
    reader = ContentReader(disk, LAYOUT)
    try:
        wrong = next(_wrong_places(tables, txn, reader, first), None)
    finally:
        reader.close()
    if wrong is not None:
        raise IndexDamaged(
            f"the index in {tables.path} is damaged: it does not agree with the journal: {wrong}"
        )


def _wrong_places(
    tables: Tables, txn: Transaction, reader: ContentReader, first: int
) -> Iterator[str]:
    """Check that content is where the tables say it was carried to, and that bodies have these
    chunks."""
    for key, value in txn.rows(tables.db(CARRIED)):
        message, lsn = ID_KEY.unpack(key)[0], ID_KEY.unpack(value)[0]
        if lsn >= first and (told := _misplaced(reader, lsn, message)):
            yield told
    for key, _ in txn.rows(tables.db(LARGE)):
        chunk, message = LARGE_KEY.unpack(key)
        lsn = located(tables, txn, [message]).get(message, message)
        if min(chunk, lsn) < first:
            continue
        if told := _misplaced(reader, lsn, message):
            yield told
            continue
        event = reader.event(lsn, message)
        detail = decode_detail(event.row[KIND], event.detail)
        if isinstance(detail, RoutedDetail | CarriedDetail) and detail.chunks[:1] > (chunk,):
            # It was carried since: the chunk in the table is its first one from before.
            continue
        if not isinstance(detail, RoutedDetail | CarriedDetail) or detail.chunks[:1] != (chunk,):
            yield f"message {message} does not begin with chunk {chunk}"


def _misplaced(reader: ContentReader, lsn: int, message: int) -> str:
    """Return why an event does not belong to a message; empty if it does, or if the journal is
    damaged there."""
    try:
        reader.event(lsn, message)
    except StoreError as error:
        if cause_of(error) is None:
            return str(error)
    return ""
