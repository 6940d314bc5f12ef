"""All connectors of a broker: a reload adds, changes and removes them; lists and figures show them.

A reload closes a connection only if the new values are those of another one, which is then opened.
Links, costs and delays change on the open connection, and what is on its way over a link has its
outcome before that link ends. Must never know how a connection is opened.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from daybook.engine.facts.definitions import LOCAL, AutoLink
from daybook.engine.names.names import HOST, host_and_name, plain
from daybook.protocols.port import ACTIVE, INACTIVE, AutoLinkRow
from daybook.server.config_keys.connector_options import IN, OUT
from daybook.server.configuration.auto_link_config import AutoLinkConfig, ShardedQueueConfig
from daybook.server.configuration.config import Config
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.connectors.connector import OPEN, Connector
from daybook.server.connectors.line import Surroundings
from daybook.server.monitoring.figures import ConnectorFigures

CHANGED: Final = "the configuration of the connector changed"
REMOVED: Final = "the connector was removed from the configuration"
NOT_OPEN: Final = "the connector is not open"
NOT_THERE: Final = "no container with this id is connected"


class Connectors:
    """The connectors, by name. Nothing is opened before `start`."""

    def __init__(self, around: Surroundings) -> None:
        self._around: Final = around
        self._by_name: Final[dict[str, Connector]] = {}
        self._leaving: Final[set[Connector]] = set()
        self._links: tuple[AutoLinkConfig, ...] = ()
        self._queues: tuple[ShardedQueueConfig, ...] = ()
        self._is_started = False

    def links_of(self, container: str) -> tuple[AutoLink, ...]:
        """Return the auto-links that are to be attached to a container that has connected."""
        return tuple(each.link for each in self._links if each.container == container)

    def start(self) -> None:
        """Open all connections."""
        self._is_started = True
        for connector in self._by_name.values():
            connector.start()

    def configure(self, config: Config) -> None:
        """Add, change and remove connectors."""
        self._links, self._queues = config.auto_links, config.sharded_queues
        wanted = {each.name: each for each in config.connectors}
        for name in self._by_name.keys() - wanted.keys():
            self._leave(self._by_name.pop(name), REMOVED, None)
        for name, each in wanted.items():
            links = tuple(link.link for link in config.auto_links if link.connector == name)
            known = self._by_name.get(name)
            if known is None:
                self._add(each, links)
            elif known.can_become(each):
                known.change(each, links)
            else:
                self._add(each, links, known)
        self._around.hub.renew_auto_links()

    def _add(
        self, config: ConnectorConfig, links: Sequence[AutoLink], former: Connector | None = None
    ) -> None:
        """Add a connector; one that takes the place of another begins when that is closed."""
        connector = Connector(config, links, self._around)
        self._by_name[config.name] = connector
        if former is not None:
            connector.take_counts(former)
            self._leave(former, CHANGED, connector)
        elif self._is_started:
            connector.start()

    def _leave(self, connector: Connector, what: str, following: Connector | None) -> None:
        self._leaving.add(connector)

        def closed() -> None:
            self._leaving.discard(connector)
            # Another reload may have changed it once more, or the broker stops.
            if (
                following is not None
                and self._is_started
                and self._by_name.get(following.config.name) is following
            ):
                following.start()

        connector.stop(what, closed)

    def tick(self) -> None:
        """Look at all of them; called ten times a second."""
        for connector in self._by_name.values():
            connector.tick()

    def stop(self) -> None:
        """Open nothing more; connections that are open stay until `close_all`."""
        self._is_started = False
        for connector in self._by_name.values():
            connector.pause()

    def close_all(self) -> None:
        """Close what is still connected."""
        for connector in (*self._by_name.values(), *self._leaving):
            connector.close()
        self._around.hangups.close()

    # ---- lists and figures

    @property
    def down(self) -> int:
        """How many are not open."""
        return sum(each.state != OPEN for each in self._by_name.values())

    def status(self) -> dict[str, Any]:
        """Return the part of the status about connectors."""
        return {"connectors": len(self._by_name), "connectors_down": self.down, **self.vitals()}

    def vitals(self) -> dict[str, Any]:
        """Return the part of it that health needs: those that have failed since they were open."""
        troubled = [
            {"connector": each.config.name, "why": each.why}
            for each in self._by_name.values()
            if each.why
        ]
        return {"connectors_in_trouble": troubled}

    def figures(self) -> list[ConnectorFigures]:
        """Return the figures of all connectors."""
        return [
            ConnectorFigures(each.config.name, each.state == OPEN, each.attempts, each.failures)
            for each in self._by_name.values()
        ]

    def link_states(self) -> list[str]:
        """Return the state of each auto-link on each of its connections."""
        return [row.state for _, row, _ in self._standings()]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each connector."""
        return [_row(each, self._around.now()) for each in self._by_name.values()]

    def link_rows(self, connector: str = "") -> list[dict[str, Any]]:
        """Return a row for each auto-link on each of its connections, those of a connector or of
        all."""
        return [
            _link_row(link, row, connection)
            for link, row, connection in self._standings()
            if connector in ("", link.connector)
        ]

    def shard_rows(self, name: str) -> list[dict[str, Any]] | None:
        """Return a row for each shard of a sharded queue, that of this broker first; None if it is
        none."""
        queue = next((each for each in self._queues if each.name == name), None)
        if queue is None:
            return None
        rows = {each: _shard_row(each, queue.external_address) for each in queue.connectors}
        for link, standing, _ in self._standings():
            if link.link.address == name and link.connector in rows:
                _add_link(rows[link.connector], standing)
        local = [_shard_row(LOCAL, name) | {"state": ACTIVE}] if queue.local else []
        return [*local, *rows.values()]

    def drain(self, name: str, shard: str, count: int, by: str) -> str:
        """Begin to move so many messages of the shard here to another one, for somebody; return why
        not, "" if it began."""
        queue = next((each for each in self._queues if each.name == name), None)
        if queue is None or shard not in queue.connectors:
            shards = ", ".join(queue.connectors) if queue is not None else "none"
            return f"it has no shard {shard!r} on another broker; those are {shards}"
        link = AutoLink(
            f"{plain(name)}-drain-{shard}, by {by}", name, queue.external_address, is_out=True,
            cost=self._by_name[shard].config.cost, queue=name, limit=count,
        )  # fmt: skip
        peer = self._by_name[shard].peer
        if peer is None:
            return f"connector {shard!r} is not open; see `daybook connectors`"
        if any(row.link.queue == name for row in peer.session.auto_links):
            return f"it is being drained to {shard!r} already; see `daybook auto-link list`"
        if count:
            self._around.hub.attach_link(peer.connection, link)
        return ""

    def _standings(self) -> Iterator[tuple[AutoLinkConfig, AutoLinkRow, int]]:
        """Yield each auto-link with its state, and the connection that it is on, 0 for none."""
        found: dict[AutoLink, list[tuple[AutoLinkRow, int]]] = {}
        for peer in self._around.hub.peers:
            for row in peer.session.auto_links:
                found.setdefault(row.link, []).append((row, peer.connection))
        for link in self._links:
            there = found.get(link.link)
            if there is None:
                why = NOT_OPEN if link.connector else NOT_THERE
                there = [(AutoLinkRow(link.link, INACTIVE, why), 0)]
            for row, connection in there:
                yield link, row, connection
        for drain, rows in found.items():
            if drain.limit:
                for row, connection in rows:
                    yield AutoLinkConfig(drain, self._connector_of(connection)), row, connection

    def _connector_of(self, connection: int) -> str:
        """Return the name of the connector that opened a connection."""
        return next(
            each.config.name
            for each in self._by_name.values()
            if each.peer is not None and each.peer.connection == connection
        )


