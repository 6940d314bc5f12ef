"""The one table of events: columns and kinds, with the details of each (`engine.facts.details`).

Codec, journal layout, inspector, SQL schema and the docs page are derived from this module and from
`engine.facts.reasons`; nothing else lists events, and `engine.facts.kinds` derives sets of kinds
from the rows of the table. Numbers of kinds and column offsets are permanent.

An event is a `Row` (twelve integers in column order) with three byte strings: `detail` (msgpack
of the kind's detail struct, empty when it has none), `headers` (in the format that the flags name,
see `engine.facts.formats`) and `body`.
Its LSN is its position in the journal and is not stored.
"""

from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from daybook.engine.facts import life
from daybook.engine.facts import reasons as why
from daybook.engine.facts.definitions import Detail
from daybook.engine.facts.details import (
    AddressDetail,
    AdministeredDetail,
    BrokerStartedDetail,
    BrokerStoppedDetail,
    BundleOpenedDetail,
    CarriedDetail,
    CheckpointDetail,
    ConnectionClosedDetail,
    ConnectionDetail,
    ConsumerAttachedDetail,
    DistributionsDetail,
    DivertDeletedDetail,
    DivertDetail,
    DivertedDetail,
    DroppedDetail,
    DueDetail,
    DuplicateIdDetail,
    ForkedDetail,
    ForwardedDetail,
    ForwardSettledDetail,
    GroupsResetDetail,
    HeldDetail,
    KeyChangeDetail,
    LinkAttachedDetail,
    LostDetail,
    PagingDetail,
    PermissionRefusedDetail,
    QueueDetail,
    RecalledDetail,
    RecallStartedDetail,
    ReturnedDetail,
    RoutedDetail,
    ScheduledDetail,
    SegmentsRemovedDetail,
    SettingsDetail,
    SignedDetail,
    TransactionDetail,
)
from daybook.engine.facts.life import BEGINS, CHANGES, ENDS, IN_FLIGHT, READY, Life
from daybook.engine.facts.reasons import REPLACED, RING_EVICTED

Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]
"""An event's integers, in the order of COLUMNS."""


class Column(msgspec.Struct, frozen=True):
    """A fixed-width column: its name, struct code, offset in the row, and what it holds."""

    name: str
    code: str
    offset: int
    doc: str


COLUMNS: Final[tuple[Column, ...]] = (
    Column("kind", "B", 0, "number of the kind of event"),
    Column("reason", "B", 1, "why the broker decided so, 0 when the kind says it all"),
    Column("delivery_count", "H", 2, "attempts to deliver the message, after this event"),
    Column("address", "I", 4, "id of the address, 0 for none"),
    Column("queue", "I", 8, "id of the queue, 0 for none or for several (see detail)"),
    Column("priority", "B", 12, "priority of the message, 0 to 9"),
    Column(
        "flags",
        "B",
        13,
        "bits: 1 persistent, 2 headers and body not journaled, 4 large: the body is in the chunks "
        "that the detail of Routed lists, 8 (of Returned) redelivered: the delivery that ended may "
        "have reached its consumer, even if the attempt does not count; 16, 32 and 64 are a number "
        "from 0 to 7: the format of the headers; 128: the headers name a group",
    ),
    Column("message", "Q", 16, "id of the message: the LSN of its Routed or Forwarded event"),
    Column("consumer", "Q", 24, "id of the consumer: the LSN of its ConsumerAttached event"),
    Column("connection", "Q", 32, "id of the connection: the LSN of its ConnectionOpened event"),
    Column("related", "Q", 40, "the other event that this one refers to"),
    Column("time", "q", 48, "when it was decided: microseconds since 1970-01-01 UTC"),
)
HEAPS: Final[tuple[str, ...]] = ("detail", "headers", "body")
"""Variable-length parts of an event; the row holds the length of each as a u32 from offset 56."""

