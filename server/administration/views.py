"""Views of a broker's state as plain data, for the control socket and the command line.

Reads a `State`, of a running broker or folded from a journal, without changing it. Every result is
bounded. Views of many objects work in slices (`server.process.slices`); objects deleted between two
slices are left out. This module must never know where the state comes from, nor its callers.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from heapq import merge
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import fields

from daybook.engine.core.queue_names import find_queue
from daybook.engine.entries.retained_messages import retained_at
from daybook.engine.facts.definitions import Detail, DivertDefinition
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.content import view_of
from daybook.engine.messages.headers import as_dict
from daybook.engine.messages.message import Filter, Message
from daybook.engine.names.names import plain
from daybook.engine.queues.consumer import Consumer, as_consumer
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.groups import Grouping
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.refusals import Code, Refusal, no_address
from daybook.engine.routing.duplicates import remembered
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.engine.state.state import State
from daybook.engine.topology.topology import check_address_name
from daybook.server.process.slices import ROW, SLICE, Slices, at_once, page_of, rows_of

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

PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A page ends early when its bodies and headers exceed this."""


DEFAULT: Final = "default"
CONFIGURATION: Final = "configuration"
RUN_TIME: Final = "run time"
"""Where the value of a setting comes from."""


def nobody(address: str) -> int:
    """Return 0: the number of blocked producers if no broker runs."""
    return 0


Named = TypeVar("Named", Queue, Address)


def counting(state: State) -> Slices[dict[str, Any]]:
    """Count all kinds of objects, what is not delivered for now, and addresses that page.

    Messages that were added, acknowledged, dead-lettered and expired are those of the queues that
    exist, since each was created.
    """
    ready = held = scheduled = in_flight = withheld = paging = 0
    added = acknowledged = dead_lettered = expired = 0
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
        yield len(each)
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
        "messages_acknowledged": acknowledged,
        "messages_dead_lettered": dead_lettered,
        "messages_expired": expired,
        "addresses_paging": paging,
    }


_VOLATILE: Final = ("messages_withheld", "addresses_paging")
"""Counts that have no meaning without a broker."""


def without_broker(counted: dict[str, Any]) -> dict[str, Any]:
    """Return the counts that a state has without a broker."""
    return {key: count for key, count in counted.items() if key not in _VOLATILE}


def counts(state: State) -> dict[str, Any]:
    """Return the numbers of all kinds of objects."""
    return without_broker(at_once(counting(state)))


class Order(msgspec.Struct, frozen=True):
    """Which rows of a list are wanted, and in which order: those whose name contains `search`, by a
    column, or by name if it is empty."""

    search: str = ""
    sort: str = ""
    descending: bool = False


BY_NAME: Final = Order()
QUEUE_ORDERS: Final[dict[str, Callable[[Queue], int]]] = {
    "messages": attrgetter("message_count"), "ready": attrgetter("ready_count"),
    "held": attrgetter("held_count"), "scheduled": attrgetter("scheduled_count"),
    "in_flight": attrgetter("in_flight_count"), "consumers": lambda each: len(each.consumers),
    "bytes": attrgetter("bytes"), "added": attrgetter("added"),
    "acknowledged": attrgetter("acknowledged"), "dead_lettered": attrgetter("dead_lettered"),
    "expired": attrgetter("expired"),
}  # fmt: skip
"""The columns by which queues are sorted, and the number in each."""
ADDRESS_ORDERS: Final[dict[str, Callable[[Address], int]]] = {
    "queues": lambda each: len(each.anycast) + len(each.multicast),
    "routed": attrgetter("routed"), "unrouted": attrgetter("unrouted"),
}  # fmt: skip
"""The columns by which addresses are sorted, and the number in each."""


def _in_order(
    found: Iterable[Named],
    offset: int,
    limit: int,
    order: Order,
    orders: dict[str, Callable[[Named], int]],
) -> Slices[tuple[list[Named], int]]:
    """Return a page of objects in order, and how many there are in all: sorted in pieces, then
    merged. Each number is read once, whatever changes meanwhile."""
    every, search = list(found), order.search.casefold()
    number = orders.get(order.sort) or _no_number
    pieces, by = [], itemgetter(0, 1)
    for start in range(0, len(every), SLICE):
        some = every[start : start + SLICE]
        ranked = [
            (number(each), each.name, each)
            for each in some
            if not search or search in each.name.casefold()
        ]
        pieces.append(sorted(ranked, key=by, reverse=order.descending))
        yield len(some)
    total = sum(map(len, pieces))
    merged = merge(*pieces, key=by, reverse=order.descending)
    end = min(offset, total)
    for start in range(0, end, SLICE):
        passed = min(SLICE, end - start)
        next(islice(merged, passed - 1, passed))
        yield passed
    page = [each for _, _, each in islice(merged, limit)]
    yield len(page)
    return page, total


def _no_number(each: object) -> int:
    return 0


