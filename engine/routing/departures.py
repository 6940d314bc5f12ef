"""Deciding how a message leaves its queue for a dead letter address or an expiry address.

The entry leaves, and a copy with a new id, and headers that say where it came from, goes to the
target (fact sheet of Artemis, sections 4 and 5). Invariant: a message with a configured target
address is never dropped because no queue there takes it. It is held (ADR 25), unless
`dead-letter-policy` is DROP. Must never know how held messages are walked.
"""

from typing import Final

from daybook.engine.commands import Send
from daybook.engine.core.core import Core
from daybook.engine.entries import retroactive
from daybook.engine.entries.placement import route, select
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.details import Death
from daybook.engine.facts.own_headers import ACTUAL_EXPIRY
from daybook.engine.messages import deaths
from daybook.engine.messages.annotations import annotated, merged
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import UNREAD, Message
from daybook.engine.messages.origins import ORIGIN_PROPERTIES, origin, says_origin, shown
from daybook.engine.names import names
from daybook.engine.queues.consumer import consumer_of
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.routing import divert_decisions
from daybook.engine.routing.dead_letter_addresses import (
    PLAIN,
    Resources,
    for_dead_letters,
    for_expired,
    home,
)
from daybook.engine.routing.drops import basis_of
from daybook.engine.routing.duplicates import NOTICE_MICROSECONDS
from daybook.engine.routing.routing import forward
from daybook.engine.settings.expiry_rules import expires_of
from daybook.engine.settings.setting_keys import HOLD
from daybook.engine.state.diverts import Divert

MOVE_UNITS: Final = 12
"""The cost of a copy for another address, with its headers, in units of the budget."""


def is_used_up(core: Core, queue: Queue, delivery_count: int) -> bool:
    """Whether a message had its last attempt. In a dead letter address it has only if a setting is
    for that address alone, or if there is another one to go to."""
    return is_at_limit(core, queue, delivery_count) and not is_spared(core, queue)


def is_at_limit(core: Core, queue: Queue, delivery_count: int) -> bool:
    """Whether a message had as many attempts as settings allow, for whatever they are meant."""
    address = queue.address.name
    settings = core.state.settings.resolve(address)
    limit = settings.max_delivery_attempts
    return 0 < limit <= delivery_count and settings.dead_letter_address != address


def is_spared(core: Core, queue: Queue) -> bool:
    """Whether the limit of a queue is not meant for it: it is for dead letters, which have nowhere
    else to go, and only a match that is about other addresses too sets the limit."""
    settings = core.state.settings
    name = queue.address.name
    return not settings.resolve(name).dead_letter_address and settings.inherits_attempts(name)


def note_spared(core: Core, queue: Queue, delivery_count: int) -> None:
    """Tell the operator, now and then, that a dead letter fails again and again."""
    name = queue.address.name
    settings = core.state.settings.resolve(name)
    limit = settings.max_delivery_attempts
    if delivery_count != limit or core.now < queue.next_notice:
        return
    if settings.dead_letter_address == name or is_spared(core, queue):
        queue.next_notice = core.now + NOTICE_MICROSECONDS
        core.notices.append(
            f"a dead letter in queue '{queue.name}' failed {limit} times and is delivered again:"
            f" '{name}' is for dead letters, which have nowhere else to go. Set a"
            f" dead-letter-address for the match '{names.plain(name)}' that is another one, or"
            f" remove the message with `daybook queue remove {queue.name} --message ID`"
        )


def expiry_address(core: Core, queue: Queue, entry: Entry) -> str:
    """Return where an entry goes when its time has passed, empty for nowhere.

    It depends on the address that the message was sent to, if that still exists.
    """
    return core.state.settings.resolve(_sent_to(core, queue, entry.message).name).expiry_address


def _sent_to(core: Core, queue: Queue, message: Message) -> Address:
    """Return the address that a message was sent to, or if it does not exist, that of its queue."""
    return core.state.addresses.get(message.address_id, queue.address)


