"""The definitions of addresses and queues: each attribute is listed once (DESIGN, section 12).

A definition is the same struct in commands, events, the index, the digest, views and the control
socket; the tables of configuration keys and the options of the command line are derived from
`requestable`. A new attribute is a field at the end with a default, which is what journals and
indexes from before it mean. Must never know what the attributes do.
"""

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

RoutingType: TypeAlias = Literal["anycast", "multicast"]
ANYCAST: Final = "anycast"
MULTICAST: Final = "multicast"
ROUTING_TYPES: Final = (ANYCAST, MULTICAST)
UNLIMITED_CONSUMERS: Final = -1

BALANCED: Final = "balanced"
CLOSEST: Final = "closest"
UNAVAILABLE: Final = "unavailable"
STORED: Final = "stored"
DISTRIBUTIONS: Final = (BALANCED, CLOSEST, MULTICAST, UNAVAILABLE, STORED)
"""What becomes of a message to an address: one consumer gets it, or the nearest one, or all of
them; nobody may send it; or queues store it."""

LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"
EXPIRY_POLICIES: Final = (LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER)
"""When the time begins after which the queue of a subscription expires (AMQP 1.0, 3.5.6): its last
consumer leaves, or the session or connection of that consumer ends as well, or it never expires."""
BEYOND_CONSUMERS: Final = frozenset((SESSION_END, CONNECTION_CLOSE))
"""The policies by which a queue outlives its last consumer."""

LAST_VALUE_KEY: Final = "_AMQ_LVQ_NAME"
"""The property that last value queues compare unless they name another one."""
SHARED_TEXTS_MAX: Final = 10_000


class Requestable(msgspec.Struct, frozen=True):
    """Marks an attribute that administrators and the configuration may ask for, with its
    description for users. `least` is the smallest value of a number; `is_live` says whether the
    attribute of a queue that exists may change."""

    doc: str
    least: int = 0
    is_live: bool = False


