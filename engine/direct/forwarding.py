"""Forwarding messages that are sent to direct addresses (`engine.direct.choosing` says to whom).

Where nobody receives, the message is released: credit would have kept its sender from sending it
(12.1.1.1). One whose sender cannot hear of that is refused.
"""

from typing import Final

from daybook.engine.commands import FORWARDED, Send
from daybook.engine.core.core import Core
from daybook.engine.direct.choosing import choose, of_receivers
from daybook.engine.direct.serving import CONTENT, OFF, PACK, give
from daybook.engine.effects import Ended
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import Distribution, DistributionEntry
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.facts.rows import HEAD_STRUCT, TAKER_STRUCT
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
from daybook.engine.settings.distributions import UNAVAILABLE

LOOK_SHIFT: Final = 4
"""Looking for the entry of a name costs a unit of the budget, and one for 2 to this power of its
characters."""
DETAILS_MAX: Final = 64
"""How many encoded details an address remembers, for messages of as many sizes."""
FIRST_UNJOURNALED: Final = 1 << 47
"""The first id of messages that no event has."""


def entry_for(core: Core, name: str) -> Distribution | None:
    """Return the entry of the table for the name of an address; None if that is stored. One that
    is in use keeps its entry."""
    address = core.direct.addresses.get(name)
    if address is not None:
        return address.entry
    if not core.direct.distributions.is_used:
        return None
    known = core.direct.routes.get(name)
    if known is None:
        core.budget.spent += 1 + (len(name) >> LOOK_SHIFT)
        known = core.direct.distributions.of(name)
        core.direct.routes.remember(name, known)
    if known.is_stored or is_temporary(name):
        return None
    if name in core.state.address_by_name and not known.stores_here:
        # A name with a queue keeps it until its address is deleted.
        return None
    return known


def check_new(core: Core, name: str) -> Refusal | None:
    """Return why no address that stores messages may get a name: it is one of a direct address."""
    entry = entry_for(core, name) if core.direct.is_used else None
    if entry is None or entry.stores_here:
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
    entry: Distribution,
    attempt: int = 1,
    marks: int = 0,
    stored: int = 0,
) -> int | Refusal | None:
    """Give a message to receivers of a direct address; return None if the queue of its name, on
    this broker, is to have it. One that a queue has is `stored` there, with `attempt` and
    `marks`."""
    name = command.address
    if (
        command.transaction is not None or command.due or command.retain
        or entry.distribution == UNAVAILABLE
    ):  # fmt: skip
        return _check(command, entry)
    sender = core.direct.senders.get(command.sender) if command.sender else None
    if sender is not None and sender.connection_id != command.connection:
        sender = None
    address = sender.address if sender is not None else None
    if address is None or address.name != name:
        address = core.direct.addresses.get(name)
    shard = ""
    if address is not None and address.receivers and not address.is_sharded:
        chosen = of_receivers(address)
    else:
        choice = choose(core, command, entry, address, sender)
        if choice.stores:
            _note_stored(core, address)
            return None
        address, chosen, shard = choice.address, choice.receivers, choice.shard
    if address is None or not chosen:
        return _release(core, command, sender, shard)
    priority = entry.priority if entry.priority is not None else command.priority
    message = _message(core, command, priority)
    _record(core, command, message, chosen, address, shard, stored)
    hears = sender if command.token is not None else None
    forwarding = Forwarding(
        message, hears, command.token, len(chosen), attempt, marks, confirms=command.confirms
    )
    if len(chosen) > core.options.entered_at_once or address.copies:
        address.copies.append(Copies(forwarding, address.everybody()))
        core.direct.copying[address] = None
    else:
        for link in chosen:
            give(core, link, forwarding)
    return FORWARDED if hears is not None else 0


def _note_stored(core: Core, address: DirectAddress | None) -> None:
    """Let the queue be emptied again that gets a message, if receivers are there."""
    if address is not None and address.own_shard is not None:
        core.direct.changed[address.name] = None


