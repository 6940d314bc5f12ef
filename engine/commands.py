"""Commands: what sessions, timers and administrators ask of the broker.

A command may be refused and is not journaled; the events that it leads to are. All ids are the
integers that the broker assigned (see ADR 2). The virtual host is always `default` for now.
"""

from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.definitions import (
    ANYCAST,
    AutoLink,
    DistributionEntry,
    DivertDefinition,
    LinkRoute,
    QueueDefinition,
    Waypoint,
)
from daybook.engine.facts.details import Origin
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.reasons import CLOSED
from daybook.engine.facts.settlements import ACCEPTED, BY_SETTLEMENT
from daybook.engine.facts.values import Symbol, Value
from daybook.engine.settings.permissions import Actor
from daybook.levels import LEVEL_MIN

NO_HISTORY: Final = (1 << 63) - 1
"""An LSN after which no message ever came."""


RETAIN_SET: Final = 1
"""The address of a message remembers it for queues to come, instead of the one before."""
RETAIN_REMOVE: Final = 2
"""The address forgets the message that it remembers."""


FORWARDED: Final = -1
"""The answer to a message for a direct address, whose outcome its sender hears later."""


class Command(msgspec.Struct, gc=False):
    """Base of all commands."""


class OpenConnection(Command):
    """A peer logged in. Answered with the connection's id.

    `room` is how many bytes of deliveries may be on their way between engine and socket. `host` is
    the virtual host; names in commands of the connection are full names on it (ADR 58). One that is
    to be the `only` one is refused while its user has another with its client id on the host.
    `connector` is the one of the configuration that opened it, "" for a peer that connected: with
    no `user`, what is done on it is done by the right of the configuration.
    """

    protocol: str
    peer: str
    user: str
    client_id: str = ""
    room: int = 1 << 20
    host: str = "default"
    only: bool = False
    connector: str = ""


class RefuseConnection(Command):
    """A peer was refused; journaled, so that attempts can be counted later.

    `count` is how many such refusals there were, for one peer or several.
    """

    reason: int
    protocol: str
    peer: str
    user: str
    text: str
    count: int = 1


class RecordDenial(Command):
    """Commands of a user were refused for want of a permission; journaled, so that attempts are
    known later.

    `count` is how many such refusals there were; the other fields are those of the first, empty if
    the event stands for several users or places.
    """

    connection: int = 0
    user: str = ""
    permission: str = ""
    address: str = ""
    queue: str = ""
    peer: str = ""
    count: int = 1


class CloseConnection(Command):
    """A connection ended: `reason` is CLOSED (clean) or one of the reasons that count as a failed
    attempt.

    Open transactions are rolled back, consumers detached, deliveries returned, temporary queues
    deleted. The rest of an answer UNFINISHED is done without another command, unless the sender
    `asks_again`, because it waits for the end.
    """

    connection: int
    reason: int
    text: str = ""
    asks_again: bool = False


