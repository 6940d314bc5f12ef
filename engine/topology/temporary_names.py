"""Names of temporary destinations, and who may use them (ADR 57).

`/temp-queue/replies` of connection 23 is the address `temp.default.23.replies`: the name says which
connection owns it. The owner alone creates it and consumes from it; everybody may send to it. Must
never know how one ends (`engine.topology.ownership`).
"""

from typing import Final

from daybook.engine.core import quotas
from daybook.engine.core.core import Core
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.names.names import is_temporary, owner_of, plain, wrong_to_spell, wrong_with
from daybook.engine.refusals import Code, Refusal

TEMPORARIES_MAX: Final = 10_000
"""How many temporary destinations a connection may have at a time."""


def is_lost(address: str, connection: int) -> bool:
    """Whether a destination that does not exist is one that only another connection can create.

    What is sent there is dropped: its owner has gone, and its sender has done nothing wrong.
    """
    return is_temporary(address) and owner_of(address) not in (0, connection)


def check_creation(core: Core, name: str, address: str, connection: int) -> Refusal | None:
    """Return why a connection may not create a temporary destination, None if it may.

    `name` is that of the queue, or the same as `address`.
    """
    refusal = check_owner(core, address, connection)
    if refusal is not None:
        return refusal
    if name != address:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{name}' cannot be created on address '{address}': a temporary destination has"
            " one queue, of its own name; use that one",
        )
    owned = core.state.temporaries.get(connection, {})
    if len(owned) >= TEMPORARIES_MAX and address not in core.state.address_by_name:
        return Refusal(
            Code.LIMIT,
            f"the connection has {TEMPORARIES_MAX:,} temporary destinations, which is the most; use"
            " one for several replies, or open another connection",
        )
    return quotas.check_subscription(core, connection) or (
        quotas.check_address(core, connection)
        if address not in core.state.address_by_name
        else None
    )


def check_owner(core: Core, address: str, connection: int) -> Refusal | None:
    """Return why a connection may not consume from a temporary destination, None if it may."""
    owner = owner_of(address)
    rest = address.split(".", 3)[-1]
    wrong = None if owner else "it is not of the form temp.default.CONNECTION.NAME"
    syntax = core.state.settings.syntax
    wrong = wrong or wrong_with(rest, syntax) or wrong_to_spell(plain(address), syntax)
    if wrong is not None:
        return Refusal(
            Code.INVALID, f"'{address}' is not a name for a temporary destination: {wrong}"
        )
    if owner != connection or connection not in core.state.connections:
        return Refusal(
            Code.NOT_ALLOWED,
            f"'{address}' is a temporary destination of connection {owner}, and only that one can"
            " create it or consume from it; make one of this connection",
        )
    return None


def check_consumer(
    core: Core, address: str, connection: int, *, is_durable: bool
) -> Refusal | None:
    """Return why a connection may not subscribe to a temporary destination, None if it may."""
    if is_durable:
        return Refusal(
            Code.INVALID,
            f"a durable subscription to '{address}', which ends with its connection; subscribe to"
            " a topic that stays",
        )
    return check_owner(core, address, connection)


def definition_of(name: str, routing_type: str, connection: int) -> QueueDefinition:
    """Return the definition of the queue of a temporary destination."""
    return QueueDefinition(
        name=name,
        routing_type=routing_type,
        durable=False,
        temporary=True,
        auto_created=True,
        owner=connection,
    )
