"""Choosing the queues of a message among those of its address, and putting it there.

Must never know who sent it, or whether there is room for it.
"""

from collections.abc import Container
from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.entries import last_values
from daybook.engine.entries.anycast_choice import next_anycast
from daybook.engine.entries.arrivals import let_enter
from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.state.no_local import ASKED_SHIFT, without_own

BINDINGS_SHIFT: Final = 4
"""Looking at bindings costs one unit of the budget for 2 to this power."""
LISTED_SHIFT: Final = 2
"""So does listing queues that a message enters later."""


def serves(address: Address, routing_type: str | None) -> bool:
    """Whether a message can be routed without creating anything."""
    if routing_type is None:
        return bool(address.anycast) or MULTICAST in address.definition.routing_types
    if routing_type == ANYCAST:
        return bool(address.anycast)
    return MULTICAST in address.definition.routing_types


def is_one_of_several(core: Core, queue: Queue) -> bool:
    """Whether others might get a message for the address of a queue, if its sender named none."""
    address = queue.address
    if core.diverts.count or core.wildcards.count or core.state.settings.keeps_history:
        return True
    return address.only_queue is not queue


def select(
    core: Core,
    address: Address,
    routing_type: str | None,
    message: Message,
    full: Container[Address] = (),
    sender: int = 0,
    asked: dict[str, bool] | None = None,
) -> list[Queue]:
    """Choose the queues that a message to the address goes to, none of those of `full`
    addresses. `sender` is the connection that sent it, 0 for a message that the broker made.

    Each filter is asked once, however many queues have it; `asked` has what some of them said.
    """
    chosen: list[Queue] = []
    if asked is None:
        asked = {}
    if routing_type != MULTICAST and address not in full:
        queue = next_anycast(core, address, message, asked)
        if queue is not None:
            chosen.append(queue)
    if routing_type != ANYCAST:
        for each in (address, *core.wildcards.of(address)):
            if each in full:
                continue
            core.budget.spent += len(each.multicast) >> BINDINGS_SHIFT
            for binding in each.multicast:
                if binding.takes_all or core.accepts(binding, message, asked):
                    chosen.append(binding.queue)
    if core.state.without_own and sender:
        core.budget.spent += len(chosen) >> ASKED_SHIFT
        chosen = without_own(core.state, chosen, sender)
    return chosen


def route(
    core: Core,
    message: Message,
    queues: list[Queue],
    *,
    reason: int,
    connection: int = 0,
    transaction: str | None = None,
    related: int = 0,
    due: int = 0,
    unrouted_at: int = 0,
    is_named: bool = False,
    in_slices: bool = False,
    came_from: str = "",
) -> int:
    """Put a message into the queues chosen, if there are any; return the LSN of Routed.

    `due` is the time to come before which it is not delivered: it is set aside there until then.
    `unrouted_at` is the id of the address that it was sent to, if no queue there took it.
    `is_named` and `came_from` are as in RoutedDetail. If there are many queues, it enters them
    `in_slices` where its sender can wait for that.
    """
    if not queues:
        return 0
    state = core.state
    several = tuple([queue.id for queue in queues]) if len(queues) > 1 else ()
    keys: dict[int, str] = {}
    if not due and state.keyed and any(queue.definition.keyed_by for queue in queues):
        keys = last_values.keys_of(message, queues)
    older = last_values.older_ones(core, keys) if keys else []
    detail = b""
    if (
        several or message.expires or transaction is not None or message.chunks or keys
        or unrouted_at or message.origin is not None or due or is_named or message.annotations
        or came_from
    ):  # fmt: skip
        detail = _detail(message, several, transaction, keys, unrouted_at, due, is_named, came_from)
    is_wide = in_slices and len(queues) > core.options.entered_at_once
    is_wide = is_wide and not (keys or message.chunks)
    if state.arrivals:
        let_enter(core, queues, but=message.address_id if is_wide else 0)
    state.defers = is_wide
    lsn = core.emit(
        (
            events.ROUTED, reason, 0, message.address_id, 0 if several else queues[0].id,
            message.priority, message.flags, message.id, 0, connection, related, core.now,
        ),
        detail, message.headers, message.body,
    )  # fmt: skip
    state.defers = False
    if is_wide:
        core.budget.spent += len(several) >> LISTED_SHIFT
    else:
        core.budget.spent += len(several)
        for queue in queues:
            core.touch(queue)
    if older:
        last_values.replace(core, older, lsn)
    return lsn


def _detail(
    message: Message,
    queues: tuple[int, ...],
    transaction: str | None,
    keys: dict[int, str],
    unrouted_at: int,
    due: int,
    is_named: bool,
    came_from: str,
) -> bytes:
    chunks = message.chunks
    return events.encode_detail(
        details.RoutedDetail(
            queues=queues,
            expires=message.expires,
            transaction=transaction or "",
            chunks=events.chunk_steps(chunks),
            body_bytes=message.body_bytes if chunks else 0,
            last_values=keys,
            unrouted_at=unrouted_at,
            origin=message.origin,
            due=due,
            named=is_named,
            annotations=message.annotations,
            came_from=came_from,
        )
    )