ROW_BYTES: Final = 72
LENGTHS_OFFSET: Final = 56
PACK_FORMAT: Final = "<BBHIIBBxxQQQQqIII4x"
ROW_STRUCT: Final = Struct(PACK_FORMAT)
"""Packs columns and lengths; ids of addresses and queues above SHORT_ID_MAX are a struct.error."""
UPPER_BITS: Final[tuple[tuple[str, str, int], ...]] = (("queue", "H", 14), ("address", "H", 68))
"""The upper bits of these columns: struct code, and offset in the row (ADR 36)."""
SHORT_ID_MAX: Final = (1 << 32) - 1
ID_MAX: Final = (1 << 48) - 1
"""The largest id that an address or a queue can have: 8,900 years of 1,000 a second."""
assert ROW_STRUCT.size == ROW_BYTES

# Positions in a Row, for code that reads one column.
KIND: Final = 0
REASON: Final = 1
DELIVERY_COUNT: Final = 2
ADDRESS: Final = 3
QUEUE: Final = 4
PRIORITY: Final = 5
FLAGS: Final = 6
MESSAGE: Final = 7
CONSUMER: Final = 8
CONNECTION: Final = 9
RELATED: Final = 10
TIME: Final = 11

# Bits of the flags column.
PERSISTENT: Final = 1
BODY_OMITTED: Final = 2
LARGE: Final = 4
REDELIVERED: Final = 8
FORMAT: Final = 16 | 32 | 64
"""The format of the headers, as `engine.facts.formats` numbers them."""

GROUPED: Final = 128
"""The headers name a group that the message belongs to (`engine.queues.groups`)."""
OF_HEADERS: Final = FORMAT | GROUPED
"""The flags about the headers."""

MESSAGE_FLAGS: Final = PERSISTENT | BODY_OMITTED | LARGE | OF_HEADERS
"""The flags that messages have; the others belong to entries."""

# Numbers of the kinds. Gaps belong to kinds that the design names and that do not exist yet.
BROKER_STARTED: Final = 1
BROKER_STOPPED: Final = 2
CONNECTION_OPENED: Final = 3
CONNECTION_CLOSED: Final = 4
CONNECTION_REFUSED: Final = 5
CONSUMER_ATTACHED: Final = 6
CONSUMER_DETACHED: Final = 7
ADDRESS_CREATED: Final = 8
ADDRESS_UPDATED: Final = 9
ADDRESS_DELETED: Final = 10
QUEUE_CREATED: Final = 11
QUEUE_UPDATED: Final = 12
QUEUE_DELETED: Final = 13
QUEUE_PAUSED: Final = 14
QUEUE_RESUMED: Final = 15
SETTINGS_CHANGED: Final = 16
ROUTED: Final = 17
DROPPED: Final = 18
DELIVERED: Final = 20
ACKNOWLEDGED: Final = 21
RETURNED: Final = 22
DEAD_LETTERED: Final = 23
EXPIRED: Final = 24
REMOVED: Final = 25
TRANSACTION_COMMITTED: Final = 27
TRANSACTION_ROLLED_BACK: Final = 28
PAGING_STARTED: Final = 29
PAGING_STOPPED: Final = 30
CARRIED: Final = 32
CHECKPOINT: Final = 33
CHUNK_RECEIVED: Final = 34
SEGMENTS_REMOVED: Final = 35
DUPLICATE_ID_RECORDED: Final = 36
DUPLICATE_IDS_CLEARED: Final = 37
HELD: Final = 38
RELEASED: Final = 39
SKIPPED: Final = 40
SCHEDULED: Final = 41
DUE: Final = 42
SHOWN: Final = 50
SEEN: Final = 51
ADMINISTERED: Final = 60
MOVED: Final = 61
DIVERT_CREATED: Final = 70
DIVERT_DELETED: Final = 71
DIVERTED: Final = 72
RECALL_STARTED: Final = 80
RECALLED: Final = 81
RECALL_ENDED: Final = 82
TIME_MARKED: Final = 83
DISPATCH_STARTED: Final = 90
OWNER_ENDED: Final = 92

# Direct addresses (`engine.direct`).
LINK_ATTACHED: Final = 150
LINK_DETACHED: Final = 151
FORWARDED: Final = 152
FORWARD_SETTLED: Final = 153
DISTRIBUTIONS_CHANGED: Final = 154
GROUPS_RESET: Final = 95
PERMISSION_REFUSED: Final = 100
BUNDLE_OPENED: Final = 108
BUNDLE_CLOSED: Final = 109
SIGNED: Final = 110
SIGNING_KEY_CHANGED: Final = 111
FORKED: Final = 113
LOST: Final = 114