class Detail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all details of events: encoded as a map; absent fields have their default."""


_D = TypeVar("_D", bound=Detail)


class AddressDefinition(Detail, frozen=True):
    """An address: virtual host, name and routing types; whether it was created on demand, and is
    deleted when it has no queues. While it is paused nothing is delivered from its queues.
    `user` is the login that made it by using it, to which it is counted.

    `syntax` is the syntax of its name (`engine.names.syntax`), by which a wildcard address matches.
    `configuration_managed` says that the configuration lists it, or listed it
    (`engine.administration.unlisted`).
    """

    host: str = "default"
    name: str = ""
    routing_types: tuple[str, ...] = ()
    auto_created: bool = False
    syntax: str = ""
    auto_delete: bool = False
    paused: bool = False
    configuration_managed: bool = False
    user: str = ""


class QueueDefinition(Detail, frozen=True):
    """A queue: the messages that it accepts, its lifetime, and the user who created it, if it
    stays.

    `owner` is the connection that a temporary queue ends with, `user` the login to which a queue
    that stays is counted. `configuration_managed` is as in `AddressDefinition`. With `no_local` it
    takes no messages of its owner, or if it stays, of connections with this `client_id`. `keeps` is
    the address whose history a queue of the broker itself is (`engine.entries.retroactive`), empty
    for all others; the queue of retained messages (`engine.entries.retained_messages`) names its
    own. `expiry_policy` is one of `EXPIRY_POLICIES`, for the queue of a subscription that states
    one: its time is then `auto_delete_delay` (ADR 102). Without one the queue of a durable
    subscription stays, and any other ends with its last consumer.
    """

    name: str = ""
    routing_type: Annotated[
        str, Requestable("Which messages of the address it takes.", is_live=True), RoutingType
    ] = ANYCAST
    filter: Annotated[
        str,
        Requestable(
            "Which messages it takes: a condition, as in SQL-92; empty: all of them.", is_live=True
        ),
    ] = ""
    durable: Annotated[
        bool, Requestable("Whether it and its persistent messages outlive a restart.")
    ] = True
    temporary: bool = False
    auto_created: bool = False
    owner: int = 0
    user: str = ""
    max_consumers: Annotated[
        int,
        Requestable(
            "How many consumers may be attached at a time; -1: no limit.", least=-1, is_live=True
        ),
    ] = UNLIMITED_CONSUMERS
    exclusive: Annotated[
        bool,
        Requestable(
            "Whether one consumer at a time gets all messages, as long as it stays.", is_live=True
        ),
    ] = False
    non_destructive: Annotated[
        bool,
        Requestable(
            "Whether every consumer reads all messages, and none of them removes any.", is_live=True
        ),
    ] = False
    auto_delete: Annotated[
        bool,
        Requestable(
            "Whether it is deleted once it was used, is empty, and has no consumers.", is_live=True
        ),
    ] = False
    auto_delete_delay: Annotated[
        int,
        Requestable(
            "Milliseconds that it stays after its last consumer left, with auto-delete.",
            is_live=True,
        ),
    ] = 0
    auto_delete_message_count: Annotated[
        int,
        Requestable(
            "Messages with which auto-delete deletes it all the same; -1: any number.",
            least=-1,
            is_live=True,
        ),
    ] = 0
    enabled: Annotated[
        bool,
        Requestable(
            "Whether it takes new messages; those in it are delivered in any case.", is_live=True
        ),
    ] = True
    last_value: Annotated[
        bool,
        Requestable(
            "Whether a newer message replaces an older one with the same value of the property"
            " `_AMQ_LVQ_NAME`."
        ),
    ] = False
    last_value_key: Annotated[
        str,
        Requestable("The property that is compared instead; alone it makes a last value queue."),
    ] = ""

    ring_size: Annotated[
        int,
        Requestable(
            "How many messages it holds; a further one pushes out the first. -1: default-ring-size"
            " of the address.",
            least=-1,
            is_live=True,
        ),
    ] = -1
    consumers_before_dispatch: Annotated[
        int,
        Requestable(
            "How many consumers must be attached before the first delivery; 0: one.", is_live=True
        ),
    ] = 0
    delay_before_dispatch: Annotated[
        int,
        Requestable(
            "Milliseconds after the first consumer came after which deliveries begin without the"
            " others; -1: they wait for consumers-before-dispatch.",
            least=-1,
            is_live=True,
        ),
    ] = -1
    purge_on_no_consumers: Annotated[
        bool,
        Requestable(
            "Whether it takes messages only while it has consumers, and loses what is left when the"
            " last one leaves.",
            is_live=True,
        ),
    ] = False
    group_rebalance: Annotated[
        bool,
        Requestable(
            "Whether message groups are given to consumers again when another one comes.",
            is_live=True,
        ),
    ] = False
    group_rebalance_pause_dispatch: Annotated[
        bool,
        Requestable(
            "Whether group-rebalance waits until what is in flight is settled.",
            is_live=True,
        ),
    ] = False
    group_buckets: Annotated[
        int,
        Requestable(
            "Into how many buckets message groups are put, each of which has one consumer; 0: no"
            " groups; -1: each group by itself.",
            least=-1,
            is_live=True,
        ),
    ] = -1
    group_hashing: Annotated[
        bool,
        Requestable(
            "Whether the consumer of a message group follows from its name, by consistent hashing.",
            is_live=True,
        ),
    ] = False
    group_first_key: Annotated[
        str,
        Requestable(
            "Header that is true in the first message of a group that a consumer gets; empty:"
            " none.",
            is_live=True,
        ),
    ] = ""
    configuration_managed: bool = False
    no_local: bool = False
    client_id: str = ""

    keeps: str = ""
    expiry_policy: str = ""

    @property
    def outlives_consumers(self) -> bool:
        """Whether it belongs to the session or connection that its last consumer was on."""
        return self.expiry_policy in BEYOND_CONSUMERS

    @property
    def keyed_by(self) -> str:
        """The property by which newer messages replace older ones, empty if they do not."""
        return self.last_value_key or (LAST_VALUE_KEY if self.last_value else "")


class DivertDefinition(Detail, frozen=True):
    """A divert: which messages of an address it takes, and where their copies go.

    `syntax` is the syntax of its address (`engine.names.syntax`), which may be a pattern.
    `configuration_managed` is as in `AddressDefinition`.
    """

    name: str = ""
    address: str = ""
    forwarding_addresses: Annotated[
        tuple[str, ...], Requestable("The addresses that get a copy of each message, one or more.")
    ] = ()
    exclusive: Annotated[
        bool,
        Requestable(
            "Whether its messages go to the forwarding addresses only, not to queues of the"
            " address."
        ),
    ] = False
    filter: Annotated[
        str,
        Requestable("Which messages it takes: a condition, as in SQL-92; empty: all of them."),
    ] = ""
    routing_type: Annotated[
        str,
        Requestable("Routing type of the copies; strip: none, pass: that of the message."),
        Literal["strip", "pass", "anycast", "multicast"],
    ] = "strip"
    add_properties: Annotated[
        tuple[str, ...], Requestable("Properties to set in copies, each NAME=VALUE.")
    ] = ()
    remove_properties: Annotated[
        tuple[str, ...], Requestable("Properties that copies are without.")
    ] = ()
    rename_properties: Annotated[
        tuple[str, ...], Requestable("Properties that have another name in copies, each OLD=NEW.")
    ] = ()
    syntax: str = ""
    configuration_managed: bool = False


class DistributionEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """How messages are distributed to addresses that match a prefix or a pattern, of which it has
    one (`engine.settings.distributions`).

    `priority` is that of all these messages, None for each message's own. `waypoint` says that a
    queue of this broker stores them; `enable_fallback`, that one does while no consumer is there.
    """

    prefix: str = ""
    pattern: str = ""
    distribution: str = BALANCED
    priority: int | None = None
    waypoint: bool = False
    enable_fallback: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether queues store all messages to the address."""
        return self.waypoint or self.distribution == STORED


