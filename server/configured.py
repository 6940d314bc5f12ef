"""The commands that put a configuration in force in the engine, in order.

Must never know how commands are executed.
"""

from collections.abc import Iterator

from daybook.engine.commands import (
    ChangeDistributions,
    ChangeSettings,
    Command,
    CreateAddress,
    CreateDivert,
    CreateQueue,
    DropUnlisted,
)
from daybook.server.configuration.config import Config


def commands(config: Config) -> Iterator[Command]:
    """Return the commands; the engine refuses objects that exist already, which is not an error."""
    syntax = config.wildcards.syntax.text
    yield ChangeSettings(config.address_settings, config.broker.journal_non_persistent, syntax)
    yield ChangeDistributions(
        config.distributions, config.broker.default_distribution, config.waypoints,
        config.link_routes,
    )  # fmt: skip
    for address in config.addresses:
        yield CreateAddress(address.name, address.routing_types, adopts=True, configured=True)
    for queue in config.queues:
        yield CreateQueue(queue.address, queue.definition, adopts=True, configured=True)
    for divert in config.diverts:
        yield CreateDivert(divert, replaces=True, configured=True)
    yield DropUnlisted(
        addresses=frozenset(
            (*(each.name for each in config.addresses), *(each.address for each in config.queues))
        ),
        queues=frozenset(each.name for each in config.queues),
        diverts=frozenset(each.name for each in config.diverts),
    )
