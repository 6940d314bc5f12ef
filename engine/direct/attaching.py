"""Deciding about links of direct addresses: how they begin and end.

A name is direct or stored. What only a queue can do (a filter, browsing, a durable subscription) is
refused for a direct address, not ignored.
"""

from collections.abc import Iterable
from itertools import islice

from daybook.engine.commands import Attach, AttachSender, ChangeDistributions
from daybook.engine.core import permission_checks
from daybook.engine.core.core import Core
from daybook.engine.direct.forwarding import entry_for, unavailable
from daybook.engine.direct.serving import end, withdraw
from daybook.engine.effects import Opened
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.links.links import (
    IN_DOUBT,
    UNTRIED,
    DirectAddress,
    ReceivingLink,
    SendingLink,
)
from daybook.engine.names.names import plain, wrong_with
from daybook.engine.refusals import Code, Refusal, bad_name
from daybook.engine.settings.distributions import UNAVAILABLE, Distributions
from daybook.engine.settings.permissions import CONSUME, SEND

ATTACH_UNITS = 5
"""The cost of a link, in units of the budget."""


def change_distributions(core: Core, command: ChangeDistributions) -> int:
    """Put another table in force, for addresses that come into use from now on."""
    known = core.direct.distributions
    asked = command.entries, command.default, command.waypoints
    if (known.entries, known.default, known.waypoints) == asked:
        return 0
    core.direct.distributions = Distributions(*asked)
    core.direct.routes.clear()
    detail = details.DistributionsDetail(*asked)
    return core.emit(
        events.row(
            events.DISTRIBUTIONS_CHANGED, reason=reasons.CONFIGURATION, time=core.now
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def check_stored(core: Core, names: Iterable[str]) -> Refusal | None:
    """Refuse a direct address among several places of one command."""
    if not core.direct.is_used:
        return None
    for name in names:
        if entry_for(core, name) is not None:
            return Refusal(
                Code.NOT_ALLOWED,
                f"'{plain(name)}' is a direct address, and cannot be one of several; name it alone",
            )
    return None


# ---- senders


def attach_sender(core: Core, command: AttachSender) -> int | Refusal:
    """Begin a link to send by; answer its id, or 0 if nothing is to be known of it."""
    address = _address_for(core, command, SEND)
    if isinstance(address, Refusal):
        return address
    if not core.direct.is_used or (command.address and address is None):
        return 0
    link_id = core.next_lsn
    link = SendingLink(link_id, core.state.connections[command.connection], command.link, address)
    link.receiver = command.receiver
    _record(core, link, command.connection, "sender", command.address, command.name)
    if address is not None and (address.receivers or address.falls_back):
        core.effects.append(Opened(link, True))
    return link_id


def _address_for(
    core: Core, command: Attach | AttachSender, permission: str
) -> DirectAddress | Refusal | None:
    """Return the direct address that a new link names; None if it names another place, or none."""
    connection, name = command.connection, command.address
    if connection not in core.state.connections:
        return Refusal(Code.NOT_FOUND, f"there is no connection {connection}")
    entry = entry_for(core, name) if name and command.queue is None else None
    if entry is None:
        return None
    refused = permission_checks.check(core, connection, permission, name)
    if refused is None and isinstance(command, Attach):
        refused = _check_wishes(command)
    return refused if refused is not None else _address_of(core, name, entry)


def _address_of(core: Core, name: str, entry: DistributionEntry) -> DirectAddress | Refusal:
    """Return a direct address, which comes into use if it is not."""
    if entry.distribution == UNAVAILABLE:
        return unavailable(name)
    address = core.direct.addresses.get(name)
    if address is not None:
        return address
    own = plain(name)
    wrong = bad_name("an address", own, wrong_with(own, core.state.settings.syntax))
    return wrong if wrong is not None else DirectAddress(name, entry)


def _record(
    core: Core,
    link: SendingLink | ReceivingLink,
    connection: int,
    role: str,
    name: str,
    link_name: str,
) -> None:
    address = link.address
    if address is not None:
        core.direct.addresses[address.name] = address
    core.direct.add(link)
    core.budget.spent += ATTACH_UNITS
    detail = details.LinkAttachedDetail(
        name, role, link_name, address.distribution if address is not None else ""
    )
    core.emit(
        events.row(
            events.LINK_ATTACHED, consumer=link.id, connection=connection, time=core.now
        ),
        events.encode_detail(detail),
    )  # fmt: skip


# ---- receivers


def attach_receiver(core: Core, command: Attach) -> int | Refusal | None:
    """Begin a link to receive by, if the address is a direct one; None if it is not."""
    address = _address_for(core, command, CONSUME)
    if address is None or isinstance(address, Refusal):
        return address
    link_id = core.next_lsn
    link = ReceivingLink(link_id, core.state.connections[command.connection], address)
    if command.settles_by_message:
        core.direct.settle_by_message(link)
    link.subscription = command.subscription
    link.receiver = command.receiver
    link.acknowledges = command.acknowledges
    link.session = command.session
    link.credit_policy = command.credit_policy
    link.credit_messages = command.credit_messages
    link.credit_bytes = command.credit_bytes
    was_open = bool(address.receivers) or address.falls_back
    _record(core, link, command.connection, "receiver", command.address, command.subscription)
    if not was_open:
        _open(core, address, is_open=True)
    if address.falls_back:
        core.direct.changed[address.name] = None
    return link_id


def _check_wishes(command: Attach) -> Refusal | None:
    """Refuse what only a queue can do."""
    wishes = {
        "a durable subscription": command.durable_name is not None,
        "a filter": bool(command.filter),
        "browsing": command.browses,
        "no-local": command.no_local,
        "an exclusive consumer": command.exclusive,
        "a sequence number": command.from_sequence is not None,
        "history": command.after > 0 or command.since > 0,
        command.needs_queue: bool(command.needs_queue),
    }
    wished = next((wish for wish, is_wished in wishes.items() if is_wished), None)
    if wished is None:
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"'{plain(command.address)}' is a direct address, which stores nothing: {wished} needs a"
        " queue; leave it out",
    )


def _open(core: Core, address: DirectAddress, *, is_open: bool) -> None:
    """Tell the senders of an address that somebody receives, or nobody any more."""
    core.budget.spent += len(address.senders)
    for sender in address.senders.values():
        core.effects.append(Opened(sender, is_open))


# ---- the end


def detach(core: Core, link: SendingLink | ReceivingLink, reason: int) -> int:
    """End a link. Its deliveries are in doubt; messages that wait for it are released."""
    address = link.address
    if isinstance(link, ReceivingLink):
        link.detaching = True
        _end_deliveries(core, link, reason)
    core.direct.remove(link)
    lsn = core.emit(
        events.row(
            events.LINK_DETACHED,
            reason=reason, consumer=link.id, connection=link.connection_id, time=core.now,
        )
    )  # fmt: skip
    is_last = isinstance(link, ReceivingLink) and address is not None and not address.receivers
    if is_last and address is not None:
        if address.falls_back:
            core.direct.changed[address.name] = None
        else:
            _open(core, address, is_open=False)
    return lsn


def _end_deliveries(core: Core, link: ReceivingLink, reason: int) -> None:
    before = link.load
    core.budget.spent += before
    for number in list(link.outstanding):
        end(core, link, link.let_go(number), IN_DOUBT, reason)
    while link.waits:
        end(core, link, link.pop(), UNTRIED, reasons.NO_RECEIVERS)
    link.address.reload(link, before)
    if link.address.copies:
        withdraw(core, link)


def detach_all(core: Core, connection: int, reason: int) -> bool:
    """End links of a connection, as far as the budget allows; return whether all have ended."""
    while connection in core.direct.of_connection:
        links = core.direct.of_connection[connection]
        detach(core, next(islice(links.values(), 1)), reason)
        if core.budget.is_spent and connection in core.direct.of_connection:
            return False
    return True
