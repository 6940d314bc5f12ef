"""Views of a broker's state as plain data, for the control socket and the command line.

Reads a `State`, of a running broker or folded from a journal, without changing it. Every result is
bounded. Views of many objects work in slices (`server.process.slices`); objects deleted between two
slices are left out. This module must never know where the state comes from, nor its callers.
"""

import contextlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from daybook.engine.core.queue_names import find_queue
from daybook.engine.entries.retained_messages import retained_at
from daybook.engine.facts.definitions import Detail, DivertDefinition
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.content import view_of
from daybook.engine.messages.conversions import text_of
from daybook.engine.messages.headers import as_dict
from daybook.engine.messages.message import Filter, Message
from daybook.engine.names.names import host_and_name, plain, qualified
from daybook.engine.queues.consumer import Consumer, as_consumer
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.groups import Grouping
from daybook.engine.queues.level_scan import ask_for_oldest, entry_of, oldest_known, oldest_ready
from daybook.engine.queues.queue import PAST_ALL, Address, Queue, StoreError
from daybook.engine.refusals import Code, Refusal, no_address
from daybook.engine.routing.duplicates import remembered
from daybook.engine.settings.permissions import PERMISSIONS, Permissions, Right
from daybook.engine.state.state import State
from daybook.engine.topology.topology import check_address_name
from daybook.server.administration.walks import Walk
from daybook.server.process.ordered_lists import BY_NAME, Order, in_order, next_offset
from daybook.server.process.seen import Seen
from daybook.server.process.slices import ROW, SLICE, Slices, at_once, page_of, rows_of
from daybook.texts import counted

LIST_PAGE_MAX: Final = 1000
"""How many queues or addresses one page lists."""

QUEUES_NAMED_MAX: Final = 20
"""How many queues are listed with their address; there may be one for each subscriber."""

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000
OFFSET_MAX: Final = 1_000_000
"""The highest offset in a queue: skipping entries takes time in the broker."""

BODY_BYTES_MAX: Final = 64 * 1024
"""The rest of a body is not shown; `journal inspect --bodies` shows all of it."""

LOOKED_AT_MAX: Final = 10_000
"""At how many messages a page looks that a filter chooses from."""

READ_AT_ONCE: Final = 100
"""How many messages are read in a slice."""

PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A page ends early when its bodies and headers exceed this."""


OLDEST: Final = "oldest_ready"
"""The column with the ready message of a queue that entered it first."""
ASKED_AT_ONCE: Final = 100
"""For how many queues the store is asked in a slice which message of each is the oldest."""

_name_of: Final = attrgetter("name")
"""Faster than `name`, by which a queue and an address say the same."""
DEFAULT: Final = "default"
CONFIGURATION: Final = "configuration"
RUN_TIME: Final = "run time"
"""Where the value of a setting comes from."""


def nobody(address: str) -> int:
    """Return 0: the number of blocked producers if no broker runs."""
    return 0


def counting(state: State) -> Slices[dict[str, Any]]:
    """Count all kinds of objects, what is not delivered for now, and addresses that page.

    Messages that were added, acknowledged, dead-lettered and expired are those of the queues that
    exist, since each was created; messages that were delivered are those since the start. Dead
    letters that wait are all messages at dead letter addresses.
    """
    ready = held = scheduled = in_flight = withheld = paging = 0
    added = acknowledged = dead_lettered = expired = unrouted = 0
    queues = list(state.queues.values())
    for start in range(0, len(queues), SLICE):
        some = queues[start : start + SLICE]
        for queue in some:
            ready += queue.ready_count
            held += queue.held_count
            scheduled += queue.scheduled_count
            in_flight += queue.in_flight_count
            withheld += len(queue.withheld)
            added += queue.added
            acknowledged += queue.acknowledged
            dead_lettered += queue.dead_lettered
            expired += queue.expired
        yield len(some)
    addresses = list(state.addresses.values())
    for start in range(0, len(addresses), SLICE):
        each = addresses[start : start + SLICE]
        paging += sum(address.paging for address in each)
        unrouted += sum(address.unrouted for address in each)
        yield len(each)
    waiting = 0
    for address in (yield from dead_ends(state)):
        if state.settings.is_for_dead_letters(address.name):
            waiting += yield from _counting_messages(address)
    delivered = yield from counting_delivered(state)
    return {
        "connections": len(state.connections),
        "consumers": len(state.consumers),
        "addresses": len(state.addresses),
        "queues": len(state.queues),
        "messages_ready": ready,
        "messages_held": held,
        "messages_scheduled": scheduled,
        "messages_in_flight": in_flight,
        "messages_withheld": withheld,
        "messages_added": added,
        "messages_delivered": delivered,
        "messages_acknowledged": acknowledged,
        "messages_dead_lettered": dead_lettered,
        "dead_letters_waiting": waiting,
        "messages_expired": expired,
        "messages_unrouted": unrouted,
        "addresses_paging": paging,
    }


def dead_ends(state: State) -> Slices[list[Address]]:
    """Return the addresses to which some setting sends dead letters or expired messages, on each
    virtual host."""
    # Looked up by their names: settings name few addresses of many.
    targets = sorted(state.settings.targets())
    found: list[Address] = []
    for host in sorted(state.addresses_on):
        for start in range(0, len(targets), SLICE):
            some = targets[start : start + SLICE]
            there = (state.address_by_name.get(qualified(host, name)) for name in some)
            found += [address for address in there if address is not None]
            yield len(some)
    return found


def _counting_messages(address: Address) -> Slices[int]:
    """Count the messages in all queues of an address, which may be one for each other address."""
    queues, found = address.queues(), 0
    for start in range(0, len(queues), SLICE):
        some = queues[start : start + SLICE]
        found += sum(queue.message_count for queue in some)
        yield len(some)
    return found


def counting_delivered(state: State) -> Slices[int]:
    """Count the messages that were handed to consumers since the start, some of them again, and
    those that browsers were shown."""
    # Both at once: so the count never decreases when consumers leave between two slices.
    delivered, consumers = state.handed_before, list(state.consumers.values())
    for start in range(0, len(consumers), SLICE):
        some = consumers[start : start + SLICE]
        delivered += sum(consumer.handed for consumer in some)
        yield len(some)
    return delivered


_VOLATILE: Final = ("messages_withheld", "messages_delivered", "addresses_paging")
"""Counts that have no meaning without a broker."""


def without_broker(counted: dict[str, Any]) -> dict[str, Any]:
    """Return the counts that a state has without a broker."""
    return {key: count for key, count in counted.items() if key not in _VOLATILE}


def counts(state: State) -> dict[str, Any]:
    """Return the numbers of all kinds of objects."""
    return without_broker(at_once(counting(state)))


QUEUE_ORDERS: Final[dict[str, Callable[[Queue], int]]] = {
    "messages": attrgetter("message_count"), "ready": attrgetter("ready_count"),
    "held": attrgetter("held_count"), "scheduled": attrgetter("scheduled_count"),
    "in_flight": attrgetter("in_flight_count"), "consumers": lambda each: len(each.consumers),
    "bytes": attrgetter("bytes"), "added": attrgetter("added"),
    "acknowledged": attrgetter("acknowledged"), "dead_lettered": attrgetter("dead_lettered"),
    "expired": attrgetter("expired"), OLDEST: lambda each: _age(oldest_of(each)),
}  # fmt: skip
"""The columns by which queues are sorted, and the number in each."""
ADDRESS_ORDERS: Final[dict[str, Callable[[Address], int]]] = {
    "queues": lambda each: len(each.anycast) + len(each.multicast),
    "routed": attrgetter("routed"), "unrouted": attrgetter("unrouted"),
}  # fmt: skip
"""The columns by which addresses are sorted, and the number in each."""


def listing_addresses(
    state: State,
    seen: Seen[Address],
    queues: Seen[Queue],
    *,
    offset: int = 0,
    limit: int = LIST_PAGE_MAX,
    blocked: Callable[[str], int] = nobody,
    order: Order = BY_NAME,
) -> Slices[dict[str, Any]]:
    """A page of the addresses that are seen, in order, with their queues that are; `next_offset` is
    None on the last.

    `blocked` tells how many producers wait for an address.
    """
    there = () if order.objects() is not None else (yield from seen.all())
    page = yield from in_order(there, offset, limit, order, ADDRESS_ORDERS, _name_of, _name_of)
    rows, looked = [], 0
    for address in page.objects:
        count = len(address.anycast) + len(address.multicast)
        if looked and looked + ROW + count > SLICE:
            yield looked
            looked = 0
        if seen.has(address):
            bound = yield from queues.of(address.queues())
            rows.append((yield from _address(state, address, blocked, bound)))
        looked += ROW + count % SLICE
    yield looked
    return page.answer("addresses", rows)


def address_named(
    state: State,
    name: str,
    queues: Seen[Queue],
    blocked: Callable[[str], int],
    wildcards: Callable[[Address], Iterable[Address]],
) -> Slices[dict[str, Any] | Refusal]:
    """The row of one address, with how its queues that are seen are bound to it, and those of
    wildcard addresses that get its messages, too."""
    address = state.address_by_name.get(name)
    if address is None:
        return no_address(plain(name))
    bound = yield from queues.of(address.queues())
    row = yield from _address(state, address, blocked, bound)
    others: list[dict[str, Any]] = []
    count = 0
    for other in wildcards(address):
        left = QUEUES_NAMED_MAX - len(others)
        if queues.is_everything:
            count += len(other.anycast) + len(other.multicast)
            theirs: Sequence[Queue] = other.queues() if left else ()
        else:
            theirs = yield from queues.of(other.queues())
            count += len(theirs)
        others += [{"address": other.name} | each for each in _bindings(theirs[:left])]
        yield ROW
    found = {
        "bindings": _bindings(bound[:QUEUES_NAMED_MAX]),
        "wildcard_bindings": others,
        "wildcard_queue_count": count,
    }
    return {"addresses": [row | found]}


def _bindings(bound: Sequence[Queue]) -> list[dict[str, Any]]:
    """Return how queues are bound to their address."""
    return [
        {"queue": queue.name}
        | {key: _attributes(queue.definition)[key] for key in ("routing_type", "filter")}
        for queue in bound
    ]


def addresses(state: State, *, offset: int = 0, limit: int = LIST_PAGE_MAX) -> dict[str, Any]:
    """A page of the addresses, at once."""
    seen, queues = Seen(state.addresses), Seen(state.queues)
    return at_once(listing_addresses(state, seen, queues, offset=offset, limit=limit))


def _address(
    state: State, address: Address, blocked: Callable[[str], int], bound: Sequence[Queue]
) -> Slices[dict[str, Any]]:
    """Return the row of an address with those of its queues that are seen."""
    size = messages = consumers = 0
    for start in range(0, len(bound), SLICE):
        some = bound[start : start + SLICE]
        for queue in some:
            consumers += len(queue.consumers)
            size += queue.bytes
            messages += queue.message_count
        if len(some) == SLICE:
            yield SLICE
    settings = state.settings.resolve(address.name)
    return {
        "address": address.name,
        **_attributes(address.definition),
        "queue_count": len(bound),
        "queues": [queue.name for queue in bound[:QUEUES_NAMED_MAX]],
        "messages": messages,
        "consumers": consumers,
        "bytes": size,
        "max_size_bytes": _limit(settings.max_size_bytes),
        "max_size_messages": _limit(settings.max_size_messages),
        "full_policy": settings.address_full_policy,
        "paging": address.paging,
        "routed": address.routed,
        "unrouted": address.unrouted,
        "remembered_ids": remembered(address),
        "retained": retained_at(state, address) or None,
        "blocked_producers": blocked(address.name),
    }


def _attributes(definition: Detail) -> dict[str, Any]:
    """All attributes but the name, which has its own column."""
    every: dict[str, Any] = _defaults(type(definition)) | msgspec.to_builtins(definition)
    del every["name"]
    return every


@cache
def _defaults(kind: type[Detail]) -> dict[str, Any]:
    """Return the default of each attribute, in their order."""
    return {field.name: field.default for field in fields(kind)}


def _limit(value: int) -> int | None:
    """A limit as it is shown: None if there is none."""
    return value if value >= 0 else None


def listing_queues(
    seen: Seen[Queue], *, offset: int = 0, limit: int = LIST_PAGE_MAX, order: Order = BY_NAME
) -> Slices[dict[str, Any]]:
    """A page of the queues that are seen, in order; `next_offset` is None on the last."""
    there: Sequence[Queue] = ()
    ages = None
    if order.objects() is None:
        there = yield from seen.all()
        if order.sort == OLDEST:
            ages = yield from _ages(there)
    page = yield from in_order(
        there, offset, limit, order, QUEUE_ORDERS, _name_of, _name_of, numbers=ages
    )
    rows = yield from rows_of(
        page.objects, lambda queue: _whole_queue(queue) if seen.has(queue) else {}
    )
    return page.answer("queues", rows)


def _ages(queues: Sequence[Queue]) -> Slices[list[int]]:
    """Return a number for each queue that is the larger the older its oldest message is; of some
    the store has to be asked."""
    ages: list[int] = []
    for start in range(0, len(queues), SLICE):
        some = queues[start : start + SLICE]
        known = list(map(oldest_known, some))
        yield SLICE
        asking = [place for place, oldest in enumerate(known) if oldest is None]
        for begin in range(0, len(asking), ASKED_AT_ONCE):
            places = asking[begin : begin + ASKED_AT_ONCE]
            for place, oldest in zip(
                places, oldest_of_each([some[each] for each in places]), strict=True
            ):
                known[place] = oldest
            yield SLICE
        ages += [PAST_ALL - oldest if oldest else 0 for oldest in known]
    return ages


def _age(oldest: int) -> int:
    """Return a number that is the larger the older a message is, 0 for none."""
    return PAST_ALL - oldest if oldest else 0


def oldest_of_each(queues: list[Queue]) -> list[int]:
    """Return what `oldest_of` does, of many queues at once."""
    # Where one of them cannot be read, each is asked for alone.
    with contextlib.suppress(StoreError):
        ask_for_oldest(queues)
    return list(map(oldest_of, queues))


def oldest_of(queue: Queue) -> int:
    """Return the ready message that entered a queue first; 0 for none, or if that is not known."""
    try:
        return oldest_ready(queue)
    except StoreError:
        return 0


def entered(queue: Queue, message_id: int) -> int | None:
    """Return when a message entered a queue, in milliseconds since 1970; None if that cannot be
    read, or is not durable yet."""
    if queue.store is None or not message_id:
        return None
    try:
        return queue.store.entered(message_id) // 1000
    except StoreError:
        return None


def _whole_queue(queue: Queue) -> dict[str, Any]:
    """Return the row of a queue, with what the store may have to be asked for."""
    oldest = oldest_of(queue)
    since = entered(queue, oldest)
    return _queue(queue) | {OLDEST: oldest or None, "oldest_ready_since": since}


def queue_named(state: State, name: str) -> dict[str, Any] | Refusal:
    """The row of one queue, with its id, and how many of its entries are in memory and how many are
    paged."""
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    more = {"id": queue.id, "resident": len(queue.entries), "paged": queue.paged_count}
    return {"queues": [_whole_queue(queue) | more]}


def every_queue(state: State) -> list[dict[str, Any]]:
    """The rows of all queues in order, without what the store would have to be asked for."""
    return [_queue(each) for each in sorted(state.queues.values(), key=attrgetter("name"))]


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "queue": queue.name,
        "address": queue.address.name,
        "host": queue.address.host,
        **_attributes(queue.definition),
        "paused": queue.paused,
        "waits_for_consumers": queue.waits_since > 0,
        "groups": len(queue.groups.bound) if queue.groups is not None else 0,
        "consumers": len(queue.consumers),
        "browsers": len(queue.browsers),
        "messages": queue.message_count,
        "bytes": queue.bytes,
        "paging": queue.address.paging,
        "ready": queue.ready_count,
        "withheld": len(queue.withheld),
        "held": queue.held_count,
        "scheduled": queue.scheduled_count,
        "in_flight": queue.in_flight_count,
        "added": queue.added,
        "acknowledged": queue.acknowledged,
        "dead_lettered": queue.dead_lettered,
        "replaced": queue.replaced,
        "evicted": queue.evicted,
        "recalled": queue.recalled,
        "waits_for_history": queue.recall is not None,
        "expired": queue.expired,
    }


def listing_diverts(state: State) -> Slices[dict[str, Any]]:
    """All diverts in order of their names."""
    there = state.diverts
    rows = yield from rows_of(
        sorted(there), lambda name: _divert(there[name]) if name in there else {}
    )
    return {"diverts": rows}


def _divert(definition: DivertDefinition) -> dict[str, Any]:
    row = {
        field: getattr(definition, field)
        for field in definition.__struct_fields__
        if field not in ("name", "syntax")
    }
    return {"divert": definition.name, **row}


def listing_groups(state: State, name: str, offset: int = 0) -> Slices[dict[str, Any] | Refusal]:
    """A page of the groups of a queue with their consumers, in the order in which they were bound;
    with `group-hashing` those that have messages in flight.

    A group without a place of its own is named by the place, a bucket by its number.
    """
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    found = queue.groups
    if found is None:
        return {"queue": queue.name, "groups": [], "next_offset": None}
    page, following = page_of(found.bound.items(), offset)
    rows = yield from rows_of(page, lambda each: _group(found, each[0], as_consumer(each[1])))
    return {"queue": queue.name, "groups": rows, "next_offset": following}


def _group(groups: Grouping, key: int, consumer: Consumer) -> dict[str, Any]:
    return {
        "group": groups.names.get(key, ""),
        "bucket": key if groups.buckets > 0 and key >= 0 else None,
        "shared_place": -1 - key if key < 0 else None,
        "consumer": consumer.id,
        "connection": consumer.connection_id,
        "user": consumer.connection.user,
        "peer": consumer.connection.peer,
    }


def rights(
    permissions: Permissions | None, user: str, address: str, queue: str | None, only: str = ""
) -> dict[str, Any]:
    """Return the permissions of a user there by the rules in force, and the source of each answer;
    `only` is the one that is asked for, if not all are.

    Without rules (None) it may do everything.
    """
    in_force = permissions if permissions is not None else Permissions({})
    asked = (only,) if only else PERMISSIONS
    found = [in_force.explain(user, name, address, queue) for name in asked]
    return {
        "user": user,
        "roles": sorted(in_force.roles_of(user)),
        "address": address,
        "queue": queue,
        "has_rules": bool(in_force.count),
        "permissions": [
            {
                "permission": each.permission,
                "allowed": each.allowed,
                "rules": list(each.matches),
                "by": each.by or None,
                "granted_to": list(_granted_to(in_force, each, address, queue)),
            }
            for each in found
        ],
    }


def _granted_to(
    in_force: Permissions, right: Right, address: str, queue: str | None
) -> tuple[str, ...]:
    """Return whom the rules give a permission: that rule alone which denies it to the user."""
    if right.allowed or len(right.matches) != 1:
        return in_force.holders(right.permission, address, queue)
    return dict(in_force.every_rule())[right.matches[0]].get(right.permission, ())


def right_in_words(answer: dict[str, Any], right: dict[str, Any]) -> str:
    """Return whether a user has a permission, and why, as a sentence."""
    user, permission = answer["user"], right["permission"]
    place = answer["address"]
    if answer["queue"] is not None:
        place = f"queue {answer['queue']} of {place}"
    if not answer.get("may_use_host", True):
        host = host_and_name(answer["address"])[0]
        return f"no: {user} may not use the virtual host {host}, whatever rules say"
    if not answer["has_rules"]:
        return f"yes: {user} has {permission} at {place}, as there are no rules"
    if not right["rules"]:
        return f"no: no rule covers {place}, so nobody has {permission} there"
    rules = f"rule{'s' * (len(right['rules']) > 1)} {', '.join(right['rules'])}"
    if right["allowed"]:
        return f"yes: {user} has {permission} at {place}, by the {rules}, as {right['by']}"
    holders = ", ".join(right["granted_to"]) or "nobody"
    return (
        f"no: {user} lacks {permission} at {place}; the {rules} decides, and grants it to {holders}"
    )


def settings(state: State, address: str) -> dict[str, Any] | Refusal:
    """The settings in force for an address, which need not exist, and where each comes from.

    A name that no address may have is refused.
    """
    exists = address in state.address_by_name
    wrong = None if exists else check_address_name(plain(address), (), state.settings.syntax)
    if wrong is not None:
        return wrong
    return {
        "address": address,
        "exists": exists,
        "settings": [
            {
                "key": key,
                "value": value,
                "match": match or None,
                "from": _origin(state, match, key),
            }
            for key, value, match in state.settings.explain(address)
        ],
    }


def _origin(state: State, match: str, key: str) -> str:
    """Return where the value of a key comes from."""
    if not match:
        return DEFAULT
    return RUN_TIME if state.settings.is_live(match, key) else CONFIGURATION


def no_beginning(message: Message) -> bytes:
    """Show only the length of a large message: for readers without a journal."""
    return b""


def no_piece(message: Message, number: int) -> bytes:
    """Show no piece of a large message: for readers without a journal."""
    return b""


def peek(
    state: State, name: str, message_id: int, number: int, piece: Callable[[Message, int], bytes]
) -> dict[str, Any] | Refusal:
    """One message of a queue, with its headers and their types, and a piece of its body.

    `piece` reads a piece of a large message. Raises StoreError, as it does and as the store does.
    """
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    entry = entry_of(queue, message_id)
    if entry is None:
        text = f"queue '{queue.name}' does not have message {message_id}"
        return Refusal(Code.NOT_FOUND, f"{text}; `journal trail {message_id}` says where it went")
    for found in with_content(state, [entry]):
        return _peeked(queue, found, number, piece)
    raise AssertionError("there is one entry")


def _peeked(
    queue: Queue, entry: Entry, number: int, piece: Callable[[Message, int], bytes]
) -> dict[str, Any] | Refusal:
    message = entry.message
    said = view_of(message)
    whole = b"" if message.chunks else said.plain_body
    length = message.body_bytes if message.chunks else len(whole)
    pieces = len(message.chunks) or max(1, -(-length // BODY_BYTES_MAX))
    if not 1 <= number <= pieces:
        return Refusal(Code.INVALID, f"the body has {counted(pieces, 'piece')}, and no {number:,}")
    begin = (number - 1) * BODY_BYTES_MAX
    data = piece(message, number - 1) if message.chunks else whole[begin : begin + BODY_BYTES_MAX]
    typed = said.typed()
    row = _entry(entry, data, length)
    row |= {
        "queue": queue.name,
        "entered": entered(queue, message.id),
        "piece": number,
        "pieces": pieces,
        "standard": {key: text_of(value) for key, value in typed.standard.items()},
        "properties": [
            {"name": key, "type": each.type, "value": text_of(each.value)}
            for key, each in typed.properties.items()
        ],
    }
    return row


def browse(
    state: State,
    name: str,
    *,
    offset: int = 0,
    limit: int = PAGE_DEFAULT,
    chosen_by: str = "",
    look_at: int = LOOKED_AT_MAX,
    beginning: Callable[[Message], bytes] = no_beginning,
) -> Slices[dict[str, Any] | Refusal]:
    """A page of the messages of a queue: in flight, ready in order of delivery, held, scheduled.

    With a filter it looks on until it has as many as the page may have, at `look_at` messages at
    most; so it may have none.

    `next_offset` is where the next page begins, None if this was the last. Changes between two
    requests move messages between pages. `beginning` reads the beginning of a large message. Raises
    StoreError, as it does and as the store of the state does.
    """
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    if not 0 <= offset <= OFFSET_MAX or not 1 <= limit <= PAGE_MAX:
        return Refusal(
            Code.INVALID,
            f"offset must be 0 to {OFFSET_MAX} and limit 1 to {PAGE_MAX}; "
            "`journal inspect` shows messages deeper in a queue",
        )
    matcher = matcher_of(state, chosen_by)
    if isinstance(matcher, Refusal):
        return matcher
    most = look_at if matcher is not None else limit
    rows: list[dict[str, Any]] = []
    size = looked = 0
    walk = Walk(queue)
    yield from walk.pass_over(offset, most)
    while looked < most and len(rows) < limit and size <= PAGE_BYTES_MAX:
        some = walk.some(min(most - looked, READ_AT_ONCE))
        if not some or state.queues.get(queue.id) is not queue:
            break
        for entry in with_content(state, some):
            looked += 1
            message = entry.message
            if matcher is not None and not matcher.matches(message):
                continue
            row = _row(entry, beginning)
            rows.append(row)
            size += len(message.headers) + min(row["body_bytes"], BODY_BYTES_MAX)
            if len(rows) == limit or size > PAGE_BYTES_MAX:
                break
        yield SLICE
    return {
        "queue": queue.name,
        "messages": rows,
        "offset": offset,
        "looked_at": looked,
        "in_queue": queue.message_count,
        "next_offset": next_offset(offset, looked, queue.message_count),
    }


def with_content(state: State, entries: list[Entry]) -> Iterator[Entry]:
    """Yield entries, each with the content of its message; content that the store had to read for
    that does not stay in memory. Raises StoreError."""
    for entry in entries:
        message = entry.message
        if message.resident or state.store is None:
            yield entry
            continue
        state.store.fill([message])
        try:
            yield entry
        finally:
            message.headers = message.body = b""
            message.resident = False


def _row(entry: Entry, beginning: Callable[[Message], bytes]) -> dict[str, Any]:
    message = entry.message
    whole = beginning(message) if message.chunks else view_of(message).plain_body
    length = message.body_bytes if message.chunks else len(whole)
    return _entry(entry, whole[:BODY_BYTES_MAX], length)


def matcher_of(state: State, text: str) -> Filter | Refusal | None:
    """Return the filter in a text, None for the empty one."""
    if not text:
        return None

    def name_of(number: int) -> str | None:
        address = state.addresses.get(number)
        return address.name if address is not None else None

    try:
        return compile_filter(text, name_of)
    except ValueError as error:
        return Refusal(Code.INVALID, f"the filter is wrong: {error}")


def _entry(entry: Entry, body: bytes, body_bytes: int) -> dict[str, Any]:
    said = view_of(entry.message)
    row: dict[str, Any] = {
        "message": said.message_id,
        "state": entry.place,
        "consumer": entry.consumer.id if entry.consumer is not None else None,
        "delivery_count": entry.delivery_count,
        "priority": said.priority,
        "persistent": said.persistent,
        "expires": said.expires or None,
        "due": entry.due or None,
        "headers": as_dict(said.lines()),
        "body_bytes": body_bytes,
        "truncated": body_bytes > len(body),
    }
    try:
        row["body"] = body.decode("utf-8")
    except UnicodeDecodeError:
        row["body_base64"] = b64encode(body).decode("ascii")
    return row