class Attach(Command, gc=True):
    """Start consuming. Answered with the consumer's id.

    Which queue: `queue` if given (fully qualified name, on `address`); the durable subscription
    named `durable_name` if given (created, or rebound to `address` and `filter`); else an anycast
    queue named as the address (`routing_type` ANYCAST) or a temporary queue on the address
    (MULTICAST). `acknowledges` false means that a delivery counts as acknowledged when it is sent;
    `cumulative` says that its client settles all deliveries up to one. A client that settles by the
    id of a message alone (`settles_by_message`) has `Broker.holders` find its consumer. Messages
    are delivered while one of the two credits, of messages and of bytes of bodies, is positive;
    `credit_policy` says how it returns (`engine.facts.settlements`); `Credit` always gives more.
    With `credits_early` it returns as soon as a delivery is accepted in a transaction, before the
    commit. `tells_retained` marks what the address remembered for it. Consumers with a lower
    `priority` get what those with a higher one cannot take. A subscription with `no_local` gets no
    messages of its own connection (`engine.state.no_local`). The first consumer of a queue that is
    `exclusive` gets everything from it. With `from_sequence` it gets only messages with this id or
    a higher one; -1: only new ones. One that `browses` takes none (`engine.dispatch.browsers`), and
    ends when it has read all, unless it `listens` for more. `receiver` is handed back in effects
    and means nothing to the engine. A queue that this creates gets, from the history of the
    address, only what came after the event `after` and since the time `since`, in milliseconds
    since 1970; `NO_HISTORY` as `after` is for none. `needs_queue` is what the client asks for, in
    its words, that there is no queue for at a direct address, "" for nothing.

    `session` is the one of the connection that the consumer is on, in the protocol's own numbers,
    0 for none. One that `steals` takes over the subscription of its name from the consumers that it
    has, which are detached; they must be of the same user. `expiry_policy` says when the time of
    the subscription's queue begins (`definitions.EXPIRY_POLICIES`), of `expiry_ms` milliseconds;
    with "" that of a durable name stays, and that of a topic ends with its consumer. Only a named
    one has a time, or is `durable`: one that is not does not outlive a restart. Without a name, a
    policy that outlives the consumer keeps the queue for the next one of the connection with the
    same `subscription`, address and filter.

    `auto_link` is the one of the configuration that this is, None for what a peer attaches. On one
    that is `traced` messages leave for another broker, which learns where they came from.
    """

    connection: int
    address: str
    subscription: str = ""
    routing_type: str | None = None
    queue: str | None = None
    durable_name: str | None = None
    filter: str = ""
    acknowledges: bool = True
    cumulative: bool = False
    settles_by_message: bool = False
    credits_early: bool = False
    tells_retained: bool = False
    credit_policy: int = BY_SETTLEMENT
    credit_messages: int = 655_360
    credit_bytes: int = 655_360
    priority: int = 0
    no_local: bool = False
    exclusive: bool = False
    from_sequence: int | None = None
    browses: bool = False
    listens: bool = False
    receiver: Any = None
    after: int = 0
    since: int = 0
    session: int = 0
    expiry_policy: str = ""
    expiry_ms: int = 0
    durable: bool = True
    steals: bool = False
    needs_queue: str = ""
    auto_link: AutoLink | None = None
    traced: bool = False


class AttachSender(Command, gc=True):
    """Start sending to a place, named as in `Send`, or with no address to those that messages name.
    Answered with the id of the link if it may lead to a direct address, else with 0.

    Refused if the user has not the permission for what every message needs, whatever is in it; a
    place without room is none. Nothing is created, and each message is checked again. `link` is its
    number among the links of its connection. `receiver` hears of the ends of its messages to direct
    addresses, and whether somebody receives there (`effects.SenderEnds`). `auto_link` is the one of
    the configuration that this is, None for what a peer attaches.
    """

    connection: int
    address: str = ""
    queue: str | None = None
    routing_type: str | None = None
    link: int = 0
    name: str = ""
    receiver: Any = None
    auto_link: AutoLink | None = None


class SettleSent(Command):
    """Settle a message that a sender to a direct address sent by `AttachSender`, after its end was
    heard: receivers that await that hear it (`Settle.awaits`). `token` is as in Send."""

    sender: int
    token: Any


class DetachSender(Command):
    """Stop sending by a link that `AttachSender` began; nobody hears of its messages any more."""

    sender: int


class ChangeDistributions(Command):
    """Put another table of direct addresses in force (`engine.settings.distributions`). Addresses
    that are in use stay as they are. `waypoints` are those with auto-links; each has an entry.
    `link_routes` are for links that are attached from now on."""

    entries: tuple[DistributionEntry, ...]
    default: str = "stored"
    waypoints: tuple[Waypoint, ...] = ()
    link_routes: tuple[LinkRoute, ...] = ()


class HostLinks(Command, gc=True):
    """Take links that are passed on (`engine.link_routes`): the peer of a connection is a container
    for them. `connector` is that which opened the connection, `receiver` a `effects.RouteHost`."""

    connection: int
    receiver: Any
    connector: str = ""