PHASE_MAX: Final = 9
"""The highest phase of an address (`AutoLink.phase`)."""


OWN_PROTOCOL: Final = "fallback"
"""The protocol of the connection of the broker itself, for events and lists. It takes from queues
of direct addresses on each virtual host."""


class AutoLink(msgspec.Struct, frozen=True):
    """A link that the broker attaches by itself to another container, a broker or a router
    (Interconnect, 12.1.4.1).

    The broker sends by it if it `is_out`, else it receives; `name` is unique among those of the
    configuration. `address` is the one here, a full name, `external` the one there. An address has
    phases: peers send at phase 0, and receive at phase 0, or behind a waypoint at phase 1. One with
    `is_fallback` stores what no receiver can get. `cost` is that of its connector: how far away the
    other container is. `shard` is the name of the shard of a sharded queue that it leads to.

    One with a `limit` empties `queue`, the one here of this full name, and ends after so many
    messages or when nothing is left: an administrator asked for it.
    """

    name: str
    address: str
    external: str
    is_out: bool
    phase: int = 0
    is_fallback: bool = False
    cost: int = 1
    shard: str = ""
    queue: str = ""
    limit: int = 0


class LinkRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """Links whose address matches a prefix or a pattern are passed on to a container: by a
    connector, or to one that has connected with its id (Interconnect, link routing).

    The peer of a link that `is_in` sends, of any other it receives. On the way to the container
    `remove` is taken off the beginning of the address, and `add` is put before it.
    """

    prefix: str = ""
    pattern: str = ""
    is_in: bool = True
    connector: str = ""
    container: str = ""
    add: str = ""
    remove: str = ""

    def there(self, address: str) -> str:
        """Return an address as the container knows it."""
        return self.add + address.removeprefix(self.remove)


BY_LOAD: Final = "load"
BY_GROUP: Final = "group"
SHARDINGS: Final = (BY_LOAD, BY_GROUP)
LOCAL: Final = "local"
"""The name of the shard that is the queue of this broker, if nothing else is said."""


class Waypoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address, by its full name, whose messages pass through queues of other containers between
    senders and consumers: there are auto-links for it.

    With `has_queue` the queue of this broker that has its name stores messages, too. `shard_by`
    says how the queue of a message is chosen: by load, or by the group of the message. For that,
    `shards` are the names of all queues of others, as auto-links out have them, and `local` is that
    of the queue of this broker. An address that only falls back to auto-links has one of these,
    too.
    """

    name: str
    has_queue: bool = False
    shard_by: str = BY_LOAD
    shards: tuple[str, ...] = ()
    local: str = LOCAL


class Distribution(DistributionEntry, frozen=True):
    """The word of the table about one name: its entry, and the auto-links that there are."""

    through: Waypoint | None = None

    @property
    def is_stored(self) -> bool:
        """Whether queues of this broker store all messages to the address."""
        return self.distribution == STORED or (self.waypoint and self.through is None)

    @property
    def falls_back(self) -> bool:
        """Whether a queue of this broker stores what no receiver can get."""
        through = self.through
        return self.enable_fallback and (through is None or through.has_queue)

    @property
    def has_shard(self) -> bool:
        """Whether a queue of this broker is one of those behind a waypoint."""
        return self.waypoint and self.through is not None and self.through.has_queue

    @property
    def stores_here(self) -> bool:
        """Whether a queue of this broker stores some messages."""
        return self.falls_back or self.has_shard

    @property
    def receiving_phase(self) -> int:
        """The phase at which peers receive."""
        return 1 if self.waypoint else 0


NUMBER_MOST: Final = 2**31 - 1
"""The largest number that an attribute can be."""


class Attribute(msgspec.Struct, frozen=True):
    """An attribute that can be asked for: field, key in the configuration, and its possible values.

    `kind` is bool, int, str, or tuple for several texts; `choices` are the values of a str that has
    few, `least` the smallest of an int, and `is_live` says whether it may change.
    """

    field: str
    kind: type[bool] | type[int] | type[str] | type[tuple[str, ...]]
    default: bool | int | str | tuple[str, ...] | None
    doc: str
    choices: tuple[str, ...] = ()
    least: int = 0
    is_live: bool = False

    @property
    def key(self) -> str:
        """Its spelling in the configuration and on the command line."""
        return self.field.replace("_", "-")


def requestable(definition: type[Detail]) -> tuple[Attribute, ...]:
    """Return the attributes of a definition that can be asked for, in their order."""
    hints = get_type_hints(definition, include_extras=True)
    found = []
    for field in msgspec.structs.fields(definition):
        hint = hints[field.name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        kind = get_origin(kind) or kind
        for mark in marks:
            if isinstance(mark, Requestable):
                choices = next((get_args(m) for m in marks if get_origin(m) is Literal), ())
                found.append(
                    Attribute(
                        field.name, kind, field.default, mark.doc, choices, mark.least, mark.is_live
                    )
                )
    return tuple(found)


QUEUE_ATTRIBUTES: Final = requestable(QueueDefinition)
LIVE_ATTRIBUTES: Final = {each.field: each for each in QUEUE_ATTRIBUTES if each.is_live}
"""Those that may change, by field."""
DIVERT_ATTRIBUTES: Final = requestable(DivertDefinition)


def fits(attribute: Attribute, value: object) -> bool:
    """Whether an attribute can have a value, as in the configuration."""
    if type(value) is not attribute.kind:
        return False
    if attribute.choices:
        return value in attribute.choices
    return not isinstance(value, int) or attribute.least <= value <= NUMBER_MOST


def not_requestable(definition: QueueDefinition) -> list[str]:
    """Return the attributes that differ from their default and cannot be asked for."""
    asked = {"name", *(attribute.field for attribute in QUEUE_ATTRIBUTES)}
    return [name for name in values_beyond(definition, 0) if name not in asked]


def is_as_requested(found: QueueDefinition, wanted: QueueDefinition) -> bool:
    """Whether all attributes of a queue that can be asked for are as wanted."""
    names = [attribute.field for attribute in QUEUE_ATTRIBUTES]
    return all(getattr(found, name) == getattr(wanted, name) for name in names)


class SharedTexts:
    """Texts that occur in many definitions, each kept once: names of users, filters, types."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, places: Sequence[int], values: list[Any]) -> None:
        """Share the values at these places of a list.

        Empty ones, most of all, are left alone: Python has each of them once.
        """
        known = self._known
        if len(known) >= SHARED_TEXTS_MAX:
            known.clear()
        for place in places:
            value = values[place]
            if value:
                values[place] = known.setdefault(value, value)


def is_shared(field: msgspec.structs.FieldInfo) -> bool:
    """Whether definitions share the values of an attribute: texts, except for names."""
    return isinstance(field.default, str | tuple) and field.name != "name"


class _Shape:
    """How to read a definition from a struct that has its fields, and which of them are shared."""

    def __init__(self, kind: type[Detail]) -> None:
        fields = msgspec.structs.fields(kind)
        self.values_of = attrgetter(*(field.name for field in fields))
        self.name_at = [field.name for field in fields].index("name")
        self.shared = [place for place, field in enumerate(fields) if is_shared(field)]


_SHAPES: Final = {
    kind: _Shape(kind) for kind in (AddressDefinition, QueueDefinition, DivertDefinition)
}


def definition_in(kind: type[_D], source: Any, texts: SharedTexts, name: str = "") -> _D:
    """Return the definition that the fields of a struct contain, made of shared texts.

    `name` is a text that its name may equal; names themselves are not shared.
    """
    shape = _SHAPES[kind]  # type: ignore[index]
    values = list(shape.values_of(source))
    texts.share(shape.shared, values)
    if values[shape.name_at] == name:
        values[shape.name_at] = name
    return kind(*values)


def with_changes(definition: _D, detail: Detail, fields: tuple[str, ...]) -> _D:
    """Return a definition in which these attributes have the values in the detail of an event."""
    return msgspec.structs.replace(definition, **{name: getattr(detail, name) for name in fields})


# Reading the annotations takes a third of a millisecond, and the index asks for each queue.
_fields_of = cache(msgspec.structs.fields)


def values_beyond(definition: Detail, known: int) -> dict[str, Any]:
    """Return the attributes after the first `known` that differ from their default, by name."""
    return {
        field.name: value
        for field in _fields_of(type(definition))[known:]
        if (value := getattr(definition, field.name)) != field.default
    }
