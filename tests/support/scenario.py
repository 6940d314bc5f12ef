"""Random scenarios: every command of the engine, in any order, sensible or not.

A step is four small numbers; their meaning depends on the objects that exist when they are
executed, so every list of steps is a valid scenario, also after shrinking. Refusals are part of it.
"""

from collections.abc import Callable

from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.administration import retention_commands
from daybook.engine.administration.message_moves import ACTIONS
from daybook.engine.administration.signatures import RecordKeyChange, RecordSignature
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import (
    ANYCAST,
    BY_GROUP,
    CLOSEST,
    EXPIRY_POLICIES,
    LAST_VALUE_KEY,
    MULTICAST,
    AutoLink,
    DistributionEntry,
    DivertDefinition,
    Waypoint,
)
from daybook.engine.facts.details import KeyChangeDetail, SignedDetail
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.settlements import ACCEPTED, BY_GRANT, FAILED, REJECTED, RELEASED
from daybook.engine.facts.values import Symbol, Timestamp, Value
from daybook.engine.messages.annotations import BYTES_MAX
from daybook.engine.messages.content import CODECS
from daybook.engine.messages.headers import build
from daybook.engine.names.names import RETAINED_PLACE, temporary_name
from daybook.engine.refusals import Refusal
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.engine.settings.setting_keys import Matches
from tests.support.topology import create_queue
from tests.support.world import SECOND, World
from tests.support.worlds.hosts import OTHER, moved
from tests.support.worlds.second_format import MAPS, encode

Step = tuple[int, int, int, int]