class RouteLink(Command, gc=True):
    """Pass a link on to a container, if a route matches its address; its peer sends if it `is_in`.
    Answered with its id, or 0 if it is one of this broker.

    `asked` is what the protocol of the container needs to attach it, and `receiver` a
    `effects.RoutedEnds`.
    """

    connection: int
    address: str
    is_in: bool
    name: str
    asked: Any
    receiver: Any


class Pass(Command, gc=True):
    """Pass on what one end of such a link says: `bytes` of messages, 0 for anything else. Refused
    (BLOCKED) while the other end has no room; `effects.Opened` follows."""

    link: int
    connection: int
    what: Any
    bytes: int = 0


class EndRoutedLink(Command, gc=True):
    """End such a link on behalf of one end; `what` is its last word."""

    link: int
    connection: int
    what: Any = None


class AttachAll(Command, gc=True):
    """Start one subscription to several queues: all parts attach, or none. Answered with its id,
    which `Settle`, `Credit` and `Detach` take for that of a consumer.

    Parts differ by what they consume from; the credit of the first is that of all together, and it
    has the receiver. An anycast part whose address is a pattern means the anycast queues of all
    addresses that match, up to `queues_max` of them at a time.
    """

    connection: int
    parts: list[Attach]
    queues_max: int = 1000


class Detach(Command):
    """Stop consuming, cleanly: deliveries in flight return, and their attempts do not count.

    `delete_durable` also deletes the durable subscription's queue, and `closes` that of another
    subscription to a topic, if this is its last consumer, whatever its policy. `reason` is
    UNREADABLE if the broker detaches it, because it cannot read what it is to deliver.
    """

    consumer: int
    delete_durable: bool = False
    reason: int = CLOSED
    closes: bool = False


class StaysWith(NamedTuple):
    """What keeps a temporary destination whose owner has ended: links, messages, or either."""

    links: bool = False
    messages: bool = False


NOTHING: Final = StaysWith()


class CreateTemporary(Command):
    """Create a temporary destination of a connection, with its queue if it is anycast.

    It ends with the `link`, or else with the `session` of the connection (in the protocol's own
    numbers) when that has ended (`EndOwner`); with neither, as always, with the connection. If
    `stays_with` says so, it stays then as long as it has links or messages, but no longer than the
    connection.
    """

    connection: int
    address: str
    routing_type: str = ANYCAST
    session: int = 0
    link: int = 0
    stays_with: StaysWith = NOTHING


class EndOwner(Command):
    """A link, or with `link` 0 a session of a connection, has ended, and has no consumers any more:
    so do the temporary destinations that it owns, and it gives up the queues of subscriptions,
    which expire after their time.

    An answer UNFINISHED asks for the same command again.
    """

    connection: int
    session: int = 0
    link: int = 0


class DeleteSubscription(Command):
    """Delete the durable subscription of this name, which must have no consumers, for a
    connection."""

    name: str
    connection: int = 0


