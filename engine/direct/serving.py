"""Handing messages to receivers of direct addresses, and the end of each delivery.

Invariants: a message ends once for each receiver that it was given to, and its sender hears once,
when all have ended it; only then a receiver hears that its sender has settled it; the load of a
receiver is what waits for it and what it has not settled.
"""

from collections.abc import Sequence
from typing import Any, Final

from daybook.engine.core.core import Core
from daybook.engine.core.credit import take_back
from daybook.engine.effects import Drained, Ended, Settled
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.rows import DECISION_STRUCT
from daybook.engine.facts.settlements import ACCEPTED, OUTCOMES
from daybook.engine.links.links import (
    CAPACITY,
    UNTRIED,
    Ending,
    Forwarding,
    ReceivingLink,
    SendingLink,
)
from daybook.engine.messages.deaths import CONDITION_LENGTH_MAX, ERROR_LENGTH_MAX

PACK: Final = DECISION_STRUCT.pack
DECISIONS: Final = "decisions"
CONTENT: Final = "content"
OFF: Final = "off"
ACCEPTANCE: Final = Ending(ACCEPTED)
"""The end of a delivery that was accepted without a word, or that went to a receiver that settles
nothing: it got it."""


def give(core: Core, link: ReceivingLink, forwarding: Forwarding) -> None:
    """Give a message to a receiver now, or when it has credit; or not at all if too much waits."""
    if forwarding.sender is None and link.load >= CAPACITY:
        _make_room(core, link)
    address = link.address
    if address.compares_loads:
        before = link.load
        _give(core, link, forwarding)
        address.reload(link, before)
    else:
        _give(core, link, forwarding)


def _give(core: Core, link: ReceivingLink, forwarding: Forwarding) -> None:
    link.charge(forwarding.message, 1)
    if not link.waits and link.can_take:
        _hand(core, link, forwarding)
    elif link.is_full:
        end(core, link, forwarding, UNTRIED, reasons.LIMIT)
    else:
        link.add(forwarding)


def _make_room(core: Core, link: ReceivingLink) -> None:
    """Drop what waits for a receiver that is behind, and has no sender to hear of it."""
    before = link.load
    for dropped in link.drop_unwanted():
        end(core, link, dropped, UNTRIED, reasons.LIMIT)
    link.address.reload(link, before)


def hand_out(core: Core) -> None:
    """Give messages to more of their very many receivers, the oldest of each address first, until
    the budget is spent."""
    copying = core.direct.copying
    for address in list(copying):
        while address.copies and not core.budget.is_spent:
            copies = address.copies[0]
            if copies.at == len(copies.receivers):
                address.copies.popleft()
                continue
            link = copies.receivers[copies.at]
            copies.at += 1
            core.budget.spent += 1
            if not link.detaching:
                give(core, link, copies.forwarding)
        if address.copies:
            # Behind those of other addresses.
            copying[address] = copying.pop(address)
            return
        del copying[address]


def withdraw(core: Core, link: ReceivingLink) -> None:
    """End what a receiver that leaves has not got of messages to very many."""
    for copies in link.address.copies:
        if copies.awaits(link):
            link.charge(copies.forwarding.message, 1)
            end(core, link, copies.forwarding, UNTRIED, reasons.NO_RECEIVERS)


def serve(core: Core, link: ReceivingLink) -> None:
    """Give a receiver what waits for it, as far as its credit goes; then a drain is over."""
    if link.waits and link.can_take:
        before = link.load
        while link.waits and link.can_take:
            _hand(core, link, link.pop())
        link.address.reload(link, before)
    if link.drains and not (link.waits and link.credit_messages > 0):
        link.drains = False
        left = take_back(link)
        core.effects.append(Drained(link, left, link.handed + link.drained))


def serve_connection(core: Core, connection: int) -> None:
    """Give the receivers of a connection what waits for them, the highest priority first."""
    for link in core.direct.receivers_of(connection):
        serve(core, link)


