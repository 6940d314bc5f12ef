"""Comparing an index with the result of folding the journal up to the same event.

The digest shows whether they are the same state. Tables outside the state must be equal row by row:
the places of content, chunks and blocks, expiries, entries in flight. The content of clusters must
be that of the journal. Only reads. Must never know the caller.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import CLUSTERS_DIRECTORY
from daybook.journal.disk import Disk, RealDisk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.content.cluster_writer import ranges_of
from daybook.paging.content.clusters import Cluster
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.carried_content import located
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import (
    ANNOTATIONS,
    BLOCKS,
    CARRIED,
    FLIGHTS,
    LARGE,
    TIMERS,
    Tables,
)

_Row = tuple[bytes, bytes]

COMPARED: Final = (CARRIED, LARGE, BLOCKS, TIMERS, FLIGHTS, ANNOTATIONS)
"""Tables whose rows depend only on the events, however those were cut into batches."""


def different_rows(ours: Tables, theirs: Tables) -> Iterator[str]:
    """Describe, for each table, the first difference. Raises IndexDamaged."""
    both = [name for name in COMPARED if ours.has(name) and theirs.has(name)]
    with ours.read() as our_txn, theirs.read() as their_txn:
        for name in both:
            right = our_txn.rows(ours.db(name))
            for row in their_txn.rows(theirs.db(name)):
                expected = next(right, None)
                if row != expected:
                    yield _told(name, row, expected)
                    break
            else:
                missing = next(right, None)
                if missing is not None:
                    yield _told(name, None, missing)


def _told(
    name: bytes, row: tuple[bytes, bytes] | None, expected: tuple[bytes, bytes] | None
) -> str:
    found, wanted = (
        f"{each[0].hex()}: {each[1].hex() or 'nothing'}" if each is not None else "no more rows"
        for each in (row, expected)
    )
    return f"table '{name.decode()}' has {found}, and folding the journal gives {wanted}"


def different_clusters(tables: Tables, disk: Disk) -> Iterator[str]:
    """Describe the clusters whose content is not that of the journal. Raises IndexDamaged."""
    clusters = RealDisk(Path(tables.path) / CLUSTERS_DIRECTORY)
    reader = ContentReader(disk, LAYOUT)
    first = first_lsn_of(disk)
    try:
        with tables.read() as txn:
            data_id = tables.data_id(txn)
            for known in ranges_of(tables, txn):
                try:
                    cluster = Cluster(clusters, data_id, known)
                except FileNotFoundError:
                    # It was removed meanwhile; a reader does without it.
                    continue
                try:
                    if _differs(tables, txn, cluster, reader, first):
                        yield f"cluster {known.name} contains something that the journal does not"
                except (Damage, OSError, StoreError) as error:
                    yield f"cluster {known.name}: {error}"
                finally:
                    cluster.close()
    finally:
        reader.close()


def _differs(
    tables: Tables, txn: Transaction, cluster: Cluster, reader: ContentReader, first: int
) -> bool:
    for number in range(cluster.units):
        unit = cluster.read(number)
        messages = unit.columns[1].tolist()
        carried = located(tables, txn, messages)
        places = sorted(
            (lsn, message, string)
            for message, string in zip(messages, unit.strings(), strict=True)
            if (lsn := carried.get(message, message)) >= first
        )
        lsns, ids = [place[0] for place in places], [place[1] for place in places]
        contents = reader.fetch(lsns, ids)
        for (_, _, string), (headers, body) in zip(places, contents, strict=True):
            if headers + body != string:
                return True
    return False