class Send(Command):
    """Send a message to an address, or directly to a queue (`queue`, fully qualified name).

    `routing_type` None means any. `expires` is milliseconds since 1970, 0 for never. `transaction`
    is the name of one that is open on the connection, or None. `headers` are in the format that
    `format` names, as flags do (`engine.facts.formats`, with `events.GROUPED` if they name a
    group). The body of a large message came by `Chunk` before: `chunks` are the answers to those,
    in order, `body_bytes` its whole length, and `body` is empty. `duplicate_id` is the id by which
    its sender wants duplicates detected, or empty; chunks whose answer was 0 were not stored,
    because the address had the message before. `due` is the time before which the message is not
    delivered, in milliseconds since 1970, 0 for none. `retain` is RETAIN_SET or RETAIN_REMOVE, for
    a message with the routing type MULTICAST, or 0 (`engine.entries.retained_messages`). A copy
    that diverts made has `copied_from`, the id of the message; `diverts` are names of those that
    take this one, `origin` is where a copy was before, and `annotations` are those of the original,
    packed. Clients set none of these. `came_from` is as in `details.RoutedDetail`. `link` is the
    sender, among those of the connection, that waits if there is no room; 0 is the only one of a
    protocol without links. To a direct address it is `sender`, as `AttachSender` was answered, and
    0 for one that hears of no outcomes; `token` is its name for the message, None if it is
    settled already; one that `confirms` gives `SettleSent` when it has heard of the end; `attempt`
    and `marks` are those of a message that another broker delivered before (`effects.Delivered`). A
    command that is answered UNFINISHED keeps what was done of it in `judged`
    (`engine.routing.filter_questions`): the same one must be given again.
    """

    connection: int
    address: str
    headers: bytes
    body: bytes
    routing_type: str | None = None
    queue: str | None = None
    priority: int = 4
    persistent: bool = True
    expires: int = 0
    transaction: str | None = None
    chunks: tuple[int, ...] = ()
    body_bytes: int = 0
    duplicate_id: str = ""
    format: int = LINES
    due: int = 0
    copied_from: int = 0
    diverts: tuple[str, ...] = ()
    retain: int = 0
    origin: Origin | None = None
    annotations: bytes = b""
    judged: Any = None
    link: int = 0
    sender: int = 0
    token: Any = None
    came_from: str = ""
    attempt: int = 1
    marks: int = 0
    confirms: bool = False


class SendToAll(Command, gc=True):
    """Send a message to several destinations: to all of them, or if one refuses it, to none.

    `sends` have no transaction. They are at least two, and differ in where they go.
    """

    connection: int
    sends: list[Send]


class Chunk(Command):
    """Accept a piece of the body of a large message; answered with the LSN of its event, or with 0
    for a message that the address had before.

    `send` is the command that follows when the body is complete: the first piece (`previous` 0) is
    refused if that send would be. `previous` is the answer to the piece before.
    """

    send: Send
    body: bytes
    previous: int = 0


class Settle(Command):
    """End a delivery with an outcome (`engine.facts.settlements`); `cumulative` also all deliveries
    of the consumer before it. In a transaction the outcome waits for the commit. `error` is what
    the consumer says of its failure, to people, and `condition` the same in a word for programs.
    With `not_here` the message, if it returns, is for other consumers: for this one not any more.
    `annotations` are noted on the message, if it returns, by key (`engine.messages.annotations`):
    its next deliveries show them. Those that a message cannot keep are refused, and so are any in a
    settlement that is `cumulative`. `modified` tells the sender to a direct address that the
    outcome was that one, even if nothing else says what was modified, and `info` is what else it
    hears of the error: that is for protocols, and nobody keeps it. A receiver of a direct address
    that `awaits` the settlement of the sender hears of it by `Receiver.settled`."""

    consumer: int
    message: int
    cumulative: bool = False
    transaction: str | None = None
    outcome: int = ACCEPTED
    error: str = ""
    condition: str = ""
    not_here: bool = False
    annotations: dict[Symbol | int, Value] | None = None
    modified: bool = False
    info: dict[Any, Any] | None = None
    awaits: bool = False


class AcceptAll(Command):
    """Accept deliveries to a consumer, or to a receiver of a direct address, the first one first.
    Those that it does not have in flight are passed over."""

    consumer: int
    messages: list[int]


class Resume(Command):
    """Put a message in flight to a consumer again without sending it: the client had it from the
    link that this consumer continues, and is about to settle it.

    The protocol makes sure of that. Refused unless the message is ready, was delivered before, and
    could be delivered to the consumer; it is then delivered as any other.
    """

    consumer: int
    message: int


class Begin(Command):
    """Open a transaction on a connection."""

    connection: int
    transaction: str


class Commit(Command):
    """Carry out a transaction, completely or not at all; `link` is as in Send."""

    connection: int
    transaction: str
    link: int = 0


class GiveUpSend(Command):
    """A sender gives up the command that waits for room, as when its link ends."""

    connection: int
    link: int


