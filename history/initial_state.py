"""The state before some event of a journal, expressed as events.

Retention writes the base in place of the segments that it removes, and the indexer leaves snapshots
(ADR 63). Both give the addresses, queues, connections and consumers of a moment, and the queues
that held one message, so that readers of what follows find no unknown id, and need not begin at the
first event. Reads only, from a copy of its own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, cast

import msgspec

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import Detail
from daybook.engine.facts.events import REASON
from daybook.engine.facts.kinds import NAMING
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.entry import Entry
from daybook.engine.state.state import State
from daybook.history.event_finder import EventFinder
from daybook.history.names import Names, WithName
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.data_directory import BASE, BASE_DESCRIPTION, INDEX
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of, first_lsn_of, has_fork
from daybook.paging.content.store import IndexStore
from daybook.paging.snapshots.base import describe
from daybook.paging.tables.records import AddressRecord, QueueRecord, decode
from daybook.paging.tables.tables import ADDRESSES, QUEUES, open_for_reading
from daybook.recovery.moments import checkpoint_in, nearest_state
from daybook.recovery.signing.export_proof import range_of
from daybook.scratch_folders import scratch_folder


class Beginning(NamedTuple):
    """Events that recreate the state after event `lsn`; 0 if no segment left.

    `counts` are messages and queue ids, with the delivery counts that the messages had there.
    """

    lsn: int = 0
    events: tuple[Event, ...] = ()
    counts: tuple[tuple[int, int, int], ...] = ()


EVERYTHING: Final = Beginning()
"""The beginning of a journal that still has its first event."""


def beginning(
    directory: Path,
    disk: Disk,
    messages: Iterable[int] = (),
    *,
    until: int = 0,
    note: Callable[[str], None] = lambda _: None,
    named: WithName | None = None,
) -> Beginning:
    """Return a state to begin reading a data directory's journal at.

    That is the state before its first event, or a later one, of a snapshot that is not behind the
    event `until`. It includes the entries of some `messages`; or only the addresses and queues of
    some names, if they are `named`, which takes a fraction of the time. `disk` has the segments of
    the directory, and maybe those of its archive. The result is EVERYTHING if there is no snapshot
    and no segment left, or no base. `note` is called with a sentence about a damaged snapshot.
    Raises BaseDamaged, IndexDamaged, StoreError, JournalError and OSError.
    """
    with scratch_folder("read") as folder:
        path = folder / INDEX
        lsn = nearest_state(directory, disk, until, path, note)
        if not lsn:
            return EVERYTHING
        if named is not None:
            return Beginning(lsn, tuple(_named(path, disk, named)))
        with checkpoint_in(path, disk) as (state, store):
            told = list(_topology(state))
            counts = []
            for message in messages:
                found = _entries(state, store, message)
                told += _places(message, found)
                counts += [(message, queue_id, entry.delivery_count) for queue_id, entry in found]
            return Beginning(lsn, tuple(told), tuple(counts))


def learn_names(names: Names, disk: Disk, from_lsn: int, to_lsn: int | None = None) -> None:
    """Add the names of addresses and queues that events of a span give. Raises JournalError."""
    search = Search(Clause(NAMING), from_lsn=from_lsn, to_lsn=to_lsn)
    for event in EventFinder(disk).find(search):
        names.learn(event.row, event.detail)


def _event(kind: int, detail: Detail | None = None, **columns: int) -> Event:
    encoded = events.encode_detail(detail) if detail is not None else b""
    return Event(0, events.row(kind, **columns), encoded, b"", 0, None)


def _topology(state: State) -> Iterator[Event]:
    for address in state.addresses.values():
        yield _event(events.ADDRESS_CREATED, address.definition, address=address.id)
    for queue in state.queues.values():
        detail = details.QueueDetail(
            **msgspec.structs.asdict(queue.definition), deleting=queue.deleting
        )
        yield _event(events.QUEUE_CREATED, detail, address=queue.address.id, queue=queue.id)
    for connection in state.connections.values():
        peer = details.ConnectionDetail(
            connection.protocol, connection.peer, connection.user, connection.client_id
        )
        yield _event(events.CONNECTION_OPENED, peer, connection=connection.id)
    for consumer in state.consumers.values():
        yield _attached(consumer)


def _named(path: Path, disk: Disk, named: WithName) -> Iterator[Event]:
    """Yield how the addresses and queues of an index began whose records may have a name."""
    with closing(open_for_reading(path, data_id_of(disk))) as tables, tables.read() as txn:
        for _, value in txn.rows(tables.db(ADDRESSES)):
            if named.is_among(value):
                address = decode(AddressRecord, value, "an address")
                detail = details.AddressDetail(name=address.name)
                yield _event(events.ADDRESS_CREATED, detail, address=address.id)
        for _, value in txn.rows(tables.db(QUEUES)):
            if named.is_among(value):
                queue = decode(QueueRecord, value, "a queue")
                yield _event(
                    events.QUEUE_CREATED, details.QueueDetail(name=queue.name),
                    address=queue.address, queue=queue.id,
                )  # fmt: skip


def _attached(consumer: Consumer) -> Event:
    detail = details.ConsumerAttachedDetail(
        consumer.subscription, consumer.ack_mode, consumer.filter, consumer.priority,
        consumer.exclusive, consumer.browses, consumer.first,
    )  # fmt: skip
    return _event(
        events.CONSUMER_ATTACHED, detail,
        queue=consumer.queue.id, consumer=consumer.id, connection=consumer.connection_id,
    )  # fmt: skip


def _entries(state: State, store: IndexStore, message: int) -> list[tuple[int, Entry]]:
    """The entries of a message by queue id."""
    found = []
    for queue in state.queues.values():
        entry = queue.entries.get(message) or store.find(queue, message)
        if entry is not None:
            found.append((queue.id, entry))
    return found


def _places(message: int, found: list[tuple[int, Entry]]) -> Iterator[Event]:
    """Express a message's entries as events; the events have no content."""
    if not found:
        return
    known = found[0][1].message
    detail = details.RoutedDetail(
        queues=tuple(queue_id for queue_id, _ in found), expires=known.expires
    )
    yield _event(
        events.ROUTED, detail, address=known.address_id, priority=known.priority,
        flags=known.flags & ~events.LARGE, message=message,
    )  # fmt: skip
    for queue_id, entry in found:
        consumer = entry.consumer
        if entry.held:
            yield _event(
                events.HELD, delivery_count=entry.delivery_count, queue=queue_id, message=message
            )
        if entry.due:
            yield _event(
                events.SCHEDULED, details.ScheduledDetail(due=entry.due),
                delivery_count=entry.delivery_count, queue=queue_id, message=message,
            )  # fmt: skip
        if consumer is not None:
            yield _event(
                events.DELIVERED, delivery_count=entry.delivery_count, queue=queue_id,
                message=message, consumer=consumer.id, connection=consumer.connection_id,
            )  # fmt: skip