ADDRESSES = ("orders", "mails", "news", "dead", "late", "dsub.one", "a.b")
WILDCARDS = ("*", "#", "dsub.*")
PLACES = ADDRESSES + WILDCARDS
QUEUES = ("orders", "extra", "mails", "dsub.one", "dead", "other")
HISTORIES = (
    *(
        f"$.artemis.internal.{name}.retro"
        for name in ("orders.queue.anycast", "news.queue.multicast", "mails.queue.anycast")
    ),
    RETAINED_PLACE,
)
TYPES = (None, None, ANYCAST, MULTICAST)
FILTERS = ("", "", "", "kind=big", "not kind=big")
NAMES = ("t", "u")
RETAINS = (0, 0, c.RETAIN_SET, c.RETAIN_SET, c.RETAIN_REMOVE, 0)
DIVERTS = ("d", "e", "f")
REASONS = (reasons.CLOSED, reasons.DISCONNECTED, reasons.TIMEOUT)
MODES = ("decisions", "full")
MATCHES: tuple[Matches, ...] = (
    {},
    {"#": {"max-delivery-attempts": 2, "dead-letter-address": "dead"}},
    {"#": {"max-delivery-attempts": 1}, "orders": {"expiry-address": "late"}},
    {"#": {"auto-create-queues": False}, "news": {"dead-letter-address": "mails"}},
    {"#": {"auto-create-addresses": False, "expiry-address": "dead"}},
    {"#": {"max-size-messages": 2, "max-delivery-attempts": 2, "dead-letter-address": "dead"}},
    {
        "#": {"max-size-bytes": 300},
        "orders": {"max-size-messages": 2, "address-full-policy": "BLOCK"},
        "mails": {"address-full-policy": "FAIL"},
        "news": {"max-size-messages": 1, "address-full-policy": "DROP"},
    },
    {
        "#": {"max-size-messages": 0, "page-limit-messages": 3, "page-full-policy": "DROP"},
        "orders": {"page-limit-bytes": 500, "page-full-policy": "FAIL"},
    },
    {
        "#": {"max-delivery-attempts": 1, "dead-letter-policy": "DROP"},
        "orders": {"default-consumers-before-dispatch": 2, "default-delay-before-dispatch": 10},
        "mails": {"default-group-rebalance": True, "default-group-rebalance-pause-dispatch": True},
        "dead": {"default-group-hashing": True},
        "news": {"config-delete-addresses": "FORCE"},
    },
    {
        "#": {"config-delete-queues": "FORCE", "config-delete-diverts": "FORCE"},
        "orders": {"config-delete-addresses": "FORCE"},
    },
    {
        "#": {"max-delivery-attempts": 1, "dead-letter-address": "dead", "expiry-address": "late"},
        "dead": {"auto-create-queues": False},
    },
    {"#": {"max-delivery-attempts": 3, "redelivery-delay": 30, "expiry-address": "late"}},
    {
        "#": {"expiry-delay": 20, "expiry-address": "late"},
        "mails": {"max-expiry-delay": 10, "min-expiry-delay": 5, "expiry-delay": -1},
        "news": {"no-expiry": True},
    },
    {
        "#": {
            "redelivery-delay": 20,
            "redelivery-delay-multiplier": 1.5,
            "redelivery-collision-avoidance-factor": 0.3,
            "max-delivery-attempts": 4,
        },
    },
    {"#": {"default-non-destructive": True}, "news": {"default-non-destructive": False}},
    {"#": {"default-last-value-queue": True, "redelivery-delay": 20}},
    {"#": {"default-ring-size": 2}, "news": {"redelivery-delay": 20, "default-ring-size": 1}},
    {"#": {"default-last-value-key": "kind"}, "news": {"default-non-destructive": True}},
    {"orders": {"default-non-destructive": True}, "mails": {"default-non-destructive": True}},
    {
        "#": {"default-consumers-before-dispatch": 2},
        "orders": {"default-delay-before-dispatch": 20},
        "mails": {"default-purge-on-no-consumers": True},
    },
    {"#": {"id-cache-size": 2}, "mails": {"id-cache-size": 0}, "news": {"id-cache-size": 1}},
    {
        "#": {"auto-delete-queues": False, "auto-delete-addresses-delay": 30},
        "orders": {"auto-delete-queues-delay": 40, "auto-delete-queues-message-count": 1},
        "mails": {
            "auto-delete-queues-message-count": -1,
            "auto-delete-queues-skip-usage-check": True,
        },
        "news": {"default-address-routing-type": "MULTICAST", "auto-delete-created-queues": True},
    },
    {
        "#": {
            "max-delivery-attempts": 1,
            "dead-letter-address": "dead",
            "auto-create-dead-letter-resources": True,
            "expiry-address": "late",
            "auto-create-expiry-resources": True,
            "expiry-queue-prefix": "",
            "expiry-queue-suffix": ".late",
            "send-to-dla-on-no-route": True,
        },
        "mails": {"dead-letter-queue-prefix": "", "dead-letter-queue-suffix": ""},
    },
    {"#": {"retroactive-message-count": 2, "max-delivery-attempts": 1, "expiry-address": "late"}},
    {
        "#": {"retroactive-bytes": 700, "max-size-messages": 3, "default-last-value-key": "kind"},
        "news": {"retroactive-max-age": 40, "default-non-destructive": True},
        "mails": {"retroactive-bytes": 0, "send-to-dla-on-no-route": True},
        "dead": {"retroactive-message-count": 1},
    },
)
SYNTAXES = ("", ".#*-", ",@.")
"""As in Artemis; without wildcard addresses; and one in which the words of some names differ."""
SETTINGS: tuple[c.ChangeSettings, ...] = tuple(
    c.ChangeSettings(matches, mode, syntax)
    for matches in MATCHES
    for mode in MODES
    for syntax in (SYNTAXES if matches in ({}, MATCHES[1]) else ("",))
)


def _pick(options: list[int], number: int) -> int:
    """One of the options, now and then something that does not exist."""
    return options[number % len(options)] if options and number != 20 else 10_000


def _connection(world: World, number: int) -> int:
    return _pick(sorted(world.state.connections), number)


def _consumer(world: World, number: int) -> int:
    """A consumer, or a subscription to several queues."""
    return _pick(sorted((*world.state.consumers, *world.broker.bundles)), number)


def _message(world: World, consumer: int, number: int) -> int:
    found = world.state.consumers.get(consumer)
    bundle = world.broker.bundles.get(consumer)
    numbers = list(bundle.holding) if bundle is not None else []
    return _pick([*found.unacked, *found.shown] if found is not None else numbers, number)