class Rollback(Command):
    """Discard a transaction; the deliveries that it settled stay with their consumers."""

    connection: int
    transaction: str


class ExpireTransactions(Command):
    """Roll back the transactions that have been open for longer than `timeout_us` microseconds."""

    timeout_us: int


class Credit(Command):
    """Give a consumer more credit.

    For one whose credit returns by grant alone, `in_all` says instead how many messages it may get
    in all since it attached, of which those that it got and the credit that drains took back are
    used up; -1 leaves that as it is. If it `drains`, it gets what there is, and the rest of its
    credit is taken back, which the effect `Drained` tells; a command that does not say so calls
    that off.
    """

    consumer: int
    messages: int = 0
    bytes: int = 0
    in_all: int = -1
    drains: bool = False


class Room(Command):
    """A connection has room for `bytes` more of deliveries between engine and socket."""

    connection: int
    bytes: int


class DeliverDue(Command):
    """Make scheduled entries that are due ready, at most `limit`.

    `Broker.more_scheduled` says if some are left.
    """

    limit: int = 1000


class ExpireDue(Command):
    """Expire entries that are due, at most `limit`; `Broker.more_due` says if some are left."""

    limit: int = 1000


class DeleteUnused(Command):
    """Delete queues and addresses that nobody uses any more: continue the scan for them, or begin
    one if none is under way. `Broker.scans_names` says whether some are left."""


class RetryHeld(Command):
    """Try again to move what is held, at most `limit`; `Broker.retry_due` says if this is
    needed."""

    limit: int = 500


class CreateAddress(Command):
    """Create an address with these routing types.

    With `adopts`, one that was created by being used is from now on as if it had been created by
    this command, so that it is not deleted when nobody uses it. `configured` says that the
    configuration lists the address.
    """

    address: str
    routing_types: tuple[str, ...] = (ANYCAST,)
    adopts: bool = False
    configured: bool = False


class DeleteAddress(Command):
    """Delete an address that has no queues, or with `force` together with them."""

    address: str
    force: bool = False


class CreateQueue(Command):
    """Create a queue as defined on an address (created if missing).

    `adopts` is as in CreateAddress. `configured` says that the configuration lists the queue: it
    stays, whatever the settings say about queues that administrators create. `after` and `since`
    are as in Attach.
    """

    address: str
    definition: QueueDefinition
    adopts: bool = False
    configured: bool = False
    after: int = 0
    since: int = 0


class UpdateQueue(Command):
    """Change attributes of a queue (`definitions.LIVE_ATTRIBUTES`), by field; the answer is 0 if
    they have these values already. `configured` says that the configuration asks for it."""

    queue: str
    changes: dict[str, bool | int | str]
    configured: bool = False


class UpdateAddress(Command):
    """Give an address exactly these routing types; the answer is 0 if it has them already."""

    address: str
    routing_types: tuple[str, ...]


class PauseAddress(Command):
    """Stop delivering from all queues of an address."""

    address: str


class ResumeAddress(Command):
    """Resume delivering from the queues of an address."""

    address: str


class Administer(Command):
    """Carry out a command, and record who asked for it and how."""

    by: str
    request: str
    command: Command


class RecordRequest(Command):
    """Record who asked for the events since `first`, which were decided without a command of
    theirs."""

    by: str
    request: str
    first: int


class DeleteQueue(Command):
    """Delete a queue that is empty and has no consumers, or with `force` regardless of both."""

    queue: str
    force: bool = False


class CreateDivert(Command, gc=True):
    """Create a divert as defined; `replaces` allows a divert of this name that differs.
    `configured` says that the configuration lists it."""

    definition: DivertDefinition
    replaces: bool = False
    configured: bool = False


class DeleteDivert(Command):
    """Delete a divert."""

    name: str


class DropUnlisted(Command, gc=True):
    """Delete what the configuration listed before and lists no more, where settings say so.

    The names are those that it lists now. `progress` is for the slices after the first one.
    """

    addresses: frozenset[str]
    queues: frozenset[str]
    diverts: frozenset[str]
    progress: Any = None


