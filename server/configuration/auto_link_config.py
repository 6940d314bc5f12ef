"""The auto-links and sharded queues of a configuration, and what follows from them for addresses.

A sharded queue is short for a waypoint, an auto-link out and in for each of its connectors, and a
queue of this broker. Must never know how links are attached, nor how messages are distributed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.facts.definitions import (
    LOCAL,
    UNAVAILABLE,
    AutoLink,
    DistributionEntry,
    Waypoint,
)
from daybook.engine.names.names import DIVIDER, HOST, host_and_name, plain, qualified
from daybook.engine.settings.distributions import (
    Distributions,
    faults_of,
    normal_form,
    shown_pattern,
)
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.connector_options import (
    AUTO_LINK,
    BY_DIRECTION,
    OUT,
    SHARDED_QUEUE,
)
from daybook.server.config_keys.option import Option
from daybook.server.configuration.connector_config import (
    ConnectorConfig,
    unknown_connector,
    wrong_peer,
)
from daybook.server.configuration.distribution_config import Listed
from daybook.server.configuration.host_config import Problem, host_in

CONSUMER_PHASE: Final = 1
"""The phase at which consumers of a waypoint receive; else it is that of senders, 0."""

OF_SHARDS: Final = ("address.name", "queue.name", "address-setting.match")
"""The keys that may name the address of a sharded queue, if it has a shard here."""


class AutoLinkConfig(msgspec.Struct, frozen=True):
    """One auto-link: on the connection of a connector, or on those of peers with a container id."""

    link: AutoLink
    connector: str = ""
    container: str = ""

    @property
    def peer(self) -> str:
        """Whom it leads to, for people."""
        return self.connector or self.container


class ShardedQueueConfig(msgspec.Struct, frozen=True):
    """One [[sharded-queue]], with its full name."""

    name: str
    connectors: tuple[str, ...]
    local: bool
    shard_by: str
    external_address: str


class Placed(NamedTuple):
    """An auto-link, and the block that it is from: [[auto-link]], or [[sharded-queue]]."""

    block: Block
    link: AutoLinkConfig
    has_phase: bool


Sharded = Sequence[tuple[Block, ShardedQueueConfig]]


class Found(NamedTuple):
    """The auto-links of a configuration, and their consequences for addresses."""

    auto_links: tuple[AutoLinkConfig, ...]
    sharded_queues: tuple[ShardedQueueConfig, ...]
    waypoints: tuple[Waypoint, ...]
    distributions: Distributions
    placed: tuple[Placed, ...]


class LinkReader:
    """Reads the blocks; `values` gives the values of one by field, None if one of them was
    refused; `check_name` reports the faults in the name of an address."""

    def __init__(
        self,
        connectors: Sequence[ConnectorConfig],
        hosts: set[str],
        values: Callable[[Block, tuple[Option, ...], str], dict[str, Any] | None],
        check_name: Callable[[Block, str, str], None],
        problem: Problem,
    ) -> None:
        self._connectors: Final = {each.name: each for each in connectors}
        self._hosts: Final = hosts
        self._values: Final = values
        self._check_name: Final = check_name
        self._problem: Final = problem

    def read(
        self, links: Sequence[Block], queues: Sequence[Block], distributions: Distributions
    ) -> Found:
        """Read [[auto-link]] and [[sharded-queue]]; `distributions` are those of [[address]]."""
        given = [each for block in links if (each := self._auto_link(block)) is not None]
        sharded = self._sharded_queues(queues)
        entries = _with_sharded(distributions, sharded, given, self._problem)
        made = [link for block, queue in sharded for link in self._links_of(block, queue)]
        placed = self._named([*_checked(given, entries, self._problem), *made])
        return Found(
            tuple(each.link for each in placed),
            tuple(queue for _, queue in sharded),
            _waypoints_of(given, sharded, entries),
            entries,
            tuple(placed),
        )

    # ---- auto-links

    def _auto_link(self, block: Block) -> Placed | None:
        row = self._values(block, AUTO_LINK, "auto-link.")
        if row is None:
            return None
        self._check_name(block, "auto-link.address", row["address"])
        connector, container = row["connector"], row["container"]
        wrong = wrong_peer(connector, container)
        if wrong:
            self._problem(_where(block, "container"), f"auto-link: {wrong}")
            return None
        named = (connector,) if connector else ()
        host = self._host_of(block, row, "auto-link", named, "connector")
        if host is None:
            return None
        is_out = row["direction"] == OUT
        phase, is_fallback = row["phase"], row["fallback"]
        has_phase = phase != BY_DIRECTION
        if not has_phase:
            phase = 0 if is_out or is_fallback else CONSUMER_PHASE
        link = AutoLink(
            name=row["name"],
            address=qualified(host, row["address"]),
            external=row["external_address"] or row["address"],
            is_out=is_out,
            phase=phase,
            is_fallback=is_fallback,
            cost=self._connectors[connector].cost if connector else 1,
        )
        return Placed(block, AutoLinkConfig(link, connector, container), has_phase)

    def _host_of(
        self, block: Block, row: dict[str, Any], what: str, connectors: Sequence[str], key: str
    ) -> str | None:
        """Return the virtual host of something on connections of connectors; None after an error.
        A connection is on one virtual host."""
        host = host_in(block, row, what, self._hosts, self._problem)
        if host and host not in self._hosts:
            return None
        for name in connectors:
            connector = self._connectors.get(name)
            if connector is None:
                text = unknown_connector(name, [*self._connectors])
                self._problem(_where(block, key), f"{what}.{key}: {text}")
                return None
            own = connector.virtual_host or HOST
            if (host or own) != own:
                text = f"connector {name!r} is on the virtual host {own!r}, and not on {host!r}"
                self._problem(_where(block, "virtual-host"), f"{what}.virtual-host: {text}")
                return None
            host = own
        return host or HOST

    def _named(self, found: Sequence[Placed]) -> list[Placed]:
        """Return auto-links with names; refuse names, and links, that come twice."""
        names: dict[str, str] = {}
        for each in found:
            name, where = each.link.link.name, _where(each.block, "name")
            if name and names.setdefault(name, where) != where:
                self._problem(where, f"auto-link.name {name!r} was used before, at {names[name]}")
        links: dict[AutoLinkConfig, str] = {}
        return [self._with_name(each, names, links) for each in found]

    def _with_name(
        self, each: Placed, names: dict[str, str], links: dict[AutoLinkConfig, str]
    ) -> Placed:
        at = links.setdefault(_renamed(each.link, ""), each.block.where)
        if at != each.block.where:
            self._problem(each.block.where, f"auto-link: it is the same as that at {at}")
        if each.link.link.name:
            return each
        name = _free_name(each.link, names)
        names[name] = each.block.where
        return each._replace(link=_renamed(each.link, name))

    # ---- sharded queues

    def _sharded_queues(self, blocks: Sequence[Block]) -> Sharded:
        found: list[tuple[Block, ShardedQueueConfig]] = []
        first: dict[str, str] = {}
        for block in blocks:
            queue = self._sharded_queue(block)
            if queue is None:
                continue
            where = _where(block, "name")
            if first.setdefault(queue.name, where) == where:
                found.append((block, queue))
            else:
                text = f"{plain(queue.name)!r} was used before, at {first[queue.name]}"
                self._problem(where, f"sharded-queue.name {text}")
        return found

    def _sharded_queue(self, block: Block) -> ShardedQueueConfig | None:
        row = self._values(block, SHARDED_QUEUE, "sharded-queue.")
        if row is None:
            return None
        name, connectors = row["name"], row["connectors"]
        self._check_name(block, "sharded-queue.name", name)
        if not connectors or len({*connectors}) < len(connectors):
            text = "names no connector; name those to the other brokers"
            if connectors:
                text = "names a connector twice; each has one shard"
            self._problem(_where(block, "connectors"), f"sharded-queue.connectors {text}")
            return None
        if LOCAL in connectors:
            self._problem(
                _where(block, "connectors"),
                f"sharded-queue.connectors names {LOCAL!r}, which is what the shard of this broker"
                " is called; give the connector another name",
            )
            return None
        host = self._host_of(block, row, "sharded-queue", connectors, "connectors")
        if host is None:
            return None
        external = row["external_address"] or f"{name}{DIVIDER}{name}"
        full = qualified(host, name)
        return ShardedQueueConfig(full, connectors, row["local"], row["shard_by"], external)

    def _links_of(self, block: Block, queue: ShardedQueueConfig) -> list[Placed]:
        """Return the auto-links of a sharded queue, without names."""
        return [
            Placed(block, AutoLinkConfig(
                AutoLink(
                    "", queue.name, queue.external_address, is_out, 0 if is_out else CONSUMER_PHASE,
                    cost=self._connectors[connector].cost, shard=connector if is_out else "",
                ),
                connector,
            ), has_phase=False)
            for connector in queue.connectors
            for is_out in (True, False)
        ]  # fmt: skip


def check_waypoints(
    waypoints: Sequence[Waypoint], listed: Sequence[Listed], problem: Problem
) -> None:
    """Ask that no queue of this broker is to have messages that pass through others, but the one
    that is a shard."""
    found = {each.name: each for each in waypoints}
    for each in listed:
        waypoint = found.get(each.name)
        if waypoint is None:
            continue
        if not waypoint.has_queue:
            problem(
                each.where,
                f"{each.what} is {each.name!r}, but messages to this address are stored by others:"
                " there are auto-links for it; remove them, or make it a [[sharded-queue]] with"
                " local = true",
            )
        elif each.what not in OF_SHARDS or each.address not in ("", each.name):
            problem(
                each.where,
                f"{each.what} is {each.name!r}, but messages to this address go to the shards of a"
                " [[sharded-queue]], of which the queue of this name, at the address of this name,"
                " is the only one here; use another name",
            )


def _waypoints_of(
    links: Sequence[Placed], queues: Sharded, entries: Distributions
) -> tuple[Waypoint, ...]:
    """Return the addresses whose messages pass through other containers, or are stored there while
    nobody receives."""
    found = {
        each.link.link.address: Waypoint(each.link.link.address)
        for each in links
        if each.link.link.is_fallback or entries.find(plain(each.link.link.address)).waypoint
    }
    found |= {
        queue.name: Waypoint(queue.name, queue.local, queue.shard_by, queue.connectors)
        for _, queue in queues
    }
    return tuple(found.values())


def _with_sharded(
    distributions: Distributions, queues: Sharded, links: Sequence[Placed], problem: Problem
) -> Distributions:
    """Return the distributions with a waypoint for each sharded queue; refuse what contradicts
    it."""
    added: dict[tuple[str, ...], DistributionEntry] = {}
    by_form = {normal_form(each): each for each in distributions.entries}
    linked = {each.link.link.address: each.block.where for each in reversed(links)}
    for block, queue in queues:
        where, own = _where(block, "name"), plain(queue.name)
        if queue.name in linked:
            problem(
                where,
                f"sharded-queue {own!r} makes auto-links of its own, and there is an [[auto-link]]"
                f" for its address at {linked[queue.name]}; remove one of them",
            )
        found = distributions.find(own)
        entry = DistributionEntry(pattern=own, waypoint=True, priority=found.priority)
        same = by_form.get(normal_form(entry))
        wrong = next((text for _, text in faults_of(entry)), "").replace("pattern", "name")
        if same is not None and not same.waypoint:
            wrong = (
                f"{own!r} is a waypoint, and the distribution of this address is"
                f" {same.distribution!r}, by [[address]] with {shown_pattern(same)[1]}; remove that"
                " entry, or use another name"
            )
        if wrong:
            problem(where, f"sharded-queue: {wrong}")
        elif not found.waypoint:
            added.setdefault(normal_form(entry), entry)
    return Distributions([*distributions.entries, *added.values()], distributions.default)


def _checked(links: Sequence[Placed], entries: Distributions, problem: Problem) -> list[Placed]:
    """Refuse auto-links that nobody would get anything by; return them with their phases, which an
    address that only stores messages has not."""
    checked = []
    phases: dict[tuple[str, bool], set[int]] = {}
    for each in links:
        link = each.link.link
        phases.setdefault((link.address, link.is_out), set()).add(link.phase)
    for each in links:
        link = each.link.link
        entry = entries.find(plain(link.address))
        if entry.distribution == UNAVAILABLE:
            text = f"auto-link: {plain(link.address)!r} is unavailable; use another address"
            problem(_where(each.block, "address"), text)
        elif entry.is_stored and not entry.waypoint:
            link = _stored(each, problem)
            _check_round(each, links, problem)
        elif link.is_fallback:
            _check_fallback(each, entry, problem)
        else:
            _check_phase(each, entry, phases, problem)
        checked.append(each._replace(link=msgspec.structs.replace(each.link, link=link)))
    return checked


def _stored(each: Placed, problem: Problem) -> AutoLink:
    """Check an auto-link between a queue of this broker and a peer, and return it."""
    link, own = each.link.link, plain(each.link.link.address)
    if link.is_fallback:
        text = f"auto-link: fallback is of no use at {own!r}, whose messages are all stored; remove"
        problem(_where(each.block, "fallback"), f"{text} it")
    elif each.has_phase and link.phase:
        text = f"auto-link: phase is {link.phase}, and {own!r} has none: it stores its messages"
        problem(_where(each.block, "phase"), f"{text} in a queue of this broker; remove it")
    return msgspec.structs.replace(link, phase=0)


def _check_round(each: Placed, links: Sequence[Placed], problem: Problem) -> None:
    """Refuse a link that brings back what another one has taken away."""
    link, own = each.link.link, plain(each.link.link.address)
    for other in links if not link.is_out else ():
        there = other.link.link
        if (
            there.is_out
            and (there.address, there.external) == (link.address, link.external)
            and other.link.peer == each.link.peer
        ):
            problem(
                each.block.where,
                f"auto-link: messages of {own!r} would go round, by this one and by that at"
                f" {other.block.where}; set waypoint = true in an [[address]] for it, or remove one"
                " of them",
            )
            return


def _check_fallback(each: Placed, entry: DistributionEntry, problem: Problem) -> None:
    link, own = each.link.link, plain(each.link.link.address)
    if entry.waypoint:
        text = f"fallback is of no use at the waypoint {own!r}, whose messages are all stored"
        problem(_where(each.block, "fallback"), f"auto-link: {text}; remove it")
    elif not entry.enable_fallback:
        text = f"{own!r} has no fallback; set enable-fallback = true in an [[address]] for it"
        problem(_where(each.block, "fallback"), f"auto-link: {text}")
    elif link.phase:
        text = f"phase is {link.phase}, and a fallback has phase 0; remove it"
        problem(_where(each.block, "phase"), f"auto-link: {text}")


def _check_phase(
    each: Placed,
    entry: DistributionEntry,
    phases: Mapping[tuple[str, bool], set[int]],
    problem: Problem,
) -> None:
    """Refuse a link to a phase at which nobody receives, and one from a phase at which nobody
    sends."""
    link, own = each.link.link, plain(each.link.link.address)
    consumers = CONSUMER_PHASE if entry.waypoint else 0
    meets = 0 if link.is_out else consumers
    if link.phase == meets or link.phase in phases.get((link.address, not link.is_out), ()):
        return
    who = "senders send" if link.is_out else "consumers receive"
    text = (
        f"auto-link: at phase {link.phase} of {own!r} nobody would"
        f" {'send anything to' if link.is_out else 'get anything from'} it: {who} at phase {meets}"
    )
    remedy = f"set phase = {meets}"
    if not link.is_out and not entry.waypoint and link.phase == CONSUMER_PHASE:
        remedy += ", or waypoint = true in an [[address]] for it"
    problem(_where(each.block, "phase"), f"{text}; {remedy}")


def _name_of(config: AutoLinkConfig) -> str:
    link = config.link
    host, own = host_and_name(link.address)
    place = own if host == HOST else f"{host}.{own}"
    parts = (place, OUT if link.is_out else "in", config.peer)
    return "-".join((*parts, "fallback") if link.is_fallback else parts).replace(" ", "_")


def _renamed(config: AutoLinkConfig, name: str) -> AutoLinkConfig:
    return msgspec.structs.replace(config, link=msgspec.structs.replace(config.link, name=name))


def _free_name(config: AutoLinkConfig, taken: Mapping[str, str]) -> str:
    first = name = _name_of(config)
    number = 2
    while name in taken:
        name, number = f"{first}-{number}", number + 1
    return name


def _where(block: Block, key: str) -> str:
    return block.values.get(key, block).where