def check_piece(core: Core, command: Send, entry: Distribution) -> Refusal | None:
    """Return why no piece of a large message is taken: its message would be refused, or the disk,
    which has its body until it is delivered, is full."""
    if core.room.disk_full:
        return Refusal(Code.LIMIT, core.room.disk_full)
    return _check(command, entry)


def _check(command: Send, entry: Distribution) -> Refusal | None:
    if entry.distribution == UNAVAILABLE:
        return unavailable(command.address)
    if command.transaction is not None:
        what = "its messages are in no transaction; send them outside"
    elif command.due:
        what = "it cannot delay a message; leave the delivery time out"
    elif command.retain:
        what = "it cannot retain a message"
    else:
        return None
    return Refusal(Code.NOT_ALLOWED, f"{kind_of(entry, command.address)}: {what}")


def kind_of(entry: DistributionEntry, name: str) -> str:
    """Return what an address is, for refusals of what only a queue can do."""
    if entry.waypoint:
        return f"'{plain(name)}' is a waypoint, whose messages pass through queues of other brokers"
    return f"'{plain(name)}' is a direct address, which stores nothing"


def _message(core: Core, command: Send, priority: int) -> Message:
    flags = command.format | (PERSISTENT if command.persistent else 0)
    number = core.next_lsn
    if core.options.journal_direct == OFF:
        # No event has it.
        number = max(core.direct.unjournaled + 1, FIRST_UNJOURNALED)
        core.direct.unjournaled = number
    message = Message(number, 0, priority, flags, command.expires, command.headers, command.body)
    if command.chunks:
        message.flags |= events.LARGE
        message.enlarge(command.chunks, command.body_bytes)
    return annotated(message, command.annotations) if command.annotations else message


def _record(
    core: Core,
    command: Send,
    message: Message,
    chosen: tuple[ReceivingLink, ...],
    address: DirectAddress | None,
    shard: str,
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
    is_alike = not (command.chunks or command.came_from or shard)
    known = address.details if address is not None and is_alike else None
    key = omitted << 1 | settled
    if stored:
        # That of the link which empties the queue is part of it.
        key |= command.sender << 64
    detail = known.get(key, b"") if known is not None else b""
    if not detail:
        detail = events.encode_detail(
            details.ForwardedDetail(
                command.address, tuple(link.id for link in chosen) if len(chosen) > 1 else (),
                settled, events.chunk_steps(command.chunks),
                command.body_bytes if command.chunks else 0, command.came_from, omitted,
                command.sender if stored else 0, shard,
            )
        )  # fmt: skip
        if known is not None:
            if len(known) == DETAILS_MAX:
                known.clear()
            known[key] = detail
    headers, body = (message.headers, message.body) if mode == CONTENT else (b"", b"")
    related = stored or command.sender
    if len(chosen) == 1:
        only = chosen[0]
        head = only.forwarded_head.pack(0, 0, 0, 0, message.priority, flags)
        taken = only.packed_from(command.connection, related)
    else:
        reason = 0 if chosen else reasons.NO_RECEIVERS
        head = HEAD_STRUCT.pack(events.FORWARDED, reason, 0, 0, 0, message.priority, flags)
        taken = TAKER_STRUCT.pack(0, command.connection, related)
    core.emit_decision(
        PACK(head, message.id, taken, core.now, len(detail), len(headers), len(body)),
        detail, headers, body,
    )  # fmt: skip


def _release(core: Core, command: Send, sender: SendingLink | None, shard: str) -> int | Refusal:
    """Record that nobody got a message, and tell its sender."""
    if sender is None and shard:
        return Refusal(
            Code.NOT_FOUND,
            f"the shard '{shard}' of '{plain(command.address)}' is not there, and no other one may"
            " have messages of this group, whose order would be lost; send when it is back",
        )
    if sender is None:
        return Refusal(
            Code.NOT_FOUND,
            f"nobody receives from the direct address '{plain(command.address)}', which stores"
            " nothing; send when somebody does",
        )
    message = _message(core, command, command.priority)
    _record(core, command, message, (), None, shard)
    if command.token is None:
        return 0
    core.effects.append(Ended(sender, command.token, UNTRIED))
    return FORWARDED
