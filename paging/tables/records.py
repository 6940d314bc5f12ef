"""The records of the index for everything except ready entries: queues, peers, entries in flight.

A record is a msgpack array; new fields are added only at its end, with a default. Must never know
where records are stored.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from daybook.engine.facts.definitions import (
    AddressDefinition,
    Detail,
    DivertDefinition,
    QueueDefinition,
    SharedTexts,
    is_shared,
)
from daybook.engine.facts.events import MESSAGE_FLAGS, OF_HEADERS, REDELIVERED
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.message import PRIORITIES, Message, message_without_content
from daybook.engine.names.names import HOST
from daybook.engine.queues.consumer import Connection, Consumer
from daybook.engine.queues.entry import RETAINED, SCHEDULED_LEVEL, Entry, Scheduled
from daybook.engine.queues.queue import Address, Queue, recalls_of
from daybook.engine.settings.setting_keys import Matches
from daybook.engine.state.state import State
from daybook.paging.tables.checked import IndexDamaged


class AddressRecord(msgspec.Struct, array_like=True, frozen=True):
    """An address, and the queues bound to it in order.

    `more` is as in QueueRecord; the counts of ids are how many were ever remembered, and how many
    are now.
    """

    id: int
    host: str
    name: str
    routing_types: tuple[str, ...]
    auto_created: bool
    anycast: list[int]
    multicast: list[int]
    paging: bool = False
    ids_recorded: int = 0
    ids_count: int = 0
    more: dict[str, Any] = {}
    created_at: int = 0
    emptied_at: int = 0
    routed: int = 0
    unrouted: int = 0


class LevelRecord(msgspec.Struct, array_like=True, frozen=True):
    """The counts of the pages of one level: how many entries, their bytes, the non-persistent
    part."""

    priority: int
    count: int
    bytes: int
    transients: int
    transient_bytes: int


class QueueRecord(msgspec.Struct, array_like=True, frozen=True):
    """A queue: attributes, counters, and the totals of its ready entries in the pages.

    `sum` is the sum of the hashes of its ready entries modulo 2^64; `levels` has the levels that
    are not empty. `more` has, by name, the attributes of its definition that are not fields here
    and differ from their default. `recalls` is as `recall.recalls_of` returns it.
    """

    id: int
    name: str
    address: int
    routing_type: str
    filter: str
    durable: bool
    temporary: bool
    auto_created: bool
    owner: int
    paused: bool
    added: int
    acknowledged: int
    dead_lettered: int
    expired: int
    newest: int
    levels: list[LevelRecord]
    sum: int
    user: str = ""
    deleting: bool = False
    more: dict[str, Any] = {}
    created_at: int = 0
    left_at: int = 0
    replaced: int = 0
    evicted: int = 0
    waits_since: int = 0
    recalls: list[int] = []


class ConnectionRecord(msgspec.Struct, array_like=True, frozen=True):
    """An open connection."""

    id: int
    protocol: str
    peer: str
    user: str
    client_id: str
    host: str = HOST


class ConsumerRecord(msgspec.Struct, array_like=True, frozen=True):
    """A consumer; `in_flight` are message ids in order of delivery, u64 little endian, and so are
    those that it `refused`."""

    id: int
    connection: int
    queue: int
    subscription: str
    ack_mode: str
    filter: str
    in_flight: bytes
    priority: int = 0
    exclusive: bool = False
    browses: bool = False
    first: int = 0
    refused: bytes = b""


class FlightRecord(msgspec.Struct, array_like=True, frozen=True):
    """An entry in flight. `size` is in bytes with overhead, `expires` in ms since 1970 or 0;
    `delivered_at` in microseconds since 1970, 0 in records of brokers that did not keep it.

    `flags` are those of the message and, as in pages, those of the entry. `annotations` are packed,
    and `size` includes them.
    """

    consumer: int
    address: int
    priority: int
    flags: int
    size: int
    delivery_count: int
    expires: int
    annotations: bytes = b""
    delivered_at: int = 0


class SettingsRecord(msgspec.Struct, array_like=True, frozen=True):
    """Values that exist once: address settings with the syntax of names, the next ids, diverts,
    and marks of the time (`engine.state.times`)."""

    settings: Matches
    journal_non_persistent: str
    next_address: int
    next_queue: int
    syntax: str = ""
    live: Matches = {}
    diverts: list[DivertDefinition] = []
    marks: list[tuple[int, int]] = []


ASIDE_SHIFT: Final = 4
"""The number of bits by which some flags are shifted in entries that are set aside."""
ASIDE_MASK: Final = (1 << ASIDE_SHIFT) - 1
"""The lower flags, which are not shifted; as many bits after them hold the priority."""
ATTRIBUTES_KEPT: Final = 4096
"""How many sets of later attributes are remembered, a kilobyte each."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (
        AddressRecord, QueueRecord, ConnectionRecord, ConsumerRecord, FlightRecord, SettingsRecord,
    )
}  # fmt: skip
R = TypeVar("R", bound=msgspec.Struct)
_D = TypeVar("_D", bound=Detail)