def _row(connector: Connector, now: int) -> dict[str, Any]:
    config = connector.config
    peer = connector.peer
    states = [row.state for row in connector.rows]
    return {
        "connector": config.name,
        "url": config.url,
        "state": connector.state,
        "since_seconds": round(max(0, now - connector.since) / 1_000_000, 1),
        "why": connector.why,
        "next_try_seconds": round(connector.next_try_seconds, 1),
        "container": connector.container,
        "product": connector.product,
        "attempts": connector.attempts,
        "failures": connector.failures,
        "connection": peer.connection if peer is not None else None,
        "auto_links": len(connector.links),
        "active_links": states.count("active"),
        "host": config.virtual_host or HOST,
    }


def _shard_row(connector: str, external: str) -> dict[str, Any]:
    return {
        "shard": connector, "state": INACTIVE, "address": external, "waiting": None, "sent": 0,
        "unconfirmed": 0, "received": 0, "in_flight": 0, "why": "",
    }  # fmt: skip


def _add_link(row: dict[str, Any], standing: AutoLinkRow) -> None:
    """Add one of the two links of a shard; the state is that of the worse one."""
    if standing.link.is_out:
        row["sent"] += standing.total
        row["unconfirmed"] += standing.in_flight
    else:
        row["received"] += standing.total
        row["in_flight"] += standing.in_flight
        row["waiting"] = standing.available
    if row["state"] in (INACTIVE, ACTIVE):
        row["state"] = standing.state
    row["why"] = row["why"] or standing.why


def _link_row(link: AutoLinkConfig, row: AutoLinkRow, connection: int) -> dict[str, Any]:
    auto_link = link.link
    return {
        "auto_link": auto_link.name,
        "address": auto_link.address,
        "direction": OUT if auto_link.is_out else IN,
        "external_address": auto_link.external,
        "connector": link.connector,
        "container": link.container,
        "connection": connection or None,
        "state": row.state,
        "why": row.why,
        "messages": row.total,
        "phase": auto_link.phase,
        "fallback": auto_link.is_fallback,
        "host": host_and_name(auto_link.address)[0],
    }
