"""Contradictions between links of the configuration and the rest of it.

A link that can never work is refused, and one that only looks wrong is a warning, with its line.
Must never know how a value is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from daybook.engine.facts.definitions import DistributionEntry, LinkRoute
from daybook.engine.names.names import plain
from daybook.engine.settings.distributions import Distributions, normal_form
from daybook.engine.settings.link_routes import LinkRoutes
from daybook.engine.settings.pattern_bits import ANY
from daybook.server.config_keys.acceptor_config import CONTAINER, AcceptorConfig
from daybook.server.config_keys.config_source import Block
from daybook.server.configuration.auto_link_config import Placed
from daybook.server.configuration.distribution_config import ENDS, Listed
from daybook.server.configuration.host_config import Problem

_QUEUE: Final = "queue.name"
_BOTH: Final = "links to it are passed on to another container, by [[link-route]]"


def check_passed_on(
    routes: Iterable[LinkRoute],
    listed: Iterable[Listed],
    links: Iterable[Placed],
    problem: Problem,
    warn: Problem,
) -> None:
    """Refuse queues and auto-links that no link reaches, as a route passes all of them on."""
    table = LinkRoutes(tuple(routes))
    for each in listed if table.routes else ():
        name = plain(each.address or each.name)
        by_in, by_out = (table.has(name, is_in=is_in) for is_in in (True, False))
        if each.what != _QUEUE or not (by_in or by_out):
            continue
        if by_in and by_out:
            text = f"queue {each.name!r} can have neither senders nor consumers: {_BOTH}"
            problem(each.where, f"{text}; use another name, or a narrower prefix or pattern there")
        else:
            who = "send to it" if by_in else "receive from it"
            way = "in" if by_in else "out"
            text = f"nobody can {who}: links to {name!r} are passed on to another container, by the"
            warn(each.where, f"queue {each.name!r}: {text} [[link-route]] with direction = {way!r}")
    seen: set[str] = set()
    for placed in links if table.routes else ():
        link = placed.link.link
        name = plain(link.address)
        if table.has(name, is_in=not link.is_out) and placed.block.where not in seen:
            seen.add(placed.block.where)
            kind = "sharded-queue" if "connectors" in placed.block.values else "auto-link"
            text = f"{kind}: it is refused at {name!r}, for {_BOTH}"
            problem(placed.block.where, f"{text}; use another name, or remove one of the two")


def warn_of_ends(routes: Iterable[LinkRoute], settings: Iterable[Block], warn: Problem) -> None:
    """Warn of dead letters and expired messages that nobody can receive."""
    table = LinkRoutes(tuple(routes))
    for block in settings if table.routes else ():
        for key in ENDS:
            given = block.values.get(key)
            if given is None or not given.value or not given.where:
                continue
            name = str(given.value)
            if table.has(name, is_in=False):
                warn(
                    given.where,
                    f"address-setting.{key} is {name!r}, and nobody can receive from there: {_BOTH}"
                    " with direction = 'out'; use another name",
                )


def warn_of_containers(
    routes: Mapping[LinkRoute, str],
    links: Iterable[Placed],
    acceptors: Iterable[AcceptorConfig],
    warn: Problem,
) -> None:
    """Warn of links to containers which connect, where no acceptor takes them."""
    if any(each.role == CONTAINER for each in acceptors):
        return
    found = [
        *((placed.block.where, "auto-link", placed.link.container) for placed in links),
        *((where, "link-route", route.container) for route, where in routes.items()),
    ]
    for where, kind, container in found:
        if container:
            warn(
                where,
                f"{kind}: it is for the container {container!r}, and no container can connect; set"
                f' role = "{CONTAINER}" in an [[acceptor]]',
            )


def warn_of_one_way(links: Sequence[Placed], table: Distributions, warn: Problem) -> None:
    """Warn of waypoints from which nothing comes back, or to which nothing goes."""
    ways: dict[str, set[bool]] = {}
    for placed in links:
        ways.setdefault(placed.link.link.address, set()).add(placed.link.link.is_out)
    for placed in links:
        address = placed.link.link.address
        if len(ways.pop(address, ())) != 1 or not table.find(plain(address)).waypoint:
            continue
        is_out = placed.link.link.is_out
        what = "what is sent goes away and never comes to consumers"
        if not is_out:
            what = "nobody may send, as nothing takes messages away"
        warn(
            placed.block.where,
            f"auto-link: the waypoint {plain(address)!r} has auto-links with direction ="
            f" {'out' if is_out else 'in'!r} alone: {what}; add one with direction ="
            f" {'in' if is_out else 'out'!r}, or remove waypoint",
        )


def warn_of_everything(routes: Mapping[LinkRoute, str], warn: Problem) -> None:
    """Warn of routes that pass on all links."""
    for route, where in routes.items():
        entry = DistributionEntry(prefix=route.prefix, pattern=route.pattern)
        if normal_form(entry) == (ANY,):
            shown = route.pattern or route.prefix
            who = "sends to" if route.is_in else "receives from"
            warn(
                where,
                f"link-route: {shown!r} matches every address, so nobody {who} an address of this"
                " broker; write a narrower prefix or pattern",
            )
