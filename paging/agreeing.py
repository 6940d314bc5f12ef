"""Whether the journal has what the tables say: content where it was carried to, chunks of bodies.

What folding the journal would come to is not asked here (`tools.verification`). Costs reading each
event that is named. Changes nothing. Must never know what is done about the answer.
"""

from collections.abc import Iterator

from daybook.engine.events import KIND, CarriedDetail, RoutedDetail, decode_detail
from daybook.engine.queues import StoreError
from daybook.errors import cause_of
from daybook.journal.disk import Disk
from daybook.journal.segment import first_lsn_of
from daybook.paging.carrying import located
from daybook.paging.checked import IndexDamaged, Transaction
from daybook.paging.content import ContentReader
from daybook.paging.layout import LAYOUT
from daybook.paging.tables import CARRIED, ID_KEY, LARGE, LARGE_KEY, Tables


def check_against(tables: Tables, txn: Transaction, disk: Disk) -> None:
    """Raise IndexDamaged with the first thing that the journal contradicts.

    What has left the journal is not asked for. Damage of the journal is not looked for, and proves
    nothing about the tables; raises OSError.
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
    """Content is where the tables say that it was carried to, and bodies have these chunks."""
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
            # It was carried since: what is listed is the chunk that it began with.
            continue
        if not isinstance(detail, RoutedDetail | CarriedDetail) or detail.chunks[:1] != (chunk,):
            yield f"message {message} does not begin with chunk {chunk}"


def _misplaced(reader: ContentReader, lsn: int, message: int) -> str:
    """Why an event is not that of a message; empty if it is, or if the journal is damaged there."""
    try:
        reader.event(lsn, message)
    except StoreError as error:
        if cause_of(error) is None:
            return str(error)
    return ""