def encode(record: msgspec.Struct) -> bytes:
    """Encode a record."""
    return _ENCODER.encode(record)


def decode(kind: type[R], value: bytes, what: str) -> R:
    """Read a record; `what` names it in the IndexDamaged that is raised if it is none."""
    try:
        found: R = _DECODERS[kind].decode(value)  # type: ignore[index, assignment]
    except msgspec.MsgspecError as error:
        raise IndexDamaged(f"the index is damaged: {what} cannot be read: {error}") from error
    return found


def address_record(address: Address) -> AddressRecord:
    """Build the record of an address."""
    ids = address.ids
    return AddressRecord(
        id=address.id, anycast=[binding.queue.id for binding in address.anycast],
        multicast=[binding.queue.id for binding in address.multicast], paging=address.paging,
        ids_recorded=ids.recorded if ids else 0, ids_count=ids.count if ids else 0,
        created_at=address.created_at, emptied_at=address.emptied_at,
        routed=address.routed, unrouted=address.unrouted,
        **_attributes(address.definition),
    )  # fmt: skip


def queue_record(queue: Queue, levels: list[LevelRecord], total: int) -> QueueRecord:
    """Build the record of a queue; `total` is the sum of the hashes of its ready entries."""
    return QueueRecord(
        id=queue.id, address=queue.address.id, paused=queue.paused, added=queue.added,
        acknowledged=queue.acknowledged, dead_lettered=queue.dead_lettered, expired=queue.expired,
        newest=queue.newest, levels=levels, sum=total, deleting=queue.deleting,
        created_at=queue.created_at, left_at=queue.left_at, waits_since=queue.waits_since,
        replaced=queue.replaced, evicted=queue.evicted, recalls=recalls_of(queue),
        **_attributes(queue.definition),
    )  # fmt: skip


def _attributes(definition: Detail) -> dict[str, Any]:
    """Return the attributes of a definition in the form of the fields of a record.

    Each commit writes the records of all queues that anything happened to.
    """
    own = _OWN[type(definition)]
    found = dict(zip(own.names, own.values_of(definition), strict=True))
    found["more"] = _beyond(type(definition), *own.beyond_of(definition))
    return found


@lru_cache(maxsize=ATTRIBUTES_KEPT)
def _beyond(kind: type[Detail], *values: Any) -> Mapping[str, Any]:
    """Return the attributes of a definition that have no field in its record, given all of their
    values, as far as they differ from their default."""
    found = zip(_OWN[kind].beyond, values, strict=True)
    return {field.name: value for field, value in found if value != field.default}


def definition_of(
    kind: type[_D], record: AddressRecord | QueueRecord, texts: SharedTexts, name: str = ""
) -> _D:
    """Return the definition in a record, made of shared texts; `name` as in `definition_in`.

    A start does this for each name, so nothing is read that a record has not. Raises IndexDamaged.
    """
    own = _OWN[kind]
    values = list(own.values_of(record))
    texts.share(own.shared, values)
    if values[own.name_at] == name:
        values[own.name_at] = name
    if not record.more:
        return kind(*values)
    try:
        later = _later(kind, record.more)
    except msgspec.ValidationError as error:
        text = f"the index is damaged: '{record.name}' is defined so: {error}"
        raise IndexDamaged(text) from error
    return kind(**(dict(zip(own.names, values, strict=True)) | later))


