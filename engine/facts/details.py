"""The details of events: one struct for each kind that needs more than columns.

Fields are permanent; a struct grows only by optional fields at its end. Must never know the table
of kinds.
"""

import msgspec

from daybook.engine.facts.definitions import (
    AddressDefinition,
    Detail,
    DistributionEntry,
    DivertDefinition,
    LinkRoute,
    QueueDefinition,
    Waypoint,
)


class BrokerStartedDetail(Detail, frozen=True):
    """What start-up found: bytes cut from a torn tail (and where), and the broker's version.

    `level` is the highest feature level that the broker knows; 0 of brokers before there were any.
    A node of a cluster says its name, and the epoch in which it leads (ADR 118).
    """

    version: str = ""
    cut_bytes: int = 0
    cut_segment: str = ""
    cut_offset: int = 0
    level: int = 0
    epoch: int = 0
    node: str = ""


class BrokerStoppedDetail(Detail, frozen=True):
    """Digest of the logical state before this event, at a clean stop; `hurried` says that there is
    none, because computing it would have taken too long."""

    digest: str = ""
    hurried: bool = False


class ForkedDetail(Detail, frozen=True):
    """The id of the data directory that this one was forked from, the path that it had, and the
    hash of the block there that the fork ends with; both in hexadecimal digits."""

    data_id: str = ""
    directory: str = ""
    block_hash: str = ""


class LostDetail(Detail, frozen=True):
    """The kind of the event that was here, 0 if nothing is known of it; its name for the reader.

    The event at the end of a salvage has the id of the damaged data directory in `source`, and in
    `events` how many events are missing.
    """

    kind: int = 0
    name: str = ""
    source: str = ""
    events: int = 0


class Death(Detail, frozen=True):
    """How a message died in a queue, and how often so far, for the same reason (ADR 72).

    `time` is the last one, in milliseconds since 1970. `ended` is the reason for which the last
    delivery ended, `consumer` and `user` are whose that was, and `error` is what the consumer said.
    A message that found no queue has none, and the name of its address.
    """

    reason: str = ""
    address: str = ""
    queue: str = ""
    count: int = 1
    time: int = 0
    attempts: int = 0
    ended: str = ""
    consumer: int = 0
    user: str = ""
    error: str = ""


class Origin(Detail, frozen=True):
    """Where a message was before it was this one: a fact, which headers only show (ADR 71).

    `reason` says why it is a copy (DEAD_LETTER, EXPIRY, NO_ROUTE, ADMINISTRATION or DIVERT), and
    `message` is the id of the original, 0 if that never was a message. The address, the queue (or
    the divert) and its routing type are those of the original, on the same virtual host and without
    it; without an address there is nothing to go back to. `deaths` are those of the message so far,
    the newest first.
    """

    reason: int = 0
    message: int = 0
    address: str = ""
    queue: str = ""
    routing_type: str = ""
    deaths: tuple[Death, ...] = ()


class CarriedDetail(Detail, frozen=True):
    """Where the chunks of a large message are now, the length of its body, and where it was before;
    as in Routed."""

    chunks: tuple[int, ...] = ()
    body_bytes: int = 0
    origin: Origin | None = None


class SegmentsRemovedDetail(Detail, frozen=True):
    """How many segments left the live set, their bytes, and the archive that contains them, if
    any."""

    segments: int = 0
    bytes: int = 0
    archive: str = ""


class CheckpointDetail(Detail, frozen=True):
    """Digest of the logical state at the event in `related`, as in the index."""

    digest: str = ""


class SignedDetail(Detail, frozen=True):
    """A signed statement about history up to the event in `related`, which is the last of a block.

    `block_hash` is that of the block, `state_digest` that of the state, "" if it
    was not known; `time` is
    in microseconds since 1970 UTC. `contents` covers the leaves of the blocks after event `after`.
    Hashes, key and signature are hexadecimal; `key` is the id of the key.
    """

    block_hash: str = ""
    state_digest: str = ""
    time: int = 0
    key: str = ""
    after: int = 0
    contents: str = ""
    signature: str = ""


class KeyChangeDetail(Detail, frozen=True):
    """From now on the key `new` signs instead of `old`; both are public keys, in hexadecimal.

    Each has signed the change.
    """

    old: str = ""
    new: str = ""
    time: int = 0
    signature_old: str = ""
    signature_new: str = ""


class ConnectionDetail(Detail, frozen=True):
    """The peer that connected or tried to: protocol with version, peer address, user, client id.

    `count` is how many refusals the event stands for. `host` is the virtual host of a connection,
    `connector` the one of the configuration that opened it, "" for a peer that connected.
    """

    protocol: str = ""
    peer: str = ""
    user: str = ""
    client_id: str = ""
    text: str = ""
    count: int = 1
    host: str = "default"
    connector: str = ""