def _hand(core: Core, link: ReceivingLink, forwarding: Forwarding) -> None:
    message = forwarding.message
    if message.expires and message.is_expired(core.now):
        end(core, link, forwarding, UNTRIED, reasons.EXPIRY)
        return
    link.spend(message)
    core.budget.spent += 1
    # A message without an event has an id that no event gets, so nothing has to be durable.
    gate = core.early_gate(message) if core.options.journal_direct != OFF else 0
    core.effects.append((link, message, forwarding.attempt, forwarding.marks, gate))
    if link.acknowledges:
        link.hold(forwarding)
    else:
        end(core, link, forwarding, ACCEPTANCE, reasons.AUTOMATIC)


def end(
    core: Core, link: ReceivingLink, forwarding: Forwarding, ending: Ending, reason: int
) -> None:
    """End the delivery of a message to a receiver, and tell its sender if it was the last."""
    link.charge(forwarding.message, -1)
    if core.options.journal_direct != OFF:
        detail = b""
        if ending.error or ending.condition or ending.not_here:
            detail = events.encode_detail(
                details.ForwardSettledDetail(
                    ending.error[:ERROR_LENGTH_MAX],
                    ending.condition[:CONDITION_LENGTH_MAX],
                    ending.not_here,
                )
            )
        core.emit_decision(
            PACK(
                link.settled_head.pack(reason, 0, 0, 0, 0, 0), forwarding.message.id, link.packed,
                core.now, len(detail), 0, 0,
            ),
            detail,
        )  # fmt: skip
    if forwarding.end(ending, link.connection):
        _tell_sender(core, forwarding)


def accept(core: Core, link: ReceivingLink, numbers: Sequence[int]) -> None:
    """End the deliveries that a receiver accepted without a word more; it may have settled some of
    them. As `end`, with what is the same for all of them done once."""
    outstanding, connection, pending = link.outstanding, link.connection, core.pending
    is_journaled, reason = core.options.journal_direct != OFF, OUTCOMES[ACCEPTED]
    head, taken, weight = link.settled_head.pack(reason, 0, 0, 0, 0, 0), link.packed, 0
    for number in numbers:
        if number not in outstanding:
            continue
        forwarding = link.let_go(number)
        message = forwarding.message
        link.restore(message)
        weight += message.weight
        if is_journaled:
            core.next_lsn += 1
            pending.decisions += 1
            pending.rows.append(PACK(head, number, taken, core.now, 0, 0, 0))
        if forwarding.end(ACCEPTANCE, connection):
            _tell_sender(core, forwarding)
    connection.unacked_bytes -= weight
    connection.forwarded_bytes -= weight


def _tell_sender(core: Core, forwarding: Forwarding) -> None:
    """Tell the sender of a message its end. Receivers that await its settlement hear it then; at
    once, if nothing is to come."""
    sender, ending = forwarding.sender, forwarding.ending
    assert ending is not None
    if sender is not None and sender.id in core.direct.senders:
        if sender.connection_id == core.direct.connection:
            # The broker itself hears at once: its receivers may end with this very command.
            sender.receiver.ended(forwarding.token, ending, core.now)
        else:
            _tell(core, sender, forwarding.token, ending)
            if forwarding.awaiting and forwarding.confirms:
                awaiting = forwarding.message.id, forwarding.awaiting
                sender.to_settle[forwarding.token] = awaiting
                return
    if forwarding.awaiting:
        settle_receivers(core, forwarding.message.id, forwarding.awaiting)


def settle_receivers(core: Core, message: int, awaiting: list[ReceivingLink]) -> None:
    """Tell the receivers that await it that the sender of a message has settled it, or is gone."""
    core.budget.spent += len(awaiting)
    for link in awaiting:
        if link.id in core.direct.receivers:
            core.effects.append(Settled(link, (message,), reasons.BY_CONSUMER, 0))


def _tell(core: Core, sender: SendingLink, token: Any, ending: Ending) -> None:
    """Tell a sender how its message ended; in one effect with those before that ended alike."""
    last = core.effects[-1] if core.effects else None
    if isinstance(last, Ended) and last.consumer is sender and last.ending is ending:
        last.tokens.append(token)
    else:
        core.effects.append(Ended(sender, token, ending))