def _later(kind: type[Detail], more: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes in `more` of a record that a definition has.

    Raises msgspec.ValidationError.
    """
    try:
        return _later_of(kind, tuple(more), *more.values())
    except TypeError:
        # One that cannot be a key, so it is remembered nowhere.
        return _converted(kind, more)


# Many queues have the same ones. A number is not taken for the truth value that equals it.
@lru_cache(maxsize=ATTRIBUTES_KEPT, typed=True)
def _later_of(kind: type[Detail], names: tuple[str, ...], *values: Any) -> dict[str, Any]:
    return _converted(kind, dict(zip(names, values, strict=True)))


def _converted(kind: type[Detail], more: dict[str, Any]) -> dict[str, Any]:
    found = msgspec.convert(more, kind)
    return {name: getattr(found, name) for name in kind.__struct_fields__ if name in more}


class _Own:
    """How to read from a record the attributes of a definition that are its fields."""

    def __init__(self, kind: type[Detail], record: type[msgspec.Struct]) -> None:
        fields = [
            each for each in msgspec.structs.fields(kind) if each.name in record.__struct_fields__
        ]
        self.names: Final = tuple(each.name for each in fields)
        # They are given to the definition by their places.
        assert self.names == kind.__struct_fields__[: len(fields)]
        self.values_of: Final[Callable[[Any], Any]] = attrgetter(*self.names)
        self.name_at: Final = self.names.index("name")
        self.shared: Final = [place for place, each in enumerate(fields) if is_shared(each)]
        self.beyond: Final = msgspec.structs.fields(kind)[len(fields) :]
        names = [each.name for each in self.beyond]
        self.beyond_of: Final[Callable[[Any], Any]] = attrgetter(*names)


_OWN: Final = {
    AddressDefinition: _Own(AddressDefinition, AddressRecord),
    QueueDefinition: _Own(QueueDefinition, QueueRecord),
}


def connection_record(connection: Connection) -> ConnectionRecord:
    """Build the record of a connection."""
    return ConnectionRecord(
        connection.id, connection.protocol, connection.peer, connection.user,
        connection.client_id, connection.host,
    )  # fmt: skip


def consumer_record(consumer: Consumer) -> ConsumerRecord:
    """Build the record of a consumer, with the ids of its deliveries in flight."""
    in_flight = b"".join([number.to_bytes(8, "little") for number in consumer.unacked])
    refused = b"".join([number.to_bytes(8, "little") for number in consumer.refused])
    return ConsumerRecord(
        consumer.id, consumer.connection_id, consumer.queue.id, consumer.subscription,
        consumer.ack_mode, consumer.filter, in_flight, consumer.priority, consumer.exclusive,
        consumer.browses, consumer.first, refused,
    )  # fmt: skip


def settings_record(state: State) -> SettingsRecord:
    """Build the record of values that exist once."""
    return SettingsRecord(
        state.settings.to_dict(), state.journal_non_persistent, state.next_address,
        state.next_queue, state.settings.syntax.text, state.settings.live_to_dict(),
        list(state.diverts.values()), state.times.marks,
    )  # fmt: skip


def flight_record(entry: Entry) -> FlightRecord:
    """Build the record of an entry in flight."""
    message = entry.message
    assert entry.consumer is not None
    return FlightRecord(
        entry.consumer.id, message.address_id, message.priority, flags_of(entry), message.size,
        entry.delivery_count, message.expires, message.annotations, entry.delivered_at,
    )  # fmt: skip


def flags_of(entry: Entry) -> int:
    """Return the flags of an entry in the index: its message's, and its own.

    Entries that are set aside are in one level, whatever their priority, so their flags include the
    priority: in bits 4 to 7, where others have what the flags say about the headers, which then is
    in bits 8 to 11.
    """
    flags = entry.message.flags | REDELIVERED if entry.redelivered else entry.message.flags
    if entry.retained:
        flags |= RETAINED
    if entry.level < PRIORITIES:
        return flags
    plain, of_headers = flags & ~OF_HEADERS, flags & OF_HEADERS
    return plain | entry.message.priority << ASIDE_SHIFT | of_headers << ASIDE_SHIFT


def priority_of(level: int, flags: int) -> int:
    """Return the priority of a message from its level and flags in the index."""
    return flags >> ASIDE_SHIFT & ASIDE_MASK if level >= PRIORITIES else level


def message_flags(level: int, flags: int) -> int:
    """Return the flags of a message from its level and flags in the index."""
    if level >= PRIORITIES:
        flags = flags & ASIDE_MASK | flags >> ASIDE_SHIFT & OF_HEADERS
    return flags & MESSAGE_FLAGS


def entry_of(message: Message, level: int, delivery_count: int, flags: int, due: int = 0) -> Entry:
    """Make the entry of a message from its values in the index; `flags` as `flags_of` returns
    them."""
    entry = Scheduled(message, due) if level == SCHEDULED_LEVEL else Entry(message)
    entry.level = level
    entry.delivery_count = delivery_count
    entry.redelivered = flags & REDELIVERED > 0
    entry.retained = flags & RETAINED > 0
    return entry


def ready_entry(
    message_id: int,
    level: int,
    size: int,
    address: int,
    delivery_count: int,
    flags: int,
    expires: int,
    due: int = 0,
    *,
    annotations: bytes = b"",
) -> Entry:
    """Make an entry without content from its values in the index; the size includes its
    annotations."""
    priority, kept = priority_of(level, flags), message_flags(level, flags)
    plain = size - len(annotations)
    message = message_without_content(message_id, address, priority, kept, expires, plain)
    return entry_of(annotated(message, annotations), level, delivery_count, flags, due)
