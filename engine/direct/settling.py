"""Deciding how a receiver of a direct address ends deliveries."""

from itertools import islice

from daybook.engine.commands import AcceptAll, Credit, Settle, SettleSent
from daybook.engine.core.core import Core
from daybook.engine.core.credit import grant
from daybook.engine.direct.serving import accept, end, serve, settle_receivers
from daybook.engine.facts.settlements import ACCEPTED, OUTCOMES
from daybook.engine.links.links import Ending, ReceivingLink
from daybook.engine.messages.annotations import ONE_BY_ONE, packed
from daybook.engine.refusals import Code, Refusal


def settle(core: Core, command: Settle, link: ReceivingLink) -> int | Refusal:
    """End a delivery, or all up to it; nothing has to be durable for that."""
    if command.transaction is not None:
        return Refusal(
            Code.NOT_ALLOWED,
            f"'{link.address.name}' is a direct address, and its messages are in no transaction;"
            " settle them outside",
        )
    if command.outcome not in OUTCOMES:
        return Refusal(Code.INVALID, f"there is no outcome {command.outcome}")
    refused = _check_annotations(command)
    if refused is not None:
        return refused
    outstanding = link.outstanding
    if command.message not in outstanding:
        return Refusal(
            Code.NOT_FOUND,
            f"message {command.message} is not in flight to '{link.subscription}'; it was settled"
            " before or never delivered to it",
        )
    chosen = [command.message]
    if command.cumulative:
        place = list(outstanding).index(command.message)
        chosen = list(islice(outstanding, place + 1))
        core.budget.spent += len(chosen)
    ending = Ending(
        command.outcome,
        command.error,
        command.condition,
        command.not_here,
        command.annotations,
        command.modified,
        command.info,
    )
    reason = OUTCOMES[command.outcome]
    before = link.load
    for number in chosen:
        forwarding = link.let_go(number)
        link.restore(forwarding.message)
        if command.awaits:
            forwarding.awaiting = forwarding.awaiting or []
            forwarding.awaiting.append(link)
        end(core, link, forwarding, ending, reason)
    link.address.reload(link, before)
    serve(core, link)
    return 0


def _check_annotations(command: Settle) -> Refusal | None:
    """Return why what a receiver notes on a message is refused, as by a queue."""
    if not command.annotations or command.outcome == ACCEPTED:
        return None
    if command.cumulative:
        return Refusal(Code.INVALID, ONE_BY_ONE)
    try:
        packed(command.annotations)
    except ValueError as error:
        return Refusal(
            Code.LIMIT, f"message {command.message} cannot pass on these annotations: {error}"
        )
    return None


def settle_sent(core: Core, command: SettleSent) -> None:
    """Settle a message whose end its sender has heard."""
    sender = core.direct.senders.get(command.sender)
    awaiting = sender.to_settle.pop(command.token, None) if sender is not None else None
    if awaiting is not None:
        settle_receivers(core, *awaiting)


def accept_all(core: Core, command: AcceptAll, link: ReceivingLink) -> int:
    """Accept deliveries; nothing has to be durable for that."""
    before = link.load
    # The first one is counted as a command.
    core.budget.spent += len(command.messages) - 1
    accept(core, link, command.messages)
    link.address.reload(link, before)
    serve(core, link)
    return 0


def credit(core: Core, command: Credit, link: ReceivingLink) -> int | Refusal:
    """Give a receiver more credit, or drain it: what waits for it comes first."""
    refusal = grant(link, command)
    if refusal is not None:
        return refusal
    link.drains = command.drains
    serve(core, link)
    return 0