class EventType(msgspec.Struct, frozen=True):
    """A row of the table: number, name, the columns it fills, its detail, and its meaning.

    `life` is what it does to an entry, if it is about one, and `counter` the counter of the queue
    that it changes; `counters` are those that it changes for some reasons only. Otherwise `subject`
    is the thing that it is about, and `change` what happens to that thing. `related` describes the
    event in the column `related`, unless that is another message. `reasons` are all that it can
    have, if not any. `says` is what it says beside that, in the words of `engine.facts.life`.
    """

    number: int
    name: str
    columns: tuple[str, ...]
    detail: type[Detail] | None
    doc: str
    life: Life | None = None
    counter: str = ""
    counters: tuple[tuple[int, str], ...] = ()
    subject: str = ""
    change: str = ""
    related: str = ""
    reasons: tuple[int, ...] = ()
    says: tuple[str, ...] = ()


REMOVED_COUNTERS: Final = ((REPLACED, "replaced"), (RING_EVICTED, "evicted"))
"""By the reason of a Removed: the counter of the queue that it changes."""

NONE_BUT: Final = (why.NO_REASON,)
SENDING: Final = (
    why.SENT, why.DEAD_LETTER, why.EXPIRY, why.DIVERT, why.NO_ROUTE, why.HISTORY_ONLY,
    why.ADMINISTRATION,
)  # fmt: skip
DROPPING: Final = (
    why.NO_BINDING, why.NO_MATCHING_FILTER, why.DISABLED, why.NO_CONSUMERS,
    why.NO_LOCAL, why.DUPLICATE, why.UNROUTABLE, why.GONE, why.MAX_SIZE_BYTES,
    why.MAX_SIZE_MESSAGES, why.PAGE_LIMIT_BYTES, why.PAGE_LIMIT_MESSAGES, why.GLOBAL_MAX_SIZE,
    why.GLOBAL_MAX_MESSAGES, why.DISK_FULL,
)  # fmt: skip
ENDING: Final = (
    why.NACK, why.GIVEN_BACK, why.REFUSED, why.CLOSED, why.DISCONNECTED, why.TIMEOUT,
    why.PROTOCOL_ERROR, why.SHUTDOWN, why.ADMINISTRATION, why.LIMIT, why.UNREADABLE, why.LEFT_OUT,
    why.STOLEN, why.QUEUE_REMOVED, why.UNUSED, why.AUTHENTICATION, why.ROLLBACK, why.GONE,
)  # fmt: skip
LEAVING: Final = (
    why.CLOSED, why.DISCONNECTED, why.TIMEOUT, why.PROTOCOL_ERROR, why.SHUTDOWN,
    why.ADMINISTRATION, why.LIMIT, why.AUTHENTICATION, why.UNREADABLE,
)  # fmt: skip
SETTLING: Final = (
    why.NACK, why.GIVEN_BACK, why.REFUSED, why.NO_RECEIVERS, why.LIMIT, why.EXPIRY, why.CLOSED,
    why.DISCONNECTED, why.TIMEOUT, why.PROTOCOL_ERROR, why.SHUTDOWN, why.ADMINISTRATION,
    why.AUTHENTICATION, why.UNREADABLE,
)  # fmt: skip
REMOVING: Final = (
    why.ADMINISTRATION, why.QUEUE_REMOVED, REPLACED, RING_EVICTED, why.NO_CONSUMERS,
    why.RETROACTIVE_MAX_AGE, why.RETROACTIVE_BYTES, why.FORGOTTEN,
)  # fmt: skip
BY_REQUEST: Final = (why.ADMINISTRATION,)
ASKED: Final = (why.ADMINISTRATION, why.CONFIGURATION)
FULL: Final = (
    why.MAX_SIZE_BYTES, why.MAX_SIZE_MESSAGES, why.GLOBAL_MAX_SIZE, why.GLOBAL_MAX_MESSAGES,
)  # fmt: skip
_ENTRY = ("reason", "delivery_count", "address", "queue", "priority", "flags", "message")

