"""Deciding about diverts: creating and deleting them, and which of them take a message (ADR 47).

The copies are routed by `engine.routing.routing`, as messages of their own. Invariant: diverts
never lead in a circle, and make a bounded number of copies of a message; a divert that would is
refused. Must never know how a copy is routed.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from daybook.engine.commands import CreateDivert, DeleteDivert, Send
from daybook.engine.core import capacity, hosts
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.facts.own_headers import OWN_HEADERS
from daybook.engine.facts.rows import unpack_wide
from daybook.engine.messages.headers import is_of_applications
from daybook.engine.messages.message import Message
from daybook.engine.messages.origins import origin
from daybook.engine.names import names
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.diverts import COPIES_MAX, Divert

DIVERTS_MAX: Final = 10_000
TARGETS_MAX: Final = 100
PROPERTY_BYTES_MAX: Final = 4096
_OF_THE_BROKER: Final = frozenset(
    ("message-id", "subscription", "ack", "redelivered", "receipt", "transaction", *OWN_HEADERS)
)


def create_divert(core: Core, command: CreateDivert) -> int | Refusal:
    """Create a divert, or replace the one of this name."""
    syntax = core.state.settings.syntax
    wanted = msgspec.structs.replace(
        command.definition, syntax=syntax.of_names, configuration_managed=command.configured
    )
    wrong = wrong_with(wanted, syntax)
    if wrong is None and names.DIVIDER in hosts.local(core, wanted.address):
        wrong = f"address is '{wanted.address}': there is no such virtual host"
    if wrong is not None:
        return Refusal(Code.INVALID, f"divert '{wanted.name}': {wrong}")
    matcher = core.filters.compile(wanted.filter, core.now)
    if isinstance(matcher, Refusal):
        return matcher
    old = core.state.diverts.get(wanted.name)
    if old is not None and (old == wanted or not command.replaces):
        return Refusal(Code.ALREADY_EXISTS, f"divert '{wanted.name}' exists already")
    if old is None and len(core.state.diverts) >= DIVERTS_MAX:
        return Refusal(Code.LIMIT, f"there are {DIVERTS_MAX:,} diverts, and more are not possible")
    refusal = _check_paths(core, wanted, old)
    if refusal is not None:
        return refusal
    reason = reasons.CONFIGURATION if command.configured else reasons.ADMINISTRATION
    lsn = core.emit(
        events.row(events.DIVERT_CREATED, reason=reason, time=core.now),
        events.encode_detail(wanted),
    )
    capacity.guard_all(core)
    return lsn


def _check_paths(
    core: Core, wanted: DivertDefinition, old: DivertDefinition | None
) -> Refusal | None:
    """Put a divert in force, unless copies would come back to their divert or become too many."""
    if old is not None:
        core.diverts.remove(old.name)
    core.diverts.add(wanted)
    bad = core.diverts.too_many()
    if bad is None:
        return None
    core.diverts.remove(wanted.name)
    if old is not None:
        core.diverts.add(old)
    return Refusal(Code.NOT_ALLOWED, f"divert '{wanted.name}' {would_come_back(bad)}")


def would_come_back(bad: str) -> str:
    """Say, behind its name, why a divert is not possible beside the others; `bad` is one of them
    whose copies are too many."""
    return (
        f"would lead messages in a circle, or make more than {COPIES_MAX} copies of one (see divert"
        f" '{bad}'); forward to another address"
    )


def delete_divert(core: Core, command: DeleteDivert) -> int | Refusal:
    """Delete a divert."""
    if command.name not in core.state.diverts:
        return Refusal(Code.NOT_FOUND, f"there is no divert '{command.name}'")
    return remove_divert(core, command.name, reasons.ADMINISTRATION)


def remove_divert(core: Core, name: str, reason: int) -> int:
    """Delete a divert that exists; return the LSN of the event."""
    core.diverts.remove(name)
    lsn = core.emit(
        events.row(events.DIVERT_DELETED, reason=reason, time=core.now),
        events.encode_detail(details.DivertDeletedDetail(name=name)),
    )
    capacity.guard_all(core)
    return lsn


def wrong_with(definition: DivertDefinition, syntax: Syntax = DEFAULT) -> str | None:
    """Return the first fault in the definition of a divert, None if it has none."""
    return next((text for _, text in faults_of(definition, syntax)), None)


def faults_of(definition: DivertDefinition, syntax: Syntax = DEFAULT) -> Iterator[tuple[str, str]]:
    """Yield all that is wrong with the definition of a divert, each behind the field it is in."""
    wrong = names.wrong_with(names.plain(definition.name), syntax)
    if wrong:
        yield "name", f"the name is wrong: {wrong}"
    host = names.host_and_name(definition.address)[0]
    wrong = names.wrong_with_wildcards(names.plain(definition.address), syntax)
    if wrong:
        yield "address", f"address is '{definition.address}': {wrong}"
    elif names.host_and_name(definition.name)[0] != host:
        yield "address", f"address is '{definition.address}', which is on another virtual host"
    targets = definition.forwarding_addresses
    if not 0 < len(targets) <= TARGETS_MAX:
        yield "forwarding_addresses", f"it must have 1 to {TARGETS_MAX} forwarding addresses"
        targets = ()
    for target in targets:
        wrong = names.wrong_with(names.plain(target), syntax)
        if names.host_and_name(target)[0] != host:
            wrong = f"not on virtual host '{host}'"
            yield "forwarding_addresses", f"forwarding-addresses has '{target}', which is {wrong}"
        elif wrong:
            yield "forwarding_addresses", f"forwarding-addresses has '{target}': {wrong}"
    yield from _faults_of_properties(definition)


def _faults_of_properties(definition: DivertDefinition) -> Iterator[tuple[str, str]]:
    added, renamed = definition.add_properties, definition.rename_properties
    for field, pairs, place in (("add_properties", added, 0), ("rename_properties", renamed, 2)):
        for pair in pairs:
            parts = pair.partition("=")
            written = parts[place]
            if not parts[0] or not parts[1]:
                yield field, f"'{pair}' is not a pair; write NAME=VALUE, or OLD=NEW to rename"
            elif not written or not is_of_applications(written) or written in _OF_THE_BROKER:
                yield field, f"'{written}' is not a property that a divert can set"
    if any(
        names.length(text) > PROPERTY_BYTES_MAX
        for text in (*added, *renamed, *definition.remove_properties)
    ):
        yield "add_properties", f"a property is longer than {PROPERTY_BYTES_MAX:,} bytes"


def taking(core: Core, address: str, message: Message) -> tuple[Divert, ...]:
    """Return the diverts that take a message sent to an address.

    Exclusive ones if there are any: then the others, and the queues of the address, get nothing.
    """
    found = tuple(each for each in core.diverts.of(address) if _accepts(core, each, message))
    exclusive = tuple(each for each in found if each.definition.exclusive)
    return exclusive or found


def _accepts(core: Core, divert: Divert, message: Message) -> bool:
    text = divert.definition.filter
    if not text:
        return True
    if divert.matcher is None:
        divert.matcher = core.filters.now(text)
    return core.passes(divert.matcher, message)


def is_taken(takers: tuple[Divert, ...]) -> bool:
    """Whether a message goes to the targets of diverts only, not to queues of its address."""
    return bool(takers) and takers[0].definition.exclusive


def emit_diverted(
    core: Core,
    command: Send,
    address: Address,
    flags: int,
    basis: details.Basis,
    *,
    unrouted_at: int = 0,
) -> int:
    """Record a message that no queue of its address holds, because diverts took it.

    `unrouted_at` is the id of the address that it was sent to, if no queue there took it. Its
    copies have its content; the headers are here, too, as the filters of the diverts read them,
    unless `flags` say that they are not journaled.
    """
    detail = details.DivertedDetail(
        diverts=command.diverts, transaction=command.transaction or "", unrouted_at=unrouted_at,
        basis=basis, came_from=command.came_from,
    )  # fmt: skip
    headers = command.headers if not flags & events.BODY_OMITTED else b""
    flags &= ~events.BODY_OMITTED
    return core.emit(
        events.row(
            events.DIVERTED,
            reason=reasons.NO_ROUTE if unrouted_at else reasons.DIVERT,
            address=address.id, priority=command.priority, flags=flags, message=core.next_lsn,
            connection=command.connection, related=command.copied_from, time=core.now,
        ),
        events.encode_detail(detail),
        headers,
    )  # fmt: skip


def original_of(core: Core, first: int) -> int:
    """Return the id of the message that was decided since an LSN; if it was dropped, its event."""
    for lsn in range(first, core.next_lsn):
        row, _ = unpack_wide(core.pending.rows[lsn - core.pending.first_lsn])
        if row[events.MESSAGE] == lsn:
            return lsn
    return core.next_lsn - 1


def copies(command: Send, takers: tuple[Divert, ...], original: int) -> Iterator[Send]:
    """Return the copies of a message that diverts take, one for each forwarding address."""
    sent = command.routing_type
    for divert in takers:
        past = origin(
            reasons.DIVERT, command.address, divert.name, message=original, routing_type=sent,
            deaths=command.origin.deaths if command.origin is not None else (),
        )  # fmt: skip
        headers = divert.headers(command.format, command.headers, past)
        for target in divert.definition.forwarding_addresses:
            yield Send(
                command.connection, target, headers, command.body,
                routing_type=divert.routing_type(sent), priority=command.priority,
                persistent=command.persistent, expires=command.expires,
                transaction=command.transaction, chunks=command.chunks,
                body_bytes=command.body_bytes, format=command.format, due=command.due,
                copied_from=original, origin=past, annotations=command.annotations,
                link=command.link,
            )  # fmt: skip