class PermissionRefusedDetail(Detail, frozen=True):
    """A refused permission: the user, the permission, the address and the queue; `count` is the
    number of refusals that the event stands for."""

    user: str = ""
    permission: str = ""
    address: str = ""
    queue: str = ""
    peer: str = ""
    count: int = 1


class LinkAttachedDetail(Detail, frozen=True):
    """A link to a direct address: whether its peer sends by it (`role` sender) or receives
    (receiver), its name, and how the address distributes messages. A sender without an address
    names one in each message. `phase` is that of the address; `auto_link` is the name of the link
    in the configuration, if that made it, with its other words (`definitions.AutoLink`). `through`
    is the connection of the container that the link is passed on to, 0 for one of a direct
    address. `traced` is as in ConsumerAttached."""

    address: str = ""
    role: str = ""
    name: str = ""
    distribution: str = ""
    phase: int = 0
    auto_link: str = ""
    is_fallback: bool = False
    cost: int = 0
    shard: str = ""
    through: int = 0
    traced: bool = False


class ForwardedDetail(Detail, frozen=True):
    """Where a message was sent, the receivers if there are several, and the place of a large body
    and `came_from` as in RoutedDetail. `settled` says that its sender does not want to hear of its
    end. `omitted_bytes` is the length of headers and body that are not journaled. A message that a
    queue had names that in its row, and here the `link` that it came by. `shard` is the shard that
    its group is for, if that decided."""

    address: str = ""
    receivers: tuple[int, ...] = ()
    settled: bool = False
    chunks: tuple[int, ...] = ()
    body_bytes: int = 0
    came_from: str = ""
    omitted_bytes: int = 0
    link: int = 0
    shard: str = ""


class ForwardSettledDetail(Detail, frozen=True):
    """Words of the receiver about its outcome: an error, its condition, and whether the message is
    not for itself."""

    error: str = ""
    condition: str = ""
    not_here: bool = False


class DistributionsDetail(Detail, frozen=True):
    """All entries, in the order of the configuration, the distribution of other names, the
    addresses that have auto-links, and the routes of links."""

    entries: tuple[DistributionEntry, ...] = ()
    default: str = "stored"
    waypoints: tuple[Waypoint, ...] = ()
    link_routes: tuple[LinkRoute, ...] = ()


class ConnectionClosedDetail(Detail, frozen=True):
    """Why the connection ended, in words, when the reason needs them."""

    text: str = ""


class ConsumerAttachedDetail(Detail, frozen=True):
    """How the consumer was attached: subscription, acknowledgement mode, filter and priority, and
    whether it wants the queue for itself.

    One that `browses` takes no messages. It gets none with an id below `first`. One
    that is `traced` takes them to another broker, whose journal says by `came_from` where they were
    (ADR 111).
    """

    subscription: str = ""
    ack_mode: str = ""
    filter: str = ""
    priority: int = 0
    exclusive: bool = False
    browses: bool = False
    first: int = 0
    traced: bool = False


class BundleOpenedDetail(Detail, frozen=True):
    """The request of one subscription to several queues: each destination as a name or a pattern,
    its acknowledgement mode and its filter."""

    subscription: str = ""
    destinations: tuple[str, ...] = ()
    ack_mode: str = ""
    filter: str = ""


class AddressDetail(AddressDefinition, frozen=True):
    """An address; AddressUpdated lists what `changed`; without that list it is `routing_types`."""

    changed: tuple[str, ...] = ()


class QueueDetail(QueueDefinition, frozen=True):
    """A queue, and whether it is being deleted. QueueUpdated lists what `changed`; without that
    list it is `routing_type` and `filter`."""

    deleting: bool = False
    changed: tuple[str, ...] = ()


class DivertDetail(DivertDefinition, frozen=True):
    """A divert, complete; it replaces the one of the same name."""


class DivertDeletedDetail(Detail, frozen=True):
    """The name of the divert."""

    name: str = ""


class SettingsDetail(Detail, frozen=True):
    """All address settings that are now in force: match to key to value; and the syntax of matches
    and of new names (`engine.names.syntax`). `live` are those that administrators set at run
    time."""

    settings: dict[str, dict[str, str | int | bool | float]] = msgspec.field(default_factory=dict)
    journal_non_persistent: str = "decisions"
    syntax: str = ""
    live: dict[str, dict[str, str | int | bool | float]] = msgspec.field(default_factory=dict)


class Basis(Detail, frozen=True):
    """The inputs of a decision that nothing else in the journal records (ADR 80).

    `routing_type` and `queue` are what the sender asked for, `expires` and `body_bytes` what
    filters may read beside the headers. `held` of `limit` is how full was what is full. `text` is
    what the machine said if it was a disk, or memory; of Diverted, why queues had no room.
    `destination` is the address that a refused copy was for. `volatile` says that a duplicate id
    was known in memory only.
    """

    routing_type: str = ""
    queue: str = ""
    expires: int = 0
    body_bytes: int = 0
    held: int = 0
    limit: int = 0
    text: str = ""
    destination: str = ""
    volatile: bool = False