def archive_of(disk: Disk) -> str:
    """Return the archive of the segments that left last, as the journal records it; "" for none."""
    removals = Search(Clause({events.SEGMENTS_REMOVED}))
    newest = next(EventFinder(disk).find_back(removals), None)
    if newest is None:
        return ""
    detail = events.decode_detail(events.SEGMENTS_REMOVED, newest.detail)
    return cast(details.SegmentsRemovedDetail, detail).archive


def base_lsn(directory: Path, disk: Disk) -> int:
    """Return the last event of the base of a data directory; 0 if it has no base.

    Raises BaseDamaged, JournalError and OSError.
    """
    if not (directory / BASE / BASE_DESCRIPTION).exists():
        return 0
    base = describe(directory / BASE, data_id_of(disk))
    return base.lsn if base is not None else 0


def before_the_first(directory: Path, disk: Disk) -> str:
    """Say where what was before the first event of a journal may be.

    Raises ExportError, JournalError and OSError.
    """
    exported = range_of(directory)
    if exported:
        return exported
    if first_lsn_of(disk) == FIRST_LSN:
        return "there was nothing before"
    if has_fork(disk):
        return (
            "this is a fork: the directory that it was made from may have what was before, or the "
            "archive of that, named with --archive"
        )
    if _was_salvaged(disk):
        return (
            "this was salvaged: only an archive or a copy of the directory that it was salvaged "
            "from may have what was before; ask that"
        )
    return "an archive may have what was before: add --with-archive"


def _was_salvaged(disk: Disk) -> bool:
    lost = EventFinder(disk).find(Search(Clause({events.LOST})))
    return any(each.row[REASON] == reasons.SALVAGED and each.detail for each in lost)


def what_is_missing(directory: Path, disk: Disk) -> str:
    """Say in a sentence where the history before the first event of a journal is.

    Raises ExportError, JournalError and OSError.
    """
    exported = range_of(directory)
    if exported:
        return exported
    archive = archive_of(disk)
    if not archive and (has_fork(disk) or _was_salvaged(disk)):
        where = before_the_first(directory, disk)
        return f"the journal begins with event {first_lsn_of(disk)}; {where}"
    where = f"is in the archive {archive}: add --with-archive" if archive else "was not archived"
    return f"the history before event {first_lsn_of(disk)} left the journal, and {where}"