def listing_addresses(
    state: State,
    *,
    offset: int = 0,
    limit: int = LIST_PAGE_MAX,
    blocked: Callable[[str], int] = nobody,
    order: Order = BY_NAME,
) -> Slices[dict[str, Any]]:
    """A page of the addresses in order; `next_offset` is None on the last.

    `blocked` tells how many producers wait for an address.
    """
    there = state.addresses.values()
    page, total = yield from _in_order(there, offset, limit, order, ADDRESS_ORDERS)
    rows, looked = [], 0
    for address in page:
        count = len(address.anycast) + len(address.multicast)
        if looked and looked + ROW + count > SLICE:
            yield looked
            looked = 0
        if state.addresses.get(address.id) is address:
            rows.append((yield from _address(state, address, blocked)))
        looked += ROW + count % SLICE
    yield looked
    return {"addresses": rows, "total": total, "next_offset": _next(offset, len(page), total)}


def address_named(
    state: State, name: str, blocked: Callable[[str], int]
) -> Slices[dict[str, Any] | Refusal]:
    """The row of one address."""
    address = state.address_by_name.get(name)
    if address is None:
        return no_address(plain(name))
    return {"addresses": [(yield from _address(state, address, blocked))]}


def addresses(state: State, *, offset: int = 0, limit: int = LIST_PAGE_MAX) -> dict[str, Any]:
    """A page of the addresses, at once."""
    return at_once(listing_addresses(state, offset=offset, limit=limit))


def _address(
    state: State, address: Address, blocked: Callable[[str], int]
) -> Slices[dict[str, Any]]:
    bound = address.queues()
    size = messages = 0
    for start in range(0, len(bound), SLICE):
        some = bound[start : start + SLICE]
        size += sum(queue.bytes for queue in some)
        messages += sum(queue.message_count for queue in some)
        if len(some) == SLICE:
            yield SLICE
    settings = state.settings.resolve(address.name)
    return {
        "address": address.name,
        **_attributes(address.definition),
        "queue_count": len(bound),
        "queues": [queue.name for queue in bound[:QUEUES_NAMED_MAX]],
        "messages": messages,
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
    found: dict[str, Any] = msgspec.to_builtins(definition)
    every = {field.name: found.get(field.name, field.default) for field in fields(definition)}
    del every["name"]
    return every


def _limit(value: int) -> int | None:
    """A limit as it is shown: None if there is none."""
    return value if value >= 0 else None


def listing_queues(
    state: State, *, offset: int = 0, limit: int = LIST_PAGE_MAX, order: Order = BY_NAME
) -> Slices[dict[str, Any]]:
    """A page of the queues in order; `next_offset` is None on the last."""
    there = state.queues.values()
    page, total = yield from _in_order(there, offset, limit, order, QUEUE_ORDERS)
    rows = yield from rows_of(
        page, lambda queue: _queue(queue) if state.queues.get(queue.id) is queue else {}
    )
    return {"queues": rows, "total": total, "next_offset": _next(offset, len(page), total)}


def queue_named(state: State, name: str) -> dict[str, Any] | Refusal:
    """The row of one queue."""
    queue = find_queue(state, name)
    return queue if isinstance(queue, Refusal) else {"queues": [_queue(queue)]}


def queues(state: State, *, offset: int = 0, limit: int = LIST_PAGE_MAX) -> dict[str, Any]:
    """A page of the queues, at once."""
    return at_once(listing_queues(state, offset=offset, limit=limit))


def _next(offset: int, count: int, total: int) -> int | None:
    """Where the next page begins, None if there is none."""
    return offset + count if count and offset + count < total else None


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
    permissions: Permissions | None, user: str, address: str, queue: str | None
) -> dict[str, Any]:
    """Return the permissions of a user there by the rules in force, and the source of each answer.

    Without rules (None) it may do everything.
    """
    in_force = permissions if permissions is not None else Permissions({})
    found = [in_force.explain(user, name, address, queue) for name in PERMISSIONS]
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
                "granted_to": list(in_force.holders(each.permission, address, queue)),
            }
            for each in found
        ],
    }


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


def browse(
    state: State,
    name: str,
    *,
    offset: int = 0,
    limit: int = PAGE_DEFAULT,
    chosen_by: str = "",
    beginning: Callable[[Message], bytes] = no_beginning,
) -> dict[str, Any] | Refusal:
    """A page of the messages of a queue: in flight, ready in order of delivery, held, scheduled.

    With a filter the page has those of `limit` messages that the filter chooses, perhaps none.

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
    matcher = _matcher(state, chosen_by)
    if isinstance(matcher, Refusal):
        return matcher
    in_flight = (entry for consumer in queue.consumers for entry in consumer.unacked.values())
    rows: list[dict[str, Any]] = []
    size = looked = 0
    for entry in islice(chain(in_flight, queue.standing()), offset, offset + limit):
        looked += 1
        message = entry.message
        if not message.resident and state.store is not None:
            state.store.fill([message])
        if matcher is not None and not matcher.matches(message):
            continue
        whole = beginning(message) if message.chunks else view_of(message).plain_body
        body = whole[:BODY_BYTES_MAX]
        rows.append(_entry(entry, body, message.body_bytes if message.chunks else len(whole)))
        size += len(message.headers) + len(body)
        if size > PAGE_BYTES_MAX:
            break
    return {
        "queue": queue.name,
        "messages": rows,
        "offset": offset,
        "in_queue": queue.message_count,
        "next_offset": _next(offset, looked, queue.message_count),
    }


def _matcher(state: State, text: str) -> Filter | Refusal | None:
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