class RoutedDetail(Detail, frozen=True):
    """Queues chosen, if several; expiry in milliseconds since 1970; the transaction that it came
    in.

    A large message also has its chunks (the LSN of the first, then for each the difference to the
    one before) and the length of its body. `last_values` are the last value keys of the message, by
    the ids of the queues that compare them. `unrouted_at` is the id of the address that it was sent
    to, if no queue there took it. `origin` is where it was before, if it is a copy. `due` is the
    time, in milliseconds since 1970, before which its sender does not want it delivered: it is set
    aside in its queues until then. `named` says that its sender named the queue, where that decides
    whether others get it. `annotations` are those that the original of a copy had, packed.
    `came_from` is what it was on the broker that sent it here by an auto-link: the id of the data
    directory there, its id, and a number for the place that it left (ADR 111), with slashes between
    them.
    """

    queues: tuple[int, ...] = ()
    expires: int = 0
    transaction: str = ""
    chunks: tuple[int, ...] = ()
    body_bytes: int = 0
    last_values: dict[int, str] = msgspec.field(default_factory=dict)
    unrouted_at: int = 0
    origin: Origin | None = None
    due: int = 0
    named: bool = False
    annotations: bytes = b""
    came_from: str = ""


class DroppedDetail(Detail, frozen=True):
    """Transaction that the send was part of, and the id that its sender gave it, if any.

    `destination` is the name of an address that does not exist; the event then has no address.
    Brokers before level 6 say no `basis`. `came_from` is as in Routed.
    """

    transaction: str = ""
    duplicate_id: str = ""
    destination: str = ""
    basis: Basis | None = None
    came_from: str = ""


class DivertedDetail(Detail, frozen=True):
    """The diverts that took the message, and the transaction that it came in, if any.

    `unrouted_at` and `came_from` are as in Routed, and `basis` as in Dropped.
    """

    diverts: tuple[str, ...] = ()
    transaction: str = ""
    unrouted_at: int = 0
    basis: Basis | None = None
    came_from: str = ""


class DuplicateIdDetail(Detail, frozen=True):
    """The id that the sender gave the message, so that duplicates are detected."""

    duplicate_id: str = ""


class HeldDetail(Detail, frozen=True):
    """Why the message has nowhere to go, in words."""

    text: str = ""


class ReturnedDetail(Detail, frozen=True):
    """The reason that the consumer gave for not accepting a delivery: a condition, which programs
    know, and a text for people; both empty if it said nothing, or if it was not asked. `not_here`
    says that the message is not for this consumer, as long as that is attached. `annotations` are
    what it notes on the message, packed (`engine.messages.annotations`); they replace those with
    the same keys."""

    condition: str = ""
    error: str = ""
    not_here: bool = False
    annotations: bytes = b""


class ScheduledDetail(Detail, frozen=True):
    """The time before which the message is not delivered, in milliseconds since 1970."""

    due: int = 0


class RecallStartedDetail(Detail, frozen=True):
    """Which messages the queue gets: those after an event, and up to another one.

    `retained` is the queue with the retained messages, if the queue gets those of them that fit,
    whatever they came after; 0 if it does not.
    """

    after: int = 0
    until: int = 0
    retained: int = 0


class RecalledDetail(Detail, frozen=True):
    """The history that the message was in (a queue), and what else the queue knows of it.

    `expires` is in milliseconds since 1970, 0 for never; `size` is in bytes, with overhead and
    without annotations; `last_values` and `annotations` as in RoutedDetail. `retained` says that
    its address retained it then, which its delivery shows to consumers.
    """

    history: int = 0
    expires: int = 0
    size: int = 0
    last_values: dict[int, str] = msgspec.field(default_factory=dict)
    annotations: bytes = b""
    retained: bool = False


class AdministeredDetail(Detail, frozen=True):
    """An administrator, and the request in JSON; a long one is cut."""

    by: str = ""
    request: str = ""


class GroupsResetDetail(Detail, frozen=True):
    """The beginning of the name of the group, empty for all groups."""

    group: str = ""


class DueDetail(Detail, frozen=True):
    """The last value key of the message, if its queue compares one and learns of it only now."""

    last_value: str = ""


class PagingDetail(Detail, frozen=True):
    """Size of the address when it was decided: bytes and messages in its queues."""

    bytes: int = 0
    messages: int = 0


class TransactionDetail(Detail, frozen=True):
    """A transaction: the client's id for it, its first event and how many events it made."""

    transaction: str = ""
    first: int = 0
    events: int = 0
    text: str = ""