def _transaction(world: World, connection: int, number: int) -> str | None:
    found = world.state.connections.get(connection)
    names = sorted(found.transactions) if found is not None else []
    return names[number % len(names)] if names and number % 3 else None


def _send(world: World, x: int, y: int, z: int) -> c.Command:
    connection = _connection(world, x)
    pairs = {"kind": "big" if y % 2 else "small", "expires": "5"}
    if x % 3:
        pairs[LAST_VALUE_KEY] = str(y % 3)
    is_grouped = z % 4 == 1
    standard = {"group_id": f"g{y % 3}"} if is_grouped else {}
    if is_grouped and x % 7 == 3:
        pairs["JMSXGroupSeq"] = "-1"
    # Both where a test knows a second format.
    content_format = MAPS if MAPS in CODECS and (x + y) % 2 else LINES
    command = c.Send(
        connection,
        _temporary(world, y)
        if z == 9
        else PLACES[y % 3 if z < 12 else y % 6 if z < 20 else y % 10],
        encode(pairs, **standard) if content_format == MAPS else _lines(pairs, standard),
        b"%d-%d-%d" % (x, y, z),
        routing_type=TYPES[z % 4],
        queue=QUEUES[z % 6] if z > 17 else None,
        priority=4 if x < 15 else z % 11,
        persistent=z % 3 > 0,
        expires=(world.now // 1000 + 10 * z) if x % 4 == 0 else 0,
        transaction=_transaction(world, connection, x + y),
        duplicate_id=str(z % 5) if x % 3 == 1 else "",
        format=content_format | GROUPED if is_grouped else content_format,
        due=world.now // 1000 + 10 * y - 10 if (x + z) % 5 == 0 else 0,
        retain=RETAINS[(x + y) % 6] if z % 4 == 3 and (x + z) % 5 else 0,
    )
    if y % 7 == 6:
        _send_chunks(world, command, 1 + x % 3)
    return command


def _temporary(world: World, x: int) -> str:
    """A temporary destination of some connection, or of one that never was."""
    return temporary_name(_connection(world, x), f"t{x % 2}")


def _lines(pairs: dict[str, str], standard: dict[str, str]) -> bytes:
    group = [("JMSXGroupID", standard["group_id"])] if standard else []
    return build([*pairs.items(), *group])


def _send_to_all(world: World, x: int, y: int, z: int) -> c.Command:
    sends: list[c.Send] = []
    for step in range(2 + y % 2):
        command = _send(world, x, (y + step) % 6, z)
        assert isinstance(command, c.Send)
        command.transaction = None
        if command.connection in {each.connection for each in sends} or not sends:
            sends.append(command)
    return c.SendToAll(sends[0].connection, sends)


def _send_chunks(world: World, command: c.Send, count: int) -> None:
    """Turn it into the end of a large message, unless its first chunk is refused."""
    body = command.body
    lsn = 0
    for _ in range(count):
        answer = world.handle(c.Chunk(command, body, lsn))
        if isinstance(answer, Refusal):
            return
        command.chunks += (lsn := answer,)
    command.body_bytes = count * len(body)
    command.body = b""
    world.turn()


def _attach(world: World, x: int, y: int, z: int) -> c.Command:
    return c.Attach(
        _connection(world, x),
        _temporary(world, y)
        if z == 9
        else WILDCARDS[z % 3]
        if 11 < y < 16
        else ADDRESSES[y % 3 if z < 12 else y % 6],
        subscription=f"s{x}",
        routing_type=TYPES[z % 4],
        queue=QUEUES[z % 6] if y > 17 else None,
        durable_name=("one", "two")[y % 2] if z > 13 else None,
        filter=FILTERS[(x + z) % 5],
        acknowledges=z % 5 > 0,
        credit_messages=z % 7,
        credit_bytes=100 * (x % 3),
        priority=x - 8 if x in (7, 9) else 0,
        exclusive=x == 4,
        no_local=(x + y) % 6 == 5,
        from_sequence=((x * y + z) % 5) ** 2 - 1 if (x + 2 * y) % 7 == 3 else None,
        browses=(x + y + z) % 5 == 2,
        listens=z % 2 == 0,
        after=world.broker.lsn // 2 if z == 11 else 0,
        since=world.now // 1000 - 20 if z == 10 else 0,
        session=y % 3,
        expiry_policy=EXPIRY_POLICIES[z % 4] if (x + y) % 4 == 1 else "",
        expiry_ms=20 * (x % 3) if z > 13 else 0,
        durable=z < 18,
    )


def _attach_all(world: World, x: int, y: int, z: int) -> c.Command:
    """Subscribe to several queues, topics and patterns of queues at a time."""
    parts = []
    for step in range(1 + y % 3):
        part = _attach(world, x, (y + 3 * step) % 21, (z + step) % 21)
        assert isinstance(part, c.Attach)
        if y % 6:
            part.durable_name = None
        if z % 5:
            part.from_sequence = None
        if (x + step) % 3 == 1:
            part.address, part.routing_type, part.queue = WILDCARDS[z % 3], ANYCAST, None
            part.durable_name, part.no_local = None, False
        parts.append(part)
        for name in ("acknowledges", "browses", "listens", "filter"):
            setattr(part, name, getattr(parts[0], name))
    return c.AttachAll(parts[0].connection, parts, 1 + z % 4)


def _settle(world: World, x: int, y: int, z: int) -> c.Command:
    consumer = _consumer(world, x)
    found = world.state.consumers.get(consumer) or world.broker.bundles.get(consumer)
    transaction = _transaction(world, found.connection.id, z) if found is not None else None
    usual = ACCEPTED if y % 2 else FAILED
    outcome = {12: RELEASED, 18: REJECTED}.get(y, usual)
    message = _message(world, consumer, z)
    error, condition = ("", "", "bad")[z % 3], ("", "amqp:illegal-state")[z % 2]
    not_here = (x + z) % 4 == 0
    return c.Settle(
        consumer, message, y % 3 == 0, transaction, outcome, error, condition, not_here,
        annotations_by(y, z) if y % 3 else None,
    )  # fmt: skip


def annotations_by(y: int, z: int) -> dict[Symbol | int, Value] | None:
    """Return what a consumer notes on a message: often nothing, and seldom more than there is room
    for."""
    if z % 5 > 2:
        return None
    if y == z == 10:
        return {Symbol("much"): bytes(BYTES_MAX)}
    return {Symbol(f"x-{y % 3}"): [z, "tried", {Symbol("at"): Timestamp(y)}], z: None}


def _create_address(world: World, x: int, y: int, z: int) -> c.Command:
    is_configured = z % 2 == 0
    types = ((ANYCAST,), (ANYCAST, MULTICAST))[y % 2]
    return c.CreateAddress(PLACES[x % 10], types, is_configured, is_configured)


def _create_queue(world: World, x: int, y: int, z: int) -> c.Command:
    command = create_queue(
        QUEUES[x % 6],
        WILDCARDS[x % 3] if y > 15 else ADDRESSES[y % 6],
        TYPES[2 + z % 2] or "",
        z % 3 > 0,
        filter=FILTERS[x % 5],
        exclusive=x % 7 == 6,
        auto_delete=z % 5 == 4,
        auto_delete_message_count=-(y % 2),
        non_destructive=y % 3 == 2,
        last_value=z % 7 == 6,
        ring_size=x % 4 if y % 4 == 1 else -1,
        last_value_key="kind" if z % 4 == 3 else "",
        consumers_before_dispatch=2 * (x % 5 == 4),
        delay_before_dispatch=10 * y if z % 2 else -1,
        purge_on_no_consumers=y % 6 == 4,
        group_rebalance=x % 4 == 1,
        group_rebalance_pause_dispatch=y % 3 == 1,
        group_buckets=z % 5 - 1,
        group_hashing=z % 3 == 1,
        group_first_key="first" if y % 2 else "",
    )
    # Some are listed by the configuration.
    command.adopts = command.configured = (x + y + z) % 3 == 0
    return command


def _update_queue(world: World, x: int, y: int, z: int) -> c.Command:
    """Change attributes of a queue; some such changes record an administrator."""
    changes: dict[str, bool | int | str] = {
        "filter": FILTERS[z % 5],
        "routing_type": TYPES[2 + z % 2] or "",
        "enabled": z % 4 > 0,
        "exclusive": z % 7 == 6,
        "auto_delete": z % 3 == 2,
        "group_hashing": z % 3 > 0,
    }
    names = sorted(changes)
    chosen = {names[y % 6]: changes[names[y % 6]], names[x % 6]: changes[names[x % 6]]}
    command = c.UpdateQueue(QUEUES[x % 6], chosen)
    return c.Administer("joe", "{}", command) if y % 2 else command


def _act_on_messages(world: World, x: int, y: int, z: int) -> c.Command:
    """Do something with some messages of a queue, or with one, or with none."""
    name = QUEUES[x % 6]
    queue = world.state.queue_by_name.get(name)
    ids = [entry.message.id for entry in queue.standing()] if queue is not None else []
    actions = sorted(ACTIONS)
    return c.ActOnMessages(
        name,
        actions[y % len(actions)],
        filter=FILTERS[z % 5],
        message=_pick(ids, z) if x > 15 else 0,
        target=QUEUES[z % 6],
        priority=z % 11,
        limit=1 + z,
    )


LIVE = ("#", "orders", "a.*")
"""Matches that are set at run time."""


def _set_settings(world: World, x: int, y: int, z: int) -> c.Command:
    """Set a key at run time."""
    values: tuple[dict[str, str | int | bool | float], ...] = (
        {"max-delivery-attempts": 1 + z % 3},
        {"id-cache-size": z % 3},
        {"max-size-messages": z % 4 - 1},
        {"dead-letter-address": ("", "dead")[z % 2], "auto-delete-queues": z % 3 > 0},
    )
    return c.SetSettings(LIVE[x % 3], values[y % 4])


def _carry(world: World, x: int, y: int, z: int) -> c.Command:
    """Do what retention would do with the message of some event, if it is one."""
    events_of = [event for event in world.journal if event.row[events.KIND] == events.ROUTED]
    if not events_of:
        return retention_commands.CarryChunk(b"x")
    event = events_of[(21 * x + y) % len(events_of)]
    return retention_commands.Carry(
        message=event.lsn,
        address=event.row[events.ADDRESS],
        priority=event.row[events.PRIORITY],
        flags=event.row[events.FLAGS],
        before=event.lsn,
        headers=event.headers,
        body=event.body,
        chunks=events.chunk_lsns(event.decoded) if event.detail else (),
        body_bytes=event.decoded.body_bytes if event.detail else 0,
    )


def _create_divert(world: World, x: int, y: int, z: int) -> c.Command:
    return c.CreateDivert(
        DivertDefinition(
            name=DIVERTS[x % 3],
            address=WILDCARDS[y % 3] if z > 17 else ADDRESSES[y % 6],
            forwarding_addresses=(ADDRESSES[z % 6], ADDRESSES[(z + y) % 7])[: 1 + x % 2],
            exclusive=y % 3 == 0,
            filter=FILTERS[z % 5],
            routing_type=("strip", "pass", ANYCAST, MULTICAST)[(x + z) % 4],
            add_properties=("kind=big",) if z % 4 == 3 else (),
            rename_properties=("kind=sort",) if z % 4 == 2 else (),
        ),
        replaces=z % 2 == 0,
        configured=x % 2 == 0,
    )


def _drop_unlisted(world: World, x: int, y: int, z: int) -> c.Command:
    """Reload a configuration that lists only some of what there is."""
    return c.DropUnlisted(
        addresses=frozenset(PLACES[x % 10 :]),
        queues=frozenset(QUEUES[y % 6 :]),
        diverts=frozenset(DIVERTS[z % 3 :]),
    )


_ALL: dict[str, tuple[str, ...]] = {permission: ("*",) for permission in PERMISSIONS}
DIRECT = ("x.each", "x.all", "x.near", "x.each", "x.way", "x.shards", "x.safe")
TABLES: tuple[tuple[DistributionEntry, ...], ...] = (
    (),
    (DistributionEntry(prefix="x"),),
    (DistributionEntry(prefix="x"), DistributionEntry(pattern="x/all", distribution=MULTICAST)),
    (
        DistributionEntry(prefix="x", priority=3, enable_fallback=True),
        DistributionEntry(prefix="x.near", distribution=CLOSEST),
        DistributionEntry(pattern="x/*", distribution=MULTICAST),
    ),
)


def _links(world: World) -> list[int]:
    direct = world.broker.direct
    return sorted((*direct.senders, *direct.receivers))


def _link(world: World, x: int, y: int, z: int) -> c.Command:
    """Begin to send to a direct address, or to any, or to receive from one."""
    connection, name = _connection(world, x), DIRECT[y % len(DIRECT)]
    if z % 3 == 0:
        return c.AttachSender(connection, name if x % 3 else "", link=y)
    return c.Attach(
        connection, name, acknowledges=z % 4 > 0, credit_messages=z % 5, browses=z == 20,
        credit_bytes=100 * (y % 3),
    )  # fmt: skip


def _forward(world: World, x: int, y: int, z: int) -> c.Command:
    """Send to a direct address, by a link or without one."""
    command = _send(world, x, y, z)
    assert isinstance(command, c.Send)
    link = world.broker.direct.senders.get(_pick(_links(world), z))
    place = link.address if link is not None else None
    command.address = place.name if place is not None else DIRECT[y % len(DIRECT)]
    command.queue = None
    if x % 4:
        command.transaction, command.due, command.retain = None, 0, 0
    if link is not None:
        command.connection, command.sender = link.connection_id, link.id
        command.token = z if y % 2 else None
    return command


def _conclude(world: World, x: int, y: int, z: int) -> c.Command:
    """End a delivery from a direct address, or give its receiver credit."""
    number = _pick(sorted(world.broker.direct.receivers), x)
    if z % 3 == 0:
        return c.Credit(number, y, 10 * z)
    link = world.broker.direct.receivers.get(number)
    message = _pick(list(link.outstanding) if link is not None else [], y)
    outcome = (ACCEPTED, FAILED, RELEASED, REJECTED)[z % 4]
    return c.Settle(number, message, y % 3 == 0, None, outcome, ("", "bad")[x % 2])


def _leave(world: World, x: int, y: int, z: int) -> c.Command:
    """End a link to a direct address."""
    number = _pick(_links(world), x)
    return c.DetachSender(number) if y % 2 else c.Detach(number)


WAYS = ("x.way", "x.shards", "x.safe", "x.each", "orders", "mails")
"""Where auto-links go: behind waypoints and fallback, to any direct address, and as bridges."""
WAYPOINTS = (
    Waypoint("x.way"),
    Waypoint("x.shards", has_queue=True, shard_by=BY_GROUP, shards=("a", "b")),
    Waypoint("x.safe"),
)
BEHIND: tuple[tuple[DistributionEntry, ...], ...] = tuple(
    (
        DistributionEntry(prefix="x"),
        DistributionEntry(pattern="x/way", waypoint=True),
        DistributionEntry(pattern="x/shards", waypoint=True),
        DistributionEntry(pattern="x/safe", enable_fallback=True, priority=priority),
    )
    for priority in (0, 7)
)
"""Tables with waypoints that have auto-links."""


def _auto_link(world: World, x: int, y: int, z: int) -> c.Command:
    """An auto-link begins, mostly on the connection of a connector: out or in."""
    name, is_out = WAYS[x % len(WAYS)], z % 2 == 0
    is_fallback = name == "x.safe" and z % 5 > 0
    # Some lead to the wrong phase.
    phase = 0 if is_out or is_fallback else 1
    link = AutoLink(
        f"{name} {x} {y} {z}", name, name, is_out, phase ^ (y == 7), is_fallback, 1 + z % 3,
        "ab"[y % 2],
    )  # fmt: skip
    dialled = [each.id for each in world.state.connections.values() if each.protocol == "amqp"]
    connection = _pick(sorted(dialled), x) if dialled and y % 5 else _connection(world, x)
    if not is_out:
        return c.AttachSender(connection, name, link=y, auto_link=link)
    return c.Attach(
        connection, name, subscription="out", credit_policy=BY_GRANT, credit_messages=1 + x % 4,
        credit_bytes=0, auto_link=link, traced=y % 4 > 0,
    )  # fmt: skip


def _distribute(world: World, x: int, y: int, z: int) -> c.Command:
    """Put a table with waypoints in force."""
    return c.ChangeDistributions(BEHIND[x % 2], waypoints=WAYPOINTS)


RULES: tuple[dict[str, dict[str, tuple[str, ...]]], ...] = (
    {},
    {"#": _ALL, "orders": {}},
    {"#": {"send": ("*",), "consume": ("*",)}},
    {"#": {name: who for name, who in _ALL.items() if name != "create-address"}},
    {"#": _ALL, "news": {"consume": ("*",)}, "mails": {"send": ("*",)}},
)


def _permit(world: World, x: int, y: int, z: int) -> c.Command:
    """Put other rules in force, and record something that they refuse."""
    world.broker.permit(Permissions(RULES[x % 5]))
    world.broker.let_wildcards_follow()
    return c.RecordDenial(_connection(world, x), "u", "send", PLACES[y % 10])


def _note_removed(world: World, x: int, y: int, z: int) -> c.Command:
    return retention_commands.NoteSegmentsRemoved(last_lsn=x, segments=y, bytes=z)


Maker = Callable[[World, int, int, int], c.Command]


def _note_signed(world: World, x: int, y: int, z: int) -> c.Command:
    """Record what a notary said."""
    if z % 4 == 0:
        return RecordKeyChange(KeyChangeDetail(old=f"{x}", new=f"{y}"))
    return RecordSignature(max(0, world.broker.lsn + 2 - x), SignedDetail(key=f"{y}"))


MAKERS: tuple[tuple[int, Maker], ...] = (
    (12, _send),
    (1, _send_to_all),
    (12, _settle),
    (5, _attach),
    (
        2,
        lambda w, x, y, z: c.OpenConnection(
            "stomp", f"p{x}", "guest", ("", "shop")[z % 2], room=(1 << 20, 300)[y % 2]
        ),
    ),
    (1, lambda w, x, y, z: c.RefuseConnection(reasons.AUTHENTICATION, "stomp", "p", "u", "no")),
    (1, _permit),
    (1, lambda w, x, y, z: c.CloseConnection(_connection(w, x), REASONS[y % 3])),
    (4, lambda w, x, y, z: c.Detach(_consumer(w, x), y % 4 == 0)),
    (1, lambda w, x, y, z: c.DeleteSubscription(("one", "two")[x % 2], _connection(w, y))),
    (2, lambda w, x, y, z: c.Begin(_connection(w, x), NAMES[y % 2])),
    (2, lambda w, x, y, z: c.Commit(_connection(w, x), NAMES[y % 2])),
    (1, lambda w, x, y, z: c.Rollback(_connection(w, x), NAMES[y % 2])),
    (1, lambda w, x, y, z: c.Credit(_consumer(w, x), y, z)),
    (1, lambda w, x, y, z: c.Room(_connection(w, x), 200 * y)),
    (1, lambda w, x, y, z: c.ExpireDue(1 + x)),
    (2, lambda w, x, y, z: c.DeliverDue(1 + x)),
    (1, _create_address),
    (2, _drop_unlisted),
    (1, lambda w, x, y, z: c.DeleteAddress(PLACES[x % 10], y % 2 == 0)),
    (1, _create_queue),
    (1, _create_divert),
    (1, lambda w, x, y, z: c.DeleteDivert(DIVERTS[x % 3])),
    (1, lambda w, x, y, z: c.DeleteQueue(QUEUES[x % 6], y % 2 == 0)),
    (1, lambda w, x, y, z: (c.PauseQueue, c.ResumeQueue)[y % 2](QUEUES[x % 2])),
    (1, lambda w, x, y, z: (c.PauseAddress, c.ResumeAddress)[y % 2](ADDRESSES[x % 2])),
    (2, _update_queue),
    (1, lambda w, x, y, z: c.UpdateAddress(PLACES[x % 10], (MULTICAST, ANYCAST)[y % 2 :])),
    (3, _act_on_messages),
    (1, _set_settings),
    (1, lambda w, x, y, z: c.RemoveSettings(LIVE[x % 3], (("max-delivery-attempts",), ())[y % 2])),
    (1, lambda w, x, y, z: c.ClearDuplicateIds(ADDRESSES[x % 7])),
    (3, lambda w, x, y, z: c.ResetGroups(QUEUES[x % 6], f"g{y % 3}" if z % 2 else "")),
    (1, lambda w, x, y, z: c.PurgeQueue((*QUEUES, *HISTORIES)[x % 10], limit=1 + z)),
    (1, lambda w, x, y, z: c.ForgetRetained(PLACES[x % 10])),
    (4, lambda w, x, y, z: c.ReleaseHeld(QUEUES[x % 2 * 2], limit=1 + z)),
    (2, lambda w, x, y, z: c.RetryHeld(1 + y)),
    (1, lambda w, x, y, z: c.DeleteUnused()),
    (1, _carry),
    (1, _note_removed),
    (1, _note_signed),
    (1, lambda w, x, y, z: c.Checkpoint(max(0, w.broker.lsn + 2 - x), f"{x}-{y}")),
    (2, lambda w, x, y, z: SETTINGS[(x + 21 * y) % len(SETTINGS)]),
    (1, lambda w, x, y, z: c.DeliverScheduled(QUEUES[x % 6], limit=1 + z)),
    (4, _attach_all),
    (1, lambda w, x, y, z: c.EndOwner(_connection(w, x), y % 3, z % 3)),
    (
        1,
        lambda w, x, y, z: c.CreateTemporary(
            _connection(w, x), _temporary(w, y), (ANYCAST, MULTICAST)[z % 2], y % 3, z % 3
        ),
    ),
    (3, lambda w, x, y, z: c.ChangeDistributions(TABLES[x % 4])),
    (5, _link),
    (4, _forward),
    (3, _conclude),
    (1, _leave),
    (2, lambda w, x, y, z: c.OpenConnection("amqp", "east", "", room=1 << 20, connector="east")),
    (4, _auto_link),
    (2, _distribute),
)
_WHEEL: tuple[Maker, ...] = tuple(maker for weight, maker in MAKERS for _ in range(weight))

RETENTION = frozenset(
    number for number, maker in enumerate(_WHEEL) if maker in (_carry, _note_removed)
)
"""The numbers of steps that only simulate retention; not for tests that remove segments."""

RESTART = len(_WHEEL)
"""The step number for a broker that is killed, or stopped, and started again."""

_small = st.integers(0, 20)
steps = st.lists(st.tuples(st.integers(0, RESTART), _small, _small, _small), max_size=40)


def play(world: World, scenario: list[Step], after: Callable[[], None] | None = None) -> None:
    """Execute the steps; a refused one must change nothing (except for ending a transaction)."""
    _connect(world)
    for number, x, y, z in scenario:
        world.now += (x + y) * SECOND // 1000
        if number == RESTART:
            if y % 2:
                world.ok(c.Stop())
            world.restart(0 if y % 2 else x)
            _connect(world)
        else:
            command = _WHEEL[number](world, x, y, z)
            is_there = (x + 2 * y + z) % 4 == 3
            _carry_out(world, moved(world.state, command) if is_there else command)
        if after is not None:
            after()


def _connect(world: World) -> None:
    """Connect a client of each virtual host."""
    world.connect()
    world.connect(host=OTHER)


def _carry_out(world: World, command: c.Command) -> None:
    before = world.broker.next_lsn
    answer = world.handle(command)
    if isinstance(answer, Refusal):
        assert answer.text
        assert world.broker.next_lsn == before or isinstance(command, c.Commit)
    else:
        assert answer == c.FORWARDED or 0 <= answer <= world.broker.lsn
    world.turn()