def expire(core: Core, queue: Queue, entry: Entry) -> None:
    """Take a ready or held entry out of its queue because its time has passed, or hold it."""
    if queue.definition.keeps:
        # The queues that have it as well do the rest.
        _leave(core, queue, entry, kind=events.EXPIRED, reason=reasons.HISTORY)
        return
    target = expiry_address(core, queue, entry)
    why = ""
    if target:
        sent_to = _sent_to(core, queue, entry.message)
        resources = for_expired(core.state.settings.resolve(sent_to.name))
        death = death_of(core, queue, entry, reasons.EXPIRY)
        why = _move_out(core, queue, entry, target, resources, death, kind=events.EXPIRED)
    else:
        # Without an expiry address, expiry ends the message.
        _leave(core, queue, entry, kind=events.EXPIRED, reason=reasons.NO_EXPIRY_ADDRESS)
    if why and not entry.held:
        hold(core, queue, entry, reasons.EXPIRY, why)


def dead_letter(
    core: Core,
    queue: Queue,
    entry: Entry,
    *,
    is_refused: bool = False,
    ended: int = reasons.NO_REASON,
    error: str = "",
    annotations: bytes = b"",
) -> str:
    """Take an entry out of its queue because its attempts are used up, or it was refused.

    `ended` is why its last delivery ended, `error` what the consumer said, and `annotations` are
    what it noted on the message, packed. If it has nowhere to go, nothing happens and the answer is
    the reason: the caller holds it. Otherwise the answer is empty. Raises ContentError; the entry
    is then where it was.
    """
    settings = core.state.settings.resolve(queue.address.name)
    target = settings.dead_letter_address
    if target:
        resources = for_dead_letters(settings)
        reason = reasons.REFUSED if is_refused else reasons.NO_REASON
        death = death_of(core, queue, entry, reason, ended=ended, error=error)
        return _move_out(
            core, queue, entry, target, resources, death, kind=events.DEAD_LETTERED, reason=reason,
            annotations=annotations,
        )  # fmt: skip
    if settings.dead_letter_policy == HOLD:
        return f"address '{queue.address.name}' has no dead-letter-address"
    reason = reasons.NO_DEAD_LETTER_ADDRESS
    _leave(core, queue, entry, kind=events.DEAD_LETTERED, reason=reason)
    return ""


def death_of(
    core: Core,
    queue: Queue,
    entry: Entry,
    reason: int,
    *,
    ended: int = reasons.NO_REASON,
    error: str = "",
) -> Death:
    """Return how an entry dies that leaves now: the reason is EXPIRY, or that of DeadLettered."""
    said = {reasons.EXPIRY: deaths.EXPIRED, reasons.REFUSED: deaths.REJECTED}
    consumer = consumer_of(entry)
    return deaths.death(
        said.get(reason, deaths.DELIVERY_LIMIT),
        _sent_to(core, queue, entry.message).name, queue.name, core.now,
        attempts=entry.delivery_count, ended=ended, error=error,
        consumer=consumer.id if consumer is not None else 0,
        user=consumer.connection.user if consumer is not None else "",
    )  # fmt: skip


def hold(core: Core, queue: Queue, entry: Entry, reason: int, why: str) -> int:
    """Set a ready entry aside; return the LSN of the event."""
    detail = events.encode_detail(details.HeldDetail(text=why))
    lsn = core.emit_of_entry(queue, entry, events.HELD, reason, detail=detail)
    if core.now >= queue.next_notice:
        queue.next_notice = core.now + NOTICE_MICROSECONDS
        core.notices.append(
            f"queue '{queue.name}' holds {queue.held_count} messages that cannot leave: "
            f"{why}. They leave when the address takes them; `daybook queue release {queue.name}` "
            "delivers them again, and `daybook queue purge` removes them"
        )
    return lsn


