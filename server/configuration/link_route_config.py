"""The link routes of a configuration: each [[link-route]], checked.

Must never know how links are passed on.
"""

from collections.abc import Callable, Sequence
from typing import Any

from daybook.engine.facts.definitions import DistributionEntry, LinkRoute
from daybook.engine.settings.distributions import faults_of
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.connector_options import IN, LINK_ROUTE
from daybook.server.config_keys.option import Option
from daybook.server.configuration.connector_config import (
    ConnectorConfig,
    unknown_connector,
    wrong_peer,
)
from daybook.server.configuration.host_config import Problem


def link_routes_of(
    blocks: Sequence[Block],
    connectors: Sequence[ConnectorConfig],
    values: Callable[[Block, tuple[Option, ...], str], dict[str, Any] | None],
    problem: Problem,
) -> dict[LinkRoute, str]:
    """Return the routes and their places; `values` gives the values of a block by field, None if
    one of them was refused."""
    known = [each.name for each in connectors]
    found: dict[LinkRoute, str] = {}
    for block in blocks:
        row = values(block, LINK_ROUTE, "link-route.")
        if row is None:
            continue
        faults = list(_faults(row, known))
        for key, text in faults:
            problem(block.values.get(key, block).where, f"link-route{text}")
        if faults:
            continue
        route = LinkRoute(
            row["prefix"], row["pattern"], row["direction"] == IN, row["connector"],
            row["container"], row["add_external_prefix"], row["remove_external_prefix"],
        )  # fmt: skip
        where = found.setdefault(route, block.where)
        if where != block.where:
            problem(block.where, f"link-route: it is the same as that at {where}; remove one")
    return found


def _faults(row: dict[str, Any], connectors: Sequence[str]) -> list[tuple[str, str]]:
    """Return (key, fault and remedy) for each fault of one route."""
    entry = DistributionEntry(prefix=row["prefix"], pattern=row["pattern"])
    found = [(field, f": {text}") for field, text in faults_of(entry)]
    connector, container = row["connector"], row["container"]
    wrong = wrong_peer(connector, container)
    if wrong:
        found.append(("container", f": {wrong}"))
    elif connector and connector not in connectors:
        found.append(("connector", f".connector: {unknown_connector(connector, connectors)}"))
    return found
