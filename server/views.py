"""Views of a broker's state as plain data, for the control socket and the command line.

Reads a `State`, of a running broker or folded from a journal, and changes nothing. Every result is
bounded. This module must never know where the state comes from, nor its callers.
"""

from base64 import b64encode
from collections.abc import Callable
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from daybook.engine.content import view_of
from daybook.engine.definitions import Detail
from daybook.engine.duplicates import remembered
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.headers import as_dict
from daybook.engine.message import Entry, Filter, Message
from daybook.engine.names import plain
from daybook.engine.queue_names import find_queue
from daybook.engine.queues import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.retaining import retained_at
from daybook.engine.sizes import size_of
from daybook.engine.state import State
from daybook.engine.topology import check_address_name

LIST_PAGE_MAX: Final = 1000
"""How many queues or addresses one page lists."""

QUEUES_NAMED_MAX: Final = 20
"""How many queues are listed with their address; there may be one for each subscriber."""

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000
OFFSET_MAX: Final = 1_000_000
"""The highest offset in a queue: skipping entries takes time in the broker."""

BODY_BYTES_MAX: Final = 64 * 1024
"""More of a body is not shown; `journal inspect --bodies` shows all of it."""

PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A page ends early when its bodies and headers exceed this."""


DEFAULT: Final = "default"
CONFIGURATION: Final = "configuration"
RUN_TIME: Final = "run time"
"""Where the value of a setting comes from."""


def nobody(address: str) -> int:
    """Return 0: the number of blocked producers if no broker runs."""
    return 0


def counts(state: State) -> dict[str, Any]:
    """Return the numbers of all kinds of objects."""
    queues = state.queues.values()
    return {
        "connections": len(state.connections),
        "consumers": len(state.consumers),
        "addresses": len(state.addresses),
        "queues": len(state.queues),
        "messages_ready": sum(queue.ready_count for queue in queues),
        "messages_held": sum(queue.held_count for queue in queues),
        "messages_scheduled": sum(queue.scheduled_count for queue in queues),
        "messages_in_flight": sum(queue.in_flight_count for queue in queues),
    }


def set_aside(state: State) -> dict[str, int]:
    """How many messages are not delivered for now, and how many addresses page."""
    return {
        "messages_withheld": sum(len(queue.withheld) for queue in state.queues.values()),
        "messages_held": sum(queue.held_count for queue in state.holding.values()),
        "addresses_paging": sum(address.paging for address in state.addresses.values()),
    }


def addresses(
    state: State,
    *,
    offset: int = 0,
    limit: int = LIST_PAGE_MAX,
    blocked: Callable[[str], int] = nobody,
) -> dict[str, Any]:
    """A page of the addresses in order of their names; `next_offset` is None on the last.

    `blocked` tells how many producers wait for an address.
    """
    found = sorted(state.addresses.values(), key=lambda each: each.name)
    rows = []
    for address in found[offset : offset + limit]:
        bound = address.queues()
        size, messages = size_of(address)
        settings = state.settings.resolve(address.name)
        rows.append(
            {
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
        )
    return {"addresses": rows, "next_offset": _next(offset, len(rows), len(found))}


def _attributes(definition: Detail) -> dict[str, Any]:
    """All attributes but the name, which has its place already."""
    found: dict[str, Any] = msgspec.to_builtins(definition)
    every = {field.name: found.get(field.name, field.default) for field in fields(definition)}
    del every["name"]
    return every


def _limit(value: int) -> int | None:
    """A limit as it is shown: None if there is none."""
    return value if value >= 0 else None


def queues(state: State, *, offset: int = 0, limit: int = LIST_PAGE_MAX) -> dict[str, Any]:
    """A page of the queues in order of their names; `next_offset` is None on the last."""
    found = sorted(state.queues.values(), key=lambda each: each.name)
    rows = [_queue(queue) for queue in found[offset : offset + limit]]
    return {"queues": rows, "next_offset": _next(offset, len(rows), len(found))}


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
    """A page of what is in a queue: in flight, ready in order of delivery, held, scheduled.

    With a filter the page has those of `limit` messages that the filter chooses, perhaps none.

    `next_offset` is where the next page begins, None if this was the last. What happens between two
    pages moves messages between them. `beginning` reads the beginning of a large message. Raises
    StoreError, as it does and as the store of the state does.
    """
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    if not 0 <= offset <= OFFSET_MAX or not 1 <= limit <= PAGE_MAX:
        return Refusal(
            Code.INVALID,
            f"offset must be 0 to {OFFSET_MAX} and limit 1 to {PAGE_MAX}; "
            "`journal inspect` shows what is deeper in a queue",
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
        body = (beginning(message) if message.chunks else message.body)[:BODY_BYTES_MAX]
        rows.append(_entry(entry, body))
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


def _entry(entry: Entry, body: bytes) -> dict[str, Any]:
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
        "body_bytes": said.body_bytes,
        "truncated": said.body_bytes > len(body),
    }
    try:
        row["body"] = body.decode("utf-8")
    except UnicodeDecodeError:
        row["body_base64"] = b64encode(body).decode("ascii")
    return row