def _move_out(
    core: Core,
    queue: Queue,
    entry: Entry,
    target: str,
    resources: Resources,
    death: Death,
    *,
    kind: int,
    reason: int = reasons.NO_REASON,
    annotations: bytes = b"",
) -> str:
    """Move an entry to a target address, with more annotations; return why it must stay, empty if
    it left."""
    core.budget.spent += MOVE_UNITS
    message = entry.message
    if annotations:
        message = annotated(message, merged(message.annotations, annotations))
    copy = message
    routed = reasons.DEAD_LETTER if kind == events.DEAD_LETTERED else reasons.EXPIRY
    queues: list[Queue] = []
    histories: list[Queue] = []
    takers: tuple[Divert, ...] = ()
    address = home(core, target, _sent_to(core, queue, message).name, resources)
    if isinstance(address, Address):
        # Before the copy: its id is that of the event after the next.
        histories = retroactive.histories_for(core, address, None)
        copy = copy_for(core, queue, message, address, routed, death)
        takers = divert_decisions.taking(core, target, copy)
        if divert_decisions.is_taken(takers):
            address = _homes(core, takers, address)
            if isinstance(address, Address):
                # The id depends on the events since; `_homes` may have created queues.
                copy = copy_for(core, queue, message, address, routed, death)
        else:
            queues = select(core, address, None, copy)
    taken = isinstance(address, Address) and divert_decisions.is_taken(takers)
    if not taken and all(each.definition.temporary for each in queues):
        # A temporary subscription must not be the only place of messages that must not be lost.
        settings = core.state.settings.resolve(queue.address.name)
        if settings.dead_letter_policy == HOLD:
            refused = f"no queue of address '{target}' takes it"
            return address if isinstance(address, str) else refused
    if not (queues or taken):
        reason = reasons.UNROUTABLE
    related = copy.id if queues or taken else 0
    _leave(core, queue, entry, kind=kind, reason=reason, related=related)
    if queues:
        queues += histories
    if takers and isinstance(address, Address):
        _forward(core, copy, address, queues, takers, routed, message.id)
        return ""
    route(core, copy, queues, reason=routed, related=message.id)
    return ""


def _homes(core: Core, takers: tuple[Divert, ...], address: Address) -> Address | str:
    """Ensure that all targets of diverts have a queue that stays; return why one has not."""
    for name in core.diverts.reached(takers):
        found = home(core, name, "", PLAIN)
        if isinstance(found, str):
            return found
    return address


def _forward(
    core: Core,
    copy: Message,
    address: Address,
    queues: list[Queue],
    takers: tuple[Divert, ...],
    reason: int,
    related: int,
) -> None:
    """Route a copy that diverts of its address take, and their copies of it."""
    sent = Send(
        0, address.name, copy.headers, copy.body,
        priority=copy.priority, persistent=copy.persistent, expires=copy.expires,
        chunks=copy.chunks, body_bytes=copy.body_bytes if copy.chunks else 0,
        format=copy.flags & events.FORMAT, copied_from=related,
        diverts=tuple(divert.name for divert in takers), origin=copy.origin,
        annotations=copy.annotations,
    )  # fmt: skip
    if queues:
        route(core, copy, queues, reason=reason, related=related)
    else:
        divert_decisions.emit_diverted(core, sent, address, copy.flags, basis_of(sent))
    forward(core, sent, takers, copy.id)


def _leave(
    core: Core, queue: Queue, entry: Entry, *, kind: int, reason: int, related: int = 0
) -> None:
    """Emit the event that takes an entry out; the Routed of its copy must be the next one."""
    core.budget.spent += 1
    queue.make_resident(entry)
    core.emit_of_entry(queue, entry, kind, reason, related=related)


def copy_for(
    core: Core,
    queue: Queue,
    message: Message,
    address: Address,
    reason: int,
    death: Death | None = None,
) -> Message:
    """Return the copy of a message for a target address, whose Routed is the event after the
    next and has this reason; `death` is how it died, if it did."""
    if not message.resident:
        core.fill(message)
    before = deaths_of(core, message)
    past = origin(
        reason, _sent_to(core, queue, message).name, queue.name,
        message=message.id, routing_type=queue.definition.routing_type,
        deaths=before if death is None else deaths.counted(before, death),
    )  # fmt: skip
    said = shown(past) | deaths.shown(past.deaths)
    if reason == reasons.EXPIRY:
        said[ACTUAL_EXPIRY] = core.now // 1000
    headers = codec_of(message.flags).copied(message.headers, ORIGIN_PROPERTIES, said)
    # The event that takes the entry out comes first, so the copy is the event after it.
    copy_id = core.next_lsn + 1
    settings = core.state.settings.resolve(address.name)
    expires = expires_of(settings, 0, core.now // 1000)
    copy = Message(
        copy_id, address.id, message.priority, message.flags, expires, headers, message.body
    )
    if message.chunks:
        # Not copied: both refer to the same chunks.
        copy.enlarge(message.chunks, message.body_bytes)
    copy.origin = past
    return annotated(copy, message.annotations)


def deaths_of(core: Core, message: Message) -> tuple[Death, ...]:
    """Return how a message died before; its headers must be resident."""
    if message.origin is UNREAD and not says_origin(codec_of(message.flags), message.headers):
        # Reading the journal costs more than a look at the headers.
        return ()
    past = core.origin_of(message)
    return past.deaths if past is not None else ()