EVENT_TYPES: Final = (
    EventType(BROKER_STARTED, "BrokerStarted", ("reason",), BrokerStartedDetail,
              "The broker starts to serve. All consumers and connections are gone, every "
              "delivery in flight is "
              "back in its queue with its count, non-persistent messages and non-durable queues "
              "are dropped.",
              subject=life.BROKER, change=BEGINS,
              reasons=NONE_BUT,
              says=(life.MARK,)),
    EventType(BROKER_STOPPED, "BrokerStopped", ("reason",), BrokerStoppedDetail,
              "The broker stopped cleanly.",
              subject=life.BROKER,
              reasons=(why.SHUTDOWN,),
              says=(life.DIGEST, life.MARK)),
    EventType(CONNECTION_OPENED, "ConnectionOpened", ("connection",), ConnectionDetail,
              "A peer connected and logged in.",
              subject=life.CONNECTION, change=BEGINS),
    EventType(CONNECTION_CLOSED, "ConnectionClosed", ("reason", "connection"),
              ConnectionClosedDetail,
              "A connection ended.",
              subject=life.CONNECTION, change=ENDS),
    EventType(CONNECTION_REFUSED, "ConnectionRefused", ("reason",), ConnectionDetail,
              "A peer was not let in.",
              says=(life.REFUSAL,)),
    EventType(CONSUMER_ATTACHED, "ConsumerAttached",
              ("address", "queue", "consumer", "connection", "related"),
              ConsumerAttachedDetail,
              "A consumer takes from the queue from here on. `related` is the BundleOpened of its"
              " subscription, if that has several queues.",
              subject=life.CONSUMER, change=BEGINS, related="of the bundle opened by event"),
    EventType(CONSUMER_DETACHED, "ConsumerDetached", ("reason", "address", "queue", "consumer",
    "connection"),
              None, "A consumer left; its deliveries in flight were returned before this event.",
              subject=life.CONSUMER, change=ENDS),
    EventType(ADDRESS_CREATED, "AddressCreated", ("reason", "address", "connection"), AddressDetail,
              "The address exists from here on.",
              subject=life.ADDRESS, change=BEGINS,
              says=(life.CHANGE,)),
    EventType(ADDRESS_UPDATED, "AddressUpdated", ("reason", "address", "connection"), AddressDetail,
              "Attributes of the address changed: routing types, whether it is paused, how long it"
              " stays.",
              subject=life.ADDRESS, change=CHANGES,
              says=(life.CHANGE,)),
    EventType(ADDRESS_DELETED, "AddressDeleted", ("reason", "address", "connection"), None,
              "The address and the name are gone; its queues were deleted before.",
              subject=life.ADDRESS, change=ENDS,
              says=(life.CHANGE,)),
    EventType(QUEUE_CREATED, "QueueCreated", ("reason", "address", "queue", "connection"),
              QueueDetail,
              "The queue exists and is bound to its address from here on.",
              subject=life.QUEUE, change=BEGINS,
              says=(life.CHANGE,)),
    EventType(QUEUE_UPDATED, "QueueUpdated", ("reason", "address", "queue", "connection"),
              QueueDetail,
              "The queue is bound to this address from here on, with the attributes in the detail; "
              "its messages stay. Or, if it is being deleted: its name and its binding are gone, "
              "its messages are removed by events to come, and the queue by the one behind them.",
              subject=life.QUEUE, change=CHANGES,
              says=(life.CHANGE,)),
    EventType(QUEUE_DELETED, "QueueDeleted", ("reason", "address", "queue", "connection"), None,
              "The queue is gone; its messages were removed before this event.",
              subject=life.QUEUE, change=ENDS,
              says=(life.CHANGE,)),
    EventType(QUEUE_PAUSED, "QueuePaused", ("reason", "address", "queue"), None,
              "Nothing is delivered from the queue until it is resumed.",
              subject=life.QUEUE,
              reasons=BY_REQUEST,
              says=(life.CHANGE,)),
    EventType(QUEUE_RESUMED, "QueueResumed", ("reason", "address", "queue"), None,
              "The queue delivers again.",
              subject=life.QUEUE,
              reasons=BY_REQUEST,
              says=(life.CHANGE,)),
    EventType(SETTINGS_CHANGED, "SettingsChanged", ("reason",), SettingsDetail,
              "Address settings in force from here on.",
              reasons=ASKED,
              says=(life.MARK, life.CHANGE)),
    EventType(ROUTED, "Routed", (*_ENTRY, "connection", "related"), RoutedDetail,
              "A message was taken and put into these queues, where it is set aside until `due` if "
              "its sender schedules it. `related` is the message that it was made from (dead "
              "letter, expiry, divert).",
              life=life.ENTERS, counter="added",
              reasons=SENDING,
              says=(life.CONTENT, life.TRANSACTION, life.UNROUTED)),
    EventType(DROPPED, "Dropped", ("reason", "address", "priority", "flags", "connection",
    "related"),
              DroppedDetail, "A message was taken and no queue wanted it, there was no room, or it "
              "had come before. What filters refused has its headers.",
              reasons=DROPPING,
              says=(life.TRANSACTION,)),
    EventType(DELIVERED, "Delivered", (*_ENTRY, "consumer", "connection"), None,
              "The message is handed to the consumer, for the delivery_count-th time. A delivery"
              " that is resumed is not sent, and follows no order.",
              life=life.IS_TAKEN,
              reasons=(*NONE_BUT, why.RESUMED),
              says=(life.HANDING,)),
    EventType(ACKNOWLEDGED, "Acknowledged", (*_ENTRY, "consumer", "connection"), None,
              "The consumer took responsibility; the message left the queue.",
              life=life.leaves(IN_FLIGHT), counter="acknowledged",
              reasons=(why.BY_CONSUMER, why.AUTOMATIC)),
    EventType(RETURNED, "Returned", (*_ENTRY, "consumer", "connection"), ReturnedDetail,
              "A delivery failed or was given back; the message is in its place in the queue "
              "again.",
              life=life.RETURNS,
              reasons=ENDING),
    EventType(DEAD_LETTERED, "DeadLettered", (*_ENTRY, "related"), None,
              "The last allowed delivery failed; the message left the queue. `related` is the "
              "new message at the "
              "dead letter address, 0 if it was dropped.",
              life=life.leaves(IN_FLIGHT, life.ON_HOLD), counter="dead_lettered",
              reasons=(*NONE_BUT, why.UNROUTABLE, why.NO_DEAD_LETTER_ADDRESS, why.REFUSED)),
    EventType(EXPIRED, "Expired", (*_ENTRY, "related"), None,
              "The message's time had passed; it left the queue. `related` is the new message at"
              " the expiry address, "
              "0 if it was dropped.",
              life=life.leaves(READY, life.ON_HOLD, life.ON_SCHEDULE), counter="expired",
              reasons=(*NONE_BUT, why.UNROUTABLE, why.NO_EXPIRY_ADDRESS, why.HISTORY)),
    EventType(REMOVED, "Removed", (*_ENTRY, "connection", "related"), None,
              "The message was taken out of the queue by something other than a consumer. `related`"
              " is the event of the message that replaced it, if one did.",
              life=life.leaves(READY, IN_FLIGHT, life.ON_HOLD, life.ON_SCHEDULE),
              counters=REMOVED_COUNTERS, related="replaced by event",
              reasons=REMOVING),
    EventType(TRANSACTION_COMMITTED, "TransactionCommitted", ("reason", "connection"),
              TransactionDetail,
              "The events from `first` on, up to this one, happened together.",
              reasons=NONE_BUT),
    EventType(TRANSACTION_ROLLED_BACK, "TransactionRolledBack", ("reason", "connection"),
              TransactionDetail,
              "The transaction left nothing behind."),
    EventType(PAGING_STARTED, "PagingStarted", ("reason", "address"), PagingDetail,
              "The address is full, or the broker is: its messages may leave memory from here on.",
              reasons=FULL),
    EventType(PAGING_STOPPED, "PagingStopped", ("reason", "address"), PagingDetail,
              "The address is small again: its messages stay in memory.",
              reasons=NONE_BUT),
    EventType(CARRIED, "Carried", ("address", "priority", "flags", "message", "related"),
              CarriedDetail,
              "Headers and body of a queued message, written again so that the segment that they "
              "were in (event `related`) can leave. The message and its id stay what they are.",
              related="written again from event",
              says=(life.CONTENT,)),
    EventType(SEGMENTS_REMOVED, "SegmentsRemoved", ("reason", "related"), SegmentsRemovedDetail,
              "Retention took history up to the event in `related` out of the live set.",
              related="history up to event",
              reasons=(why.CONFIGURATION,)),
    EventType(CHECKPOINT, "Checkpoint", ("related",), CheckpointDetail,
              "The index is the state at the event in `related`, which has this digest.",
              related="of the state at event",
              says=(life.DIGEST,)),
    EventType(CHUNK_RECEIVED, "ChunkReceived", ("connection", "related"), None,
              "A piece of the body of a large message came, and is the body of this event. "
              "`related` is the chunk before it, 0 for the first. A message it becomes by the "
              "Routed that lists it; without one its sender went away half-way.",
              related="after chunk"),
    EventType(DUPLICATE_ID_RECORDED, "DuplicateIdRecorded", ("address", "related"),
              DuplicateIdDetail,
              "The address remembers the id of the message that was routed by the event in "
              "`related` (in a transaction also: dropped), and has forgotten the oldest ids above "
              "its id-cache-size.",
              related="of the message routed by event"),
    EventType(DUPLICATE_IDS_CLEARED, "DuplicateIdsCleared", ("reason", "address"), None,
              "The address has forgotten all ids that it remembered.",
              reasons=BY_REQUEST),
    EventType(HELD, "Held", _ENTRY, HeldDetail,
              "The message should have gone to the dead letter address or the expiry"
              " address (see the reason), where nothing takes it. It is set aside in its queue, and"
              " is not delivered until it is released.",
              life=life.IS_HELD,
              reasons=(why.DEAD_LETTER, why.EXPIRY)),
    EventType(RELEASED, "Released", _ENTRY, None,
              "The message was held, and is ready again, in its place in the queue.",
              life=life.IS_RELEASED,
              reasons=(why.CONFIGURATION, why.ADMINISTRATION)),
    EventType(SKIPPED, "Skipped", (), None,
              "Nothing happened. The broker before may have given this LSN to a message, connection"
              " or consumer, and ended before that was durable; so nothing else ever gets it."),
    EventType(SCHEDULED, "Scheduled", _ENTRY, ScheduledDetail,
              "The message was ready, and is not delivered before the time in the detail. It is set"
              " aside in its queue until then.",
              life=life.IS_SCHEDULED,
              reasons=(why.DELIVERY_TIME, why.REDELIVERY_DELAY)),
    EventType(DUE, "Due", _ENTRY, DueDetail,
              "The message was scheduled, and its time has come: it is ready again, in its place in"
              " the queue.",
              life=life.IS_DUE,
              reasons=(*NONE_BUT, why.ADMINISTRATION)),
    EventType(SHOWN, "Shown", ("address", "queue", "priority", "flags", "message", "consumer",
              "connection"), None,
              "The message of a non-destructive queue is handed to the consumer, and stays ready in"
              " the queue, for the other consumers as well.",
              says=(life.HANDING,)),
    EventType(SEEN, "Seen", ("reason", "address", "queue", "priority", "flags", "message",
              "consumer", "connection"), None,
              "The consumer settled a message that it was shown; nothing happens to the message."),
    EventType(ADMINISTERED, "Administered", ("related",), AdministeredDetail,
              "An administrator asked for the events from the one in `related` up to this one. A"
              " request that takes long has several such parts.",
              related="from event",
              says=(life.MARK, life.CHANGE)),
    EventType(MOVED, "Moved", (*_ENTRY, "related"), None,
              "An administrator moved the message, or gave it another priority; it left the queue."
              " `related` is the new message in its place.",
              life=life.leaves(READY, life.ON_HOLD, life.ON_SCHEDULE),
              reasons=(why.ADMINISTRATION,)),
    EventType(DIVERT_CREATED, "DivertCreated", ("reason",), DivertDetail,
              "From now on the divert takes messages of its address; it replaces an earlier one"
              " of the same name.",
              reasons=ASKED,
              says=(life.CHANGE,)),
    EventType(DIVERT_DELETED, "DivertDeleted", ("reason",), DivertDeletedDetail,
              "The divert is gone.",
              reasons=ASKED,
              says=(life.CHANGE,)),
    EventType(DIVERTED, "Diverted",
              ("reason", "address", "priority", "flags", "message", "connection", "related"),
              DivertedDetail,
              "A message was accepted for diverts only: no queue of its address took it. Its copies"
              " are the messages whose Routed has it in `related`; here `related` is the message"
              " that it was made from (dead letter, expiry, an earlier divert).",
              says=(life.TRANSACTION, life.UNROUTED)),
    EventType(RECALL_STARTED, "RecallStarted", ("reason", "address", "queue"), RecallStartedDetail,
              "The queue is new, and gets messages that were sent to its address before, by events"
              " to come. Until then it delivers nothing.",
              subject=life.QUEUE,
              reasons=(why.HISTORY,)),
    EventType(RECALLED, "Recalled", _ENTRY, RecalledDetail,
              "A message that was sent before the queue existed enters it, from the history that"
              " its address keeps; there it stays.",
              life=life.ENTERS, counter="added",
              reasons=(why.HISTORY,)),
    EventType(RECALL_ENDED, "RecallEnded", ("reason", "address", "queue"), None,
              "The recall from the history of the address is complete; the queue delivers from "
              "here on.",
              subject=life.QUEUE,
              reasons=(why.HISTORY,)),
    EventType(TIME_MARKED, "TimeMarked", (), None,
              "The broker remembers the time of this event, so that it knows about when messages"
              " were sent."),
    EventType(DISPATCH_STARTED, "DispatchStarted", ("reason", "address", "queue"), None,
              "The queue, whose consumers waited for others, delivers from here on, until the last"
              " consumer left.",
              subject=life.QUEUE,
              reasons=(why.CONSUMERS_CAME, why.DELAY_OVER)),
    EventType(OWNER_ENDED, "OwnerEnded", ("address", "queue", "connection"), None,
              "The session or the connection that had the queue since its last consumer left has"
              " ended. The queue expires after its delay, unless a consumer attaches before.",
              subject=life.QUEUE,
              reasons=NONE_BUT),
    EventType(GROUPS_RESET, "GroupsReset", ("reason", "address", "queue"), GroupsResetDetail,
              "The consumers of the queue gave up the message group in the detail, or all groups:"
              " the next message of each goes to the consumer whose turn it is.",
              subject=life.QUEUE,
              reasons=BY_REQUEST),
    EventType(PERMISSION_REFUSED, "PermissionRefused", ("connection",),
              PermissionRefusedDetail,
              "A user asked for something that its permissions do not allow, and was refused.",
              says=(life.REFUSAL,)),
    EventType(BUNDLE_OPENED, "BundleOpened", ("connection",), BundleOpenedDetail,
              "One subscription to several queues begins. Its consumers attach by events to come,"
              " those that its patterns find perhaps much later."),
    EventType(BUNDLE_CLOSED, "BundleClosed", ("connection", "related"), None,
              "A subscription to several queues ended, after its consumers. One whose connection"
              " ends is over without this event.",
              related="of the bundle opened by event"),
    EventType(LINK_ATTACHED, "LinkAttached", ("consumer", "connection"), LinkAttachedDetail,
              "A link to a direct address begins, by which a peer sends or receives. `consumer` is"
              " the number of this event.",
              says=(life.LINK,)),
    EventType(LINK_DETACHED, "LinkDetached", ("reason", "consumer", "connection"), None,
              "A link to a direct address ended, after all deliveries to it.",
              reasons=LEAVING,
              says=(life.LINK,)),
    EventType(FORWARDED, "Forwarded",
              ("reason", "priority", "flags", "message", "consumer", "connection", "related"),
              ForwardedDetail,
              "A message to a direct address was given to this receiver, or to those in the detail;"
              " or to nobody, if the reason is `no-receivers`. It is stored nowhere. `related` is"
              " the link that it came by; or, if a queue had it, the message there.",
              related="by the link of event",
              reasons=(why.NO_REASON, why.NO_RECEIVERS),
              says=(life.CONTENT, life.LINK)),
    EventType(FORWARD_SETTLED, "ForwardSettled",
              ("reason", "message", "consumer", "connection"), ForwardSettledDetail,
              "A receiver of a direct address ended a delivery, or it ended with its receiver; the"
              " sender hears the same, or with several receivers the strongest of their outcomes.",
              reasons=(why.BY_CONSUMER, why.AUTOMATIC, *SETTLING),
              says=(life.LINK,)),
    EventType(DISTRIBUTIONS_CHANGED, "DistributionsChanged", ("reason",), DistributionsDetail,
              "Which names are direct addresses from here on, and how they distribute messages.",
              reasons=(why.CONFIGURATION,)),
    EventType(SIGNED, "Signed", ("related",), SignedDetail,
              "The broker's key signed a statement about history up to the event in `related`.",
              related="history up to event",
              says=(life.SIGNATURE,)),
    EventType(SIGNING_KEY_CHANGED, "SigningKeyChanged", (), KeyChangeDetail,
              "Another key signs from here on; both keys signed the change.",
              says=(life.SIGNATURE,)),
    EventType(FORKED, "Forked", ("related",), ForkedDetail,
              "This data directory was made as a copy of another one, as that was after the event"
              " in `related`. All events before this one happened there, with the same LSNs.",
              subject=life.BROKER, related="after event",
              says=(life.SOURCE,)),
    EventType(LOST, "Lost",
              ("reason", "delivery_count", "address", "queue", "priority", "flags", "message",
               "consumer", "connection", "related"),
              LostDetail,
              "The event of this number was lost by damage. Or it was not, and does not fit what is"
              " left of the history before it: then its columns and strings are here, and its kind"
              " is in the detail. It has no effect.",
              reasons=(why.SALVAGED,),
              says=(life.SOURCE,)),
)  # fmt: skip

