"""Makes events behind a gap fit the remaining history before it (ADR 67).

Each event is applied if it fits the state. An event that ends an entry ends it, whatever the state
of the entry is; a message enters those of its queues that exist; a name that is taken gets a
number. Everything else that does not fit is replaced by `Lost`, which keeps its columns. So a
message whose end is in the gap stays, and none is invented.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

import msgspec

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.events import (
    ADDRESS,
    CONNECTION,
    CONSUMER,
    KIND,
    MESSAGE,
    QUEUE,
    TIME,
    Row,
)
from daybook.engine.facts.kinds import ENDING_A_DELIVERY, LEAVING, LIVES, WITH_DIGEST, changing
from daybook.engine.facts.life import ADDRESS as AN_ADDRESS
from daybook.engine.facts.life import BEGINS, NOWHERE
from daybook.engine.facts.life import QUEUE as A_QUEUE
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.facts.rows import pack_wide
from daybook.engine.state.apply import APPLY
from daybook.engine.state.feature_levels import level_of
from daybook.engine.state.state import State
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.block import Block

ID_NAME: Final = "salvaged-{}"
"""The name of a queue or an address that is known by its id only."""
BEGINNING: Final = changing({AN_ADDRESS, A_QUEUE}, {BEGINS})
RENAMED: Final = "{}.salvaged-{}"
"""The name of one whose name another still has, because its deletion is lost."""


class Fact(NamedTuple):
    """An event, without its place in the journal."""

    row: Row
    detail: bytes = b""
    headers: bytes = b""
    body: bytes = b""


class Wanted:
    """The ids of addresses and queues that events name and whose creation is lost, in order."""

    def __init__(self, state: State) -> None:
        self._addresses: Final = set(state.addresses)
        self._queues: Final = set(state.queues)
        self.found: Final[list[tuple[int, Fact]]] = []
        """Events that create them, each with the first event that names the thing."""

    def follow(self, block: Block) -> None:
        """Note the objects that the events of a block name."""
        for lsn, row, detail, _, _ in _facts_of(block):
            if row[KIND] == events.ADDRESS_CREATED:
                self._addresses.add(row[ADDRESS])
            if row[KIND] == events.QUEUE_CREATED:
                self._queues.add(row[QUEUE])
            if row[ADDRESS]:
                self._address(lsn, row[ADDRESS], row)
            queues: Iterable[int] = (row[QUEUE],) if row[QUEUE] else ()
            if row[KIND] == events.ROUTED and not row[QUEUE]:
                decoded = events.routed_detail(detail)
                queues = decoded.queues
            for queue in queues:
                self._queue(lsn, queue, row, detail)

    def _address(self, lsn: int, address: int, row: Row) -> None:
        if address in self._addresses:
            return
        self._addresses.add(address)
        detail = details.AddressDetail(
            name=ID_NAME.format(f"address-{address}"), routing_types=("anycast", MULTICAST)
        )
        made = events.row(
            events.ADDRESS_CREATED, reason=reasons.SALVAGED, address=address, time=row[TIME]
        )
        self.found.append((lsn, Fact(made, events.encode_detail(detail))))

    def _queue(self, lsn: int, queue: int, row: Row, encoded: bytes) -> None:
        if queue in self._queues or not row[ADDRESS]:
            return
        self._queues.add(queue)
        detail = details.QueueDetail(name=ID_NAME.format(f"queue-{queue}"), routing_type=MULTICAST)
        if row[KIND] == events.QUEUE_UPDATED:
            said = cast(details.QueueDetail, events.decode_detail(row[KIND], encoded))
            if said.name and not said.deleting:
                detail = msgspec.structs.replace(said, changed=())
        made = events.row(
            events.QUEUE_CREATED, reason=reasons.SALVAGED, address=row[ADDRESS], queue=queue,
            time=row[TIME],
        )  # fmt: skip
        self.found.append((lsn, Fact(made, events.encode_detail(detail))))


class Fitter:
    """Applies events to a state, and gives the form of each in the salvaged journal.

    `replaced` counts events by kind that did not fit; `renamed` are the names that were given;
    `unknown` counts events that end messages without other events.
    """

    def __init__(self, state: State) -> None:
        self.state: Final = state
        self.replaced: Final[Counter[str]] = Counter()
        self.renamed: Final[list[str]] = []
        self.unsettled: Final[dict[int, int]] = {}
        """Messages that were named behind the gap and whose Routed is lost: the last queue."""
        self.dropped: Final[Counter[int]] = Counter()
        """How many messages did not enter a queue that they were sent to, by its id."""
        self.carried: Final[dict[int, int]] = {}
        """Messages whose content was carried behind the gap: their addresses."""

    def fit(self, block: Block) -> Batch | None:
        """Apply a block; return the batch to write in its place, None if the block stands."""
        facts = []
        changed = False
        for lsn, row, detail, headers, body in _facts_of(block):
            fact = Fact(row, detail, headers, body)
            fitted = self.apply(lsn, fact)
            changed = changed or fitted is not fact
            facts.append(fitted)
        return batch_of(block.first_lsn, facts) if changed else None

    def apply(self, lsn: int, fact: Fact) -> Fact:
        """Apply an event as far as it fits; return its form in the salvaged journal."""
        kind = fact.row[KIND]
        if kind not in APPLY or kind in WITH_DIGEST:
            return self._lost(fact)
        try:
            fitted = self._fitting(fact)
            if fitted is not None:
                row, detail, headers, _ = fitted
                # Content is not needed to fit an event.
                APPLY[row[KIND]](self.state, lsn, row, detail, headers, b"")
                return fitted
        except (KeyError, ValueError, IndexError, MismatchError, msgspec.MsgspecError):
            pass
        if kind == events.ROUTED:
            self.dropped.update(_queues_of(fact))
        return self._lost(fact)

    def _fitting(self, fact: Fact) -> Fact | None:
        row, kind = fact.row, fact.row[KIND]
        state = self.state
        if kind == events.ROUTED:
            return self._routed(fact)
        if kind == events.CARRIED:
            self.carried[row[MESSAGE]] = row[ADDRESS]
        if kind in LEAVING:
            self.carried.pop(row[MESSAGE], None)
        if kind in LIVES and NOWHERE not in LIVES[kind].before:
            return self._moved(fact)
        if kind in BEGINNING:
            return self._created(fact)
        if kind == events.CONSUMER_DETACHED and state.consumers[row[CONSUMER]].unacked:
            return None
        if kind == events.CONNECTION_CLOSED and self._is_used(row[CONNECTION]):
            return None
        if kind == events.QUEUE_DELETED:
            return self._deleted(fact)
        if kind == events.ADDRESS_DELETED:
            # A queue that is being deleted is hidden, and is still of its address.
            address = state.addresses[row[ADDRESS]]
            has_queues = any(queue.address is address for queue in state.queues.values())
            return None if has_queues else fact
        return fact

    def _is_used(self, connection: int) -> bool:
        """Whether a connection has consumers, or temporary queues."""
        return bool(self.state.connections[connection].consumers) or any(
            queue.definition.owner == connection for queue in self.state.queues.values()
        )

    def _routed(self, fact: Fact) -> Fact | None:
        decoded = events.routed_detail(fact.detail)
        asked = _queues_of(fact)
        known = tuple(queue for queue in asked if queue in self.state.queues)
        if known == asked:
            return fact
        if not known:
            return None
        self.dropped.update(queue for queue in asked if queue not in known)
        values = {queue: value for queue, value in decoded.last_values.items() if queue in known}
        detail = msgspec.structs.replace(decoded, queues=known, last_values=values)
        return fact._replace(detail=events.encode_detail(detail))

    def _moved(self, fact: Fact) -> Fact | None:
        """An event of an entry that exists: as it is, or as a removal if it ends the entry."""
        row = fact.row
        queue = self.state.queues[row[QUEUE]]
        entry = queue.find(row[MESSAGE])
        if entry is None:
            self.unsettled[row[MESSAGE]] = 0 if row[KIND] in LEAVING else row[QUEUE]
            return None
        holder = entry.consumer.id if entry.consumer is not None else 0
        ends_another = row[KIND] in ENDING_A_DELIVERY and row[CONSUMER] not in (0, holder)
        if entry.place in LIVES[row[KIND]].before and not ends_another:
            return fact
        if row[KIND] not in LEAVING:
            return None
        self.replaced[events.BY_NUMBER[row[KIND]].name] += 1
        removed = list(row)
        removed[KIND], removed[events.REASON] = events.REMOVED, reasons.SALVAGED
        removed[CONSUMER] = 0
        return Fact(cast(Row, tuple(removed)))

    def _created(self, fact: Fact) -> Fact | None:
        """An address or a queue: with another name if its own is taken."""
        row, state = fact.row, self.state
        is_queue = row[KIND] == events.QUEUE_CREATED
        if (row[QUEUE] in state.queues) if is_queue else (row[ADDRESS] in state.addresses):
            return None
        decoded = cast(
            details.QueueDetail | details.AddressDetail,
            events.decode_detail(row[KIND], fact.detail),
        )
        name = decoded.name
        if isinstance(decoded, details.QueueDetail) and decoded.owner not in (
            0, *state.connections
        ):  # fmt: skip
            # Nobody would delete it: how its owner connected is lost.
            decoded = msgspec.structs.replace(decoded, owner=0, temporary=False)
            fact = fact._replace(detail=events.encode_detail(decoded))
        if isinstance(decoded, details.QueueDetail):
            types = state.addresses[row[ADDRESS]].definition.routing_types
            if types and decoded.routing_type not in types:
                # How the address got that routing type is lost, or the type of the queue is.
                decoded = msgspec.structs.replace(decoded, routing_type=types[0])
                fact = fact._replace(detail=events.encode_detail(decoded))
        if is_queue and not name:
            name = state.addresses[row[ADDRESS]].name
        taken: Iterable[str] = state.queue_by_name if is_queue else state.address_by_name
        if name not in taken:
            return fact
        given = RENAMED.format(name, row[QUEUE] if is_queue else row[ADDRESS])
        self.renamed.append(given)
        renamed = msgspec.structs.replace(decoded, name=given)
        return fact._replace(detail=events.encode_detail(renamed))

    def _deleted(self, fact: Fact) -> Fact | None:
        """A queue that is not empty, or in use, begins to be deleted; the broker continues."""
        queue = self.state.queues[fact.row[QUEUE]]
        if not queue.message_count and not queue.is_used:
            return fact
        if queue.deleting:
            return None
        hidden = list(fact.row)
        hidden[KIND] = events.QUEUE_UPDATED
        detail = details.QueueDetail(**msgspec.structs.asdict(queue.definition), deleting=True)
        self.replaced[events.BY_NUMBER[events.QUEUE_DELETED].name] += 1
        return Fact(cast(Row, tuple(hidden)), events.encode_detail(detail))

    def _lost(self, fact: Fact) -> Fact:
        kind = fact.row[KIND]
        name = events.BY_NUMBER[kind].name if kind in events.BY_NUMBER else f"kind {kind}"
        self.replaced[name] += 1
        row = (events.LOST, *fact.row[1:])
        return fact._replace(row=row, detail=events.encode_detail(details.LostDetail(kind, name)))


def _queues_of(routed: Fact) -> tuple[int, ...]:
    """Return the queues that a message was sent to."""
    decoded = events.routed_detail(routed.detail)
    return decoded.queues or (routed.row[QUEUE],)


def lost_rows(first_lsn: int, last_lsn: int, time: int) -> Batch:
    """Return a batch that stands for unknown events."""
    packed = pack_wide(events.row(events.LOST, time=time), 0, 0, 0)
    rows = [packed * (last_lsn - first_lsn + 1)]
    return Batch(first_lsn, rows, ([], [], []), time, level_of([packed], []))


def batch_of(first_lsn: int, facts: list[Fact]) -> Batch:
    """Return the batch of these events, the first of which has this LSN."""
    rows = [
        pack_wide(fact.row, len(fact.detail), len(fact.headers), len(fact.body)) for fact in facts
    ]
    strings = zip(*(fact[1:] for fact in facts), strict=True)
    heaps = [[text for text in heap if text] for heap in strings]
    return Batch(first_lsn, rows, heaps, facts[-1].row[TIME], level_of(rows, heaps[0]))


def _facts_of(block: Block) -> Iterator[tuple[int, Row, bytes, bytes, bytes]]:
    return cast(Iterator[tuple[int, Row, bytes, bytes, bytes]], block.events())
