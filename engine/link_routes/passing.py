"""Deciding about link routes: which container gets a link, and what passes along it.

A link whose address a route matches is never one of this broker: with no container there it is
refused. Its peer needs the permission to send or to consume, as for the same address here.
Credit, messages and outcomes pass unchanged; the engine only counts their bytes as those of
deliveries, so that an end whose other one does not read waits. Must never know a frame.
"""

from typing import Any

from daybook.engine.commands import EndRoutedLink, HostLinks, Pass, RouteLink
from daybook.engine.core import permission_checks
from daybook.engine.core.core import Core
from daybook.engine.effects import Opened, Passed, RouteBegun, RouteEnded
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import LinkRoute
from daybook.engine.links.routed import Host, RoutedEnd, RoutedLink
from daybook.engine.names.names import plain
from daybook.engine.queues.consumer import Connection
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import CONSUME, SEND


def host_links(core: Core, command: HostLinks) -> int:
    """Note that a container takes links."""
    if command.connection in core.state.connections:
        core.routed.hosts[command.connection] = Host(command.receiver, command.connector)
    return 0


def route(core: Core, command: RouteLink) -> int | Refusal:
    """Pass a link on to a container; answer its id, or 0 if no route matches it."""
    routes = core.routed.table.find(plain(command.address), is_in=command.is_in)
    if not routes:
        return 0
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    permission = SEND if command.is_in else CONSUME
    refused = permission_checks.check(core, command.connection, permission, command.address)
    if refused is not None:
        return refused
    found = _choose(core, routes, connection)
    if found is None:
        wanted = ", ".join(sorted({each.connector or each.container for each in routes}))
        return Refusal(
            Code.NOT_FOUND,
            f"links to '{plain(command.address)}' are passed on to {wanted}, which is not"
            " connected; try again when it is",
        )
    chosen, there = found
    link = RoutedLink(core.next_lsn, command.address)
    link.near = RoutedEnd(link, connection, command.receiver)
    link.far = RoutedEnd(link, there, core.routed.hosts[there.id].receiver)
    core.routed.add(link)
    detail = details.LinkAttachedDetail(
        command.address, "sender" if command.is_in else "receiver", command.name,
        through=there.id,
    )  # fmt: skip
    core.emit(
        events.row(
            events.LINK_ATTACHED, consumer=link.id, connection=connection.id, time=core.now
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.effects.append(RouteBegun(link.far, chosen, command.asked))
    return link.id


def check_here(core: Core, address: str, *, is_in: bool) -> Refusal | None:
    """Refuse to use an address here whose links are passed on: its messages are elsewhere."""
    name = plain(address)
    if not name or not core.routed.table.has(name, is_in=is_in):
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"links to '{name}' are passed on to another container, and nothing of it is here; attach a"
        " link of AMQP to it",
    )


def _choose(
    core: Core, routes: tuple[LinkRoute, ...], near: Connection
) -> tuple[LinkRoute, Connection] | None:
    """Return a container that is there, in turn, and the route that leads to it."""
    found = []
    for number, host in core.routed.hosts.items():
        there = core.state.connections.get(number)
        if there is None or there is near or there.host != near.host or number in core.work.closing:
            continue
        for each in routes:
            if each.connector == host.connector and each.container in ("", there.client_id):
                found.append((each, there))
                break
    core.budget.spent += len(core.routed.hosts)
    if not found:
        return None
    core.routed.turn += 1
    return found[core.routed.turn % len(found)]


def pass_on(core: Core, command: Pass) -> int | Refusal:
    """Give the other end what one end says; refuse it while that has no room."""
    end = core.routed.end_of(command.link, command.connection)
    if end is None:
        return Refusal(Code.NOT_FOUND, f"link {command.link} has ended; attach it again")
    other = end.other
    if command.bytes:
        if other.connection.room <= 0:
            end.is_held = True
            return Refusal(Code.BLOCKED, "the other end has no room; wait until it has")
        other.connection.room -= command.bytes
    core.effects.append(Passed(other, command.what))
    return 0


def let_go(core: Core, connection: int) -> None:
    """Tell ends that a connection has room again."""
    for end in core.routed.held_by(connection):
        end.is_held = False
        core.effects.append(Opened(end, True))


def end_link(core: Core, command: EndRoutedLink) -> int:
    """End a link on behalf of one end; the other one gets the last word of it."""
    end = core.routed.end_of(command.link, command.connection)
    if end is not None:
        _end(core, end, command.what, reasons.CLOSED)
    return 0


def end_all(core: Core, connection: int, reason: int) -> bool:
    """End links of a connection, as far as the budget allows; return whether all have ended."""
    core.routed.hosts.pop(connection, None)
    while connection in core.routed.of_connection:
        link = next(iter(core.routed.of_connection[connection].values()))
        end = core.routed.end_of(link.id, connection)
        assert end is not None
        _end(core, end, None, reason)
        if core.budget.is_spent and connection in core.routed.of_connection:
            return False
    return True


def _end(core: Core, end: RoutedEnd, what: Any, reason: int) -> None:
    """End a link. The event has the connection at whose end it did: a reason is one of that."""
    core.budget.spent += 1
    core.routed.remove(end.link)
    core.emit(
        events.row(
            events.LINK_DETACHED,
            reason=reason, consumer=end.link.id, connection=end.connection_id,
            time=core.now,
        )
    )  # fmt: skip
    core.effects.append(RouteEnded(end.other, what))
