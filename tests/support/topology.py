"""Queues and addresses for tests, by their attributes in a natural order."""

from typing import Any

from daybook.engine.commands import CreateQueue
from daybook.engine.facts.definitions import ANYCAST, AddressDefinition, QueueDefinition
from daybook.engine.names.names import HOST
from daybook.engine.queues.queue import Address, Queue


def create_queue(
    name: str, address: str, routing_type: str = ANYCAST, durable: bool = True,
    **attributes: Any,
) -> CreateQueue:  # fmt: skip
    """The command that creates a queue."""
    return CreateQueue(
        address,
        QueueDefinition(name=name, routing_type=routing_type, durable=durable, **attributes),
    )


def new_address(number: int, name: str) -> Address:
    """An address that is in no state."""
    return Address(number, AddressDefinition(host=HOST, name=name))


def new_queue(number: int, name: str, address: Address, **attributes: Any) -> Queue:
    """A queue that is in no state."""
    return Queue(number, QueueDefinition(name=name, **attributes), address)
