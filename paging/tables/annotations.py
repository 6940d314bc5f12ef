"""The annotations of entries in the pages, by queue and message (ADR 100).

Pages have their hashes, so a reader knows which entries have some, and that what it finds is what
belongs there. Those of entries in flight are in their records. Must never know their meaning.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from daybook.engine.messages.annotations import hash_of
from daybook.paging.tables.checked import IndexDamaged, Table, Transaction
from daybook.paging.tables.pages import Ids, Rows
from daybook.paging.tables.tables import ANNOTATION_KEY, ANNOTATIONS, Tables

NONE_NOTED: Final[dict[int, bytes]] = {}
"""What `of_rows` returns for rows without annotations; never changed."""


def of_entry(tables: Tables, txn: Transaction, queue_id: int, message_id: int, known: int) -> bytes:
    """Return the annotations of an entry whose page has this hash of them, b"" if it has none.

    Raises IndexDamaged if they are others.
    """
    if not known:
        return b""
    key = ANNOTATION_KEY.pack(queue_id, message_id)
    value = txn.get(key, db=tables.db(ANNOTATIONS)) or b""
    if hash_of(value) != known:
        raise IndexDamaged(
            f"the index in {tables.path} is damaged: the annotations of message {message_id} in "
            f"queue {queue_id} are not those that it had"
        )
    return value


def of_rows(tables: Tables, txn: Transaction, queue_id: int, rows: Rows) -> dict[int, bytes]:
    """Return the annotations of the rows that have some, by message. Raises IndexDamaged."""
    chosen = np.flatnonzero(rows.annotated)
    if not len(chosen):
        return NONE_NOTED
    known = zip(rows.message[chosen].tolist(), rows.annotated[chosen].tolist(), strict=True)
    return {
        message_id: of_entry(tables, txn, queue_id, message_id, hashed)
        for message_id, hashed in known
    }


def forget(table: Table, txn: Transaction, queue: Ids | NDArray[np.int64], rows: Rows) -> None:
    """Delete the annotations of rows that left the pages of their queues."""
    chosen = np.flatnonzero(rows.annotated)
    for queue_id, message_id in zip(
        queue[chosen].tolist(), rows.message[chosen].tolist(), strict=True
    ):
        txn.delete(ANNOTATION_KEY.pack(queue_id, message_id), db=table)