class ClearDuplicateIds(Command):
    """Make an address forget the ids of the messages that it had."""

    address: str


class ForgetRetained(Command):
    """Make an address forget the message that it remembers for queues to come."""

    address: str


class ResetGroups(Command):
    """Make consumers of a queue give up a message group, or with an empty name all of them."""

    queue: str
    group: str = ""


class PauseQueue(Command):
    """Stop delivering from a queue."""

    queue: str


class ResumeQueue(Command):
    """Resume delivering from a queue."""

    queue: str


class PurgeQueue(Command):
    """Remove messages of a queue that are ready or held, at most `limit`.

    Messages that came after `through` (LSN, 0 for no limit) stay. The answer is 0 when there was
    nothing to remove.
    """

    queue: str
    through: int = 0
    limit: int = 10_000


class ActOnMessages(Command, gc=True):
    """Do something with messages of a queue that are not in flight, a part at a time.

    `action` is one of `engine.administration.message_moves.ACTIONS`; `filter` chooses messages,
    `message` a single one, `chosen` some by their ids. `target` is the queue to move or copy to,
    `priority` the new one. Messages that came after `through` (LSN, 0 for no limit) are left alone.
    `actor` is whose rights limit it, None for the operator of this machine. A part looks at `limit`
    messages, and acts on `most` (0 for no limit), all parts on `total` (0 for no limit). The other
    attributes say how far it is, and are set by the engine: `acted` counts messages, `whys` those
    that stayed by their reason, and `is_done` says that none is left.
    """

    queue: str
    action: str
    filter: str = ""
    message: int = 0
    target: str = ""
    priority: int = -1
    through: int = 0
    limit: int = 200
    most: int = 0
    level: int = -1
    position: int = 0
    acted: int = 0
    passed_over: int = 0
    is_done: bool = False
    matcher: Any = None
    actor: Actor | None = None
    chosen: tuple[int, ...] = ()
    total: int = 0
    whys: dict[str, int] = msgspec.field(default_factory=dict)
    checked: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)


class ReleaseHeld(Command):
    """Make held messages of a queue ready again, at most `limit`; otherwise like PurgeQueue."""

    queue: str
    through: int = 0
    limit: int = 10_000


class DeliverScheduled(Command):
    """Make scheduled messages of a queue ready before their time, at most `limit`; otherwise like
    PurgeQueue."""

    queue: str
    through: int = 0
    limit: int = 10_000


class ChangeSettings(Command, gc=True):
    """Put these address settings in force: match to key to value, checked by
    `engine.settings.settings`.

    `syntax` is that of the matches, and of the names of new addresses (`engine.names.syntax`).
    """

    settings: dict[str, dict[str, str | int | bool | float]]
    journal_non_persistent: str = "decisions"
    syntax: str = ""


class SetSettings(Command):
    """Set keys of a match at run time; they stay until they are removed."""

    match: str
    values: dict[str, str | int | bool | float]


class RemoveSettings(Command):
    """Remove keys of a match that were set at run time; without keys all of them."""

    match: str
    keys: tuple[str, ...] = ()


class Start(Command):
    """The broker starts to serve; what recovery found goes into `BrokerStarted`.

    `skipped` is how many LSNs must not be assigned, because clients may have learned them before a
    crash lost them. `level` is the feature level of the journal; `node` leads a cluster in `epoch`.
    """

    version: str
    cut_bytes: int = 0
    cut_segment: str = ""
    cut_offset: int = 0
    skipped: int = 0
    level: int = LEVEL_MIN
    epoch: int = 0
    node: str = ""


class Withhold(Command):
    """Stop delivering a message of a queue until the broker starts again; it stays in the queue.

    Nothing is journaled: the next broker finds out whether the content can be read.
    """

    queue: int
    message: int


class Checkpoint(Command):
    """Record that the index is the state at `lsn`, and its digest."""

    lsn: int
    digest: str


class Stop(Command):
    """The broker stops cleanly: connections are closed, the digest is recorded."""