BY_NUMBER: Final[dict[int, EventType]] = {entry.number: entry for entry in EVENT_TYPES}
BY_NAME: Final[dict[str, EventType]] = {entry.name: entry for entry in EVENT_TYPES}
assert len(BY_NUMBER) == len(BY_NAME) == len(EVENT_TYPES)


def row(
    kind: int,
    *,
    reason: int = 0,
    delivery_count: int = 0,
    address: int = 0,
    queue: int = 0,
    priority: int = 0,
    flags: int = 0,
    message: int = 0,
    consumer: int = 0,
    connection: int = 0,
    related: int = 0,
    time: int = 0,
) -> Row:
    """Build a row by column names. Hot paths write the tuple out instead."""
    return (
        kind, reason, delivery_count, address, queue, priority, flags,
        message, consumer, connection, related, time,
    )  # fmt: skip


_encoder = msgspec.msgpack.Encoder()
_EMPTY_MAPS: Final = (b"\x80", b"\xde\x00\x00")
"""Without fields; a struct that has more than 15 of them is encoded in the longer form."""
_decoders = {
    entry.number: msgspec.msgpack.Decoder(entry.detail) for entry in EVENT_TYPES if entry.detail
}
_routed_decoder = msgspec.msgpack.Decoder(RoutedDetail)
_PLAIN_ROUTED: Final = RoutedDetail()


def encode_detail(detail: Detail) -> bytes:
    """Encode a detail; one with nothing but defaults becomes the empty string."""
    encoded = _encoder.encode(detail)
    return b"" if encoded in _EMPTY_MAPS else encoded


def chunk_lsns(detail: RoutedDetail | CarriedDetail | ForwardedDetail) -> tuple[int, ...]:
    """Return the LSNs of the chunks of a large message, none if it is not large."""
    return tuple(accumulate(detail.chunks))


def chunk_steps(lsns: tuple[int, ...]) -> tuple[int, ...]:
    """Return LSNs of chunks in the form of a detail: the first, then differences."""
    return lsns[:1] + tuple(after - before for before, after in pairwise(lsns))


def decode_detail(kind: int, encoded: bytes) -> Detail | None:
    """Decode the detail of an event of this kind; None if the kind has none."""
    decoder = _decoders.get(kind)
    if decoder is None:
        return None
    detail: Detail = decoder.decode(encoded or b"\x80")
    return detail


def routed_detail(detail: bytes) -> RoutedDetail:
    """Decode the detail of a Routed event."""
    return _routed_decoder.decode(detail) if detail else _PLAIN_ROUTED
