"""Deciding about links of direct addresses: how they begin and end.

A name is direct or stored. What only a queue can do (a filter, browsing, a durable subscription) is
refused for a direct address, not ignored.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from msgspec.structs import replace

from daybook.engine.commands import Attach, AttachSender, ChangeDistributions
from daybook.engine.core import permission_checks
from daybook.engine.core.core import Core
from daybook.engine.direct.forwarding import entry_for, kind_of, unavailable
from daybook.engine.direct.serving import end, settle_receivers, withdraw
from daybook.engine.effects import Opened
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import PHASE_MAX, AutoLink, Distribution
from daybook.engine.links.links import (
    FALLBACK,
    IN_DOUBT,
    UNTRIED,
    DirectAddress,
    ReceivingLink,
    SendingLink,
)
from daybook.engine.names.names import DIVIDER, plain, wrong_with
from daybook.engine.refusals import Code, Refusal, bad_name
from daybook.engine.settings.distributions import UNAVAILABLE, Distributions
from daybook.engine.settings.link_routes import LinkRoutes
from daybook.engine.settings.permissions import CONSUME, SEND

ATTACH_UNITS = 5
"""The cost of a link, in units of the budget."""


def change_distributions(core: Core, command: ChangeDistributions) -> int:
    """Put another table in force, for addresses that come into use from now on. Groups go at once
    to the shards that it has."""
    known = core.direct.distributions
    asked = command.entries, command.default, command.waypoints
    link_routes = command.link_routes
    if (known.entries, known.default, known.waypoints, core.routed.table.routes) == (
        *asked, link_routes
    ):  # fmt: skip
        return 0
    core.routed.table = LinkRoutes(link_routes)
    core.direct.distributions = Distributions(*asked)
    core.direct.routes.clear()
    for waypoint in command.waypoints:
        used = core.direct.addresses.get(waypoint.name)
        if used is not None:
            used.follow(waypoint)
    detail = details.DistributionsDetail(*asked, link_routes)
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
    auto_link = command.auto_link
    is_fallback = auto_link is not None and auto_link.is_fallback
    return begin_sending(core, command, address, is_fallback=is_fallback)


def begin_sending(
    core: Core, command: AttachSender, address: DirectAddress | None, *, is_fallback: bool = False
) -> int:
    """Begin a link of a sender, at a phase of an address or without one; return its id."""
    connection = core.state.connections[command.connection]
    link = SendingLink(core.next_lsn, connection, command.link, address, is_fallback=is_fallback)
    link.receiver = command.receiver
    _record(core, link, "sender", command.name, command.auto_link)
    if address is not None:
        _tell(core, address, (link,))
    return link.id


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
    refused = refused or _check_auto_link(command.auto_link, entry)
    if refused is None and isinstance(command, Attach):
        refused = _check_wishes(command, entry)
    if refused is not None:
        return refused
    root = _address_of(core, name, entry)
    if isinstance(root, Refusal):
        return root
    return root.at(_phase_of(command, root.entry))


def _check_auto_link(link: AutoLink | None, entry: Distribution) -> Refusal | None:
    """Refuse an auto-link that the address cannot have."""
    if link is None:
        return None
    if not 0 <= link.phase <= PHASE_MAX:
        text = f"an address has phases from 0 to {PHASE_MAX}, and auto-link '{link.name}' has"
        return Refusal(Code.INVALID, f"{text} {link.phase}; give it another one")
    if link.is_fallback and not entry.enable_fallback:
        return Refusal(
            Code.NOT_ALLOWED,
            f"auto-link '{link.name}' has fallback, and '{plain(link.address)}' has none; say"
            " enable-fallback = true in its [[address]]",
        )
    return None


def _phase_of(command: Attach | AttachSender, entry: Distribution) -> int:
    """Return the phase at which a link is attached; FALLBACK for a receiver of what is left."""
    link = command.auto_link
    if isinstance(command, AttachSender):
        return link.phase if link is not None else 0
    if link is None:
        return entry.receiving_phase
    return FALLBACK if link.is_fallback else link.phase


def _address_of(core: Core, name: str, entry: Distribution) -> DirectAddress | Refusal:
    """Return a direct address at phase 0, which comes into use if it is not."""
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
    role: str,
    name: str,
    auto_link: AutoLink | None,
    *,
    traced: bool = False,
) -> None:
    address = link.address
    if address is not None:
        core.direct.addresses[address.name] = address.root
    core.direct.add(link)
    core.budget.spent += ATTACH_UNITS
    detail = details.LinkAttachedDetail(
        role=role, name=name, auto_link=auto_link.name if auto_link is not None else "",
        is_fallback=auto_link is not None and auto_link.is_fallback, traced=traced,
    )  # fmt: skip
    if address is not None:
        detail = replace(
            detail, address=address.name, distribution=address.distribution,
            phase=max(address.phase, 0),
        )  # fmt: skip
    if isinstance(link, ReceivingLink):
        detail = replace(detail, cost=link.cost, shard=link.shard)
    core.emit(
        events.row(
            events.LINK_ATTACHED, consumer=link.id, connection=link.connection_id, time=core.now
        ),
        events.encode_detail(detail),
    )  # fmt: skip


# ---- receivers


def attach_receiver(core: Core, command: Attach) -> int | Refusal | None:
    """Begin a link to receive by, if the address is a direct one; None if it is not."""
    address = _address_for(core, command, CONSUME)
    if address is None or isinstance(address, Refusal):
        return address
    connection, auto_link = core.state.connections[command.connection], command.auto_link
    cost, shard = (auto_link.cost, auto_link.shard) if auto_link is not None else (0, "")
    link = ReceivingLink(core.next_lsn, connection, address, cost, shard)
    if command.settles_by_message:
        core.direct.settle_by_message(link)
    link.subscription = command.subscription
    link.receiver = command.receiver
    link.acknowledges = command.acknowledges
    link.session = command.session
    link.credit_policy = command.credit_policy
    link.credit_messages = command.credit_messages
    link.credit_bytes = command.credit_bytes
    _record(core, link, "receiver", command.subscription, auto_link, traced=command.traced)
    if len(address.receivers) == 1:
        _note_reached(core, address)
    return link.id


def _check_wishes(command: Attach, entry: Distribution) -> Refusal | None:
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
    own = plain(command.address)
    remedy = "leave it out"
    if entry.has_shard:
        remedy = f"name that of this broker, {own}{DIVIDER}{own}"
    return Refusal(Code.NOT_ALLOWED, f"{kind_of(entry, own)}: {wished} needs a queue; {remedy}")


def _note_reached(core: Core, address: DirectAddress) -> None:
    """Note that somebody receives at a phase of an address, or nobody any more."""
    reached = address.root if address.phase == FALLBACK else address
    _tell(core, reached, reached.senders.values())
    if address.entry.stores_here:
        core.direct.changed[address.name] = None


def _tell(core: Core, address: DirectAddress, senders: Collection[SendingLink]) -> None:
    """Tell senders of an address that somebody receives from now on, or nobody any more."""
    core.budget.spent += len(senders)
    for sender in senders:
        is_open = address.is_open_to(sender)
        if is_open != sender.is_open:
            sender.is_open = is_open
            core.effects.append(Opened(sender, is_open))


# ---- the end


def detach(core: Core, link: SendingLink | ReceivingLink, reason: int) -> int:
    """End a link. Its deliveries are in doubt; messages that wait for it are released."""
    address = link.address
    if isinstance(link, ReceivingLink):
        link.detaching = True
        _end_deliveries(core, link, reason)
    else:
        for message, awaiting in link.to_settle.values():
            settle_receivers(core, message, awaiting)
        link.to_settle.clear()
    core.direct.remove(link)
    lsn = core.emit(
        events.row(
            events.LINK_DETACHED,
            reason=reason, consumer=link.id, connection=link.connection_id, time=core.now,
        )
    )  # fmt: skip
    if isinstance(link, ReceivingLink) and address is not None and not address.receivers:
        _note_reached(core, address)
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
