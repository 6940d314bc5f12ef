"""Deciding who gets a message that is sent to a direct address.

Where nobody receives, the message is released: credit would have kept its sender from sending it
(12.1.1.1). One whose sender cannot hear of that is refused. Rules: balanced by the load of
receivers, closest in turn (all are equally near), multicast to all.
"""

from typing import Final

from daybook.engine.commands import FORWARDED, Send
from daybook.engine.core.core import Core
from daybook.engine.direct.serving import CONTENT, OFF, give
from daybook.engine.effects import Ended
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.links.links import (
    UNTRIED,
    Copies,
    DirectAddress,
    Forwarding,
    ReceivingLink,
    SendingLink,
)
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.message import Message
from daybook.engine.names.names import is_temporary, plain
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.distributions import CLOSEST, MULTICAST, STORED, UNAVAILABLE

ROUTES_MAX: Final = 10_000
"""How many names are remembered with their distributions."""
DETAILS_MAX: Final = 64
"""How many encoded details an address remembers, for messages of as many sizes."""
FIRST_UNJOURNALED: Final = 1 << 47
"""The first id of messages that no event has."""


def entry_for(core: Core, name: str) -> DistributionEntry | None:
    """Return the entry of the table for the name of an address; None if that is stored. One that
    is in use keeps its entry."""
    address = core.direct.addresses.get(name)
    if address is not None:
        return address.entry
    if not core.direct.distributions.is_used:
        return None
    known = core.direct.routes.get(name)
    if known is None:
        if len(core.direct.routes) >= ROUTES_MAX:
            core.direct.routes.clear()
        core.budget.spent += 1
        known = core.direct.routes[name] = core.direct.distributions.find(plain(name))
    if known.distribution == STORED or known.waypoint or is_temporary(name):
        return None
    if name in core.state.address_by_name and not known.enable_fallback:
        # A name with a queue keeps it until its address is deleted.
        return None
    return known


def check_new(core: Core, name: str) -> Refusal | None:
    """Return why no address that stores messages may get a name: it is one of a direct address."""
    entry = entry_for(core, name) if core.direct.is_used else None
    if entry is None or entry.enable_fallback:
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"'{plain(name)}' is a direct address, as the configuration says, and has no queues; take"
        " another name, or the name out of its [[address]]",
    )


def unavailable(name: str) -> Refusal:
    """Return the answer for an address that nobody may use."""
    return Refusal(
        Code.NOT_FOUND, f"address '{name}' is unavailable: the configuration distributes nothing to"
        " it; choose another one",
    )  # fmt: skip


def forward(
    core: Core,
    command: Send,
    entry: DistributionEntry,
    attempt: int = 1,
    marks: int = 0,
    stored: int = 0,
) -> int | Refusal | None:
    """Give a message to receivers of a direct address; return None if nobody receives, and the
    address has a queue to fall back to. One that a queue has is `stored` there, with `attempt` and
    `marks`."""
    name = command.address
    if entry.distribution == UNAVAILABLE:
        return unavailable(name)
    refusal = _check(command)
    if refusal is not None:
        return refusal
    address = core.direct.addresses.get(name)
    sender = core.direct.senders.get(command.sender) if command.sender else None
    if sender is not None and sender.connection_id != command.connection:
        sender = None
    if address is None or not address.receivers:
        if entry.enable_fallback:
            return None
        return _release(core, command, sender)
    priority = entry.priority if entry.priority is not None else command.priority
    message = _message(core, command, priority)
    chosen = _choose(address)
    _record(core, command, message, chosen, address, stored)
    hears = sender if command.token is not None else None
    forwarding = Forwarding(message, hears, command.token, len(chosen), attempt, marks)
    if len(chosen) > core.options.entered_at_once or address.copies:
        address.copies.append(Copies(forwarding, address.everybody()))
        core.direct.copying[name] = address
    else:
        for link in chosen:
            give(core, link, forwarding)
    return FORWARDED if hears is not None else 0


def _check(command: Send) -> Refusal | None:
    if command.transaction is not None:
        what = "its messages are in no transaction; send them outside"
    elif command.due:
        what = "it cannot delay a message; leave the delivery time out"
    elif command.retain:
        what = "it cannot retain a message"
    else:
        return None
    text = f"'{plain(command.address)}' is a direct address, which stores nothing: {what}"
    return Refusal(Code.NOT_ALLOWED, text)


def _next_id(core: Core) -> int:
    """Return the id of the next message: the number of its event, if it has one."""
    if core.options.journal_direct != OFF:
        return core.next_lsn
    core.direct.unjournaled = max(core.direct.unjournaled + 1, FIRST_UNJOURNALED)
    return core.direct.unjournaled


def _message(core: Core, command: Send, priority: int) -> Message:
    flags = command.format | (PERSISTENT if command.persistent else 0)
    message = Message(
        _next_id(core), 0, priority, flags, command.expires, command.headers, command.body
    )
    if command.chunks:
        message.flags |= events.LARGE
        message.enlarge(command.chunks, command.body_bytes)
    return annotated(message, command.annotations) if command.annotations else message


def _choose(address: DirectAddress) -> tuple[ReceivingLink, ...]:
    if address.distribution == MULTICAST:
        return address.everybody()
    if address.distribution == CLOSEST:
        return (address.next_in_turn(),)
    return (address.least_loaded(),)


def _record(
    core: Core,
    command: Send,
    message: Message,
    chosen: tuple[ReceivingLink, ...],
    address: DirectAddress | None,
    stored: int = 0,
) -> None:
    """Record who got a message; without an address in use nobody did."""
    mode = core.options.journal_direct
    if mode == OFF:
        return
    flags, omitted = message.flags, 0
    if mode != CONTENT:
        omitted = len(message.headers) + len(message.body)
        if omitted:
            flags |= events.BODY_OMITTED
    settled = command.token is None
    is_alike = not (command.chunks or command.came_from or stored)
    known = address.details if address is not None and is_alike else None
    key = omitted << 1 | settled
    detail = known.get(key, b"") if known is not None else b""
    if not detail:
        detail = events.encode_detail(
            details.ForwardedDetail(
                command.address, tuple(link.id for link in chosen) if len(chosen) > 1 else (),
                settled, events.chunk_steps(command.chunks),
                command.body_bytes if command.chunks else 0, command.came_from, omitted,
                command.sender if stored else 0,
            )
        )  # fmt: skip
        if known is not None:
            if len(known) == DETAILS_MAX:
                known.clear()
            known[key] = detail
    core.emit(
        (
            events.FORWARDED, 0 if chosen else reasons.NO_RECEIVERS, 0, 0, 0, message.priority,
            flags, message.id, chosen[0].id if len(chosen) == 1 else 0, command.connection,
            stored or command.sender, core.now,
        ),
        detail, message.headers, message.body,
    )  # fmt: skip


def _release(core: Core, command: Send, sender: SendingLink | None) -> int | Refusal:
    """Record that nobody got a message, and tell its sender."""
    if sender is None:
        return Refusal(
            Code.NOT_FOUND,
            f"nobody receives from the direct address '{plain(command.address)}', which stores"
            " nothing; send when somebody does",
        )
    message = _message(core, command, command.priority)
    _record(core, command, message, (), None)
    if command.token is None:
        return 0
    core.effects.append(Ended(sender, command.token, UNTRIED))
    return FORWARDED
