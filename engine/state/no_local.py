"""Subscriptions that get no messages of their own connection: `no-local`.

The queue of such a subscription does not take these messages, so they are never in it. A queue that
ends with its subscription takes none of the connection that it belongs to. A durable subscription
outlives its connections, so it takes none of any connection with its client id, as JMS 2.0 says
(`createDurableConsumer`). Only multicast queues have this rule: nobody would get a message that an
anycast queue refused. Must never know how queues are chosen otherwise.
"""

from typing import Final

from daybook.engine.facts.definitions import MULTICAST, QueueDefinition
from daybook.engine.queues.consumer import Connection
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.state import State

ASKED_SHIFT: Final = 3
"""Asking queues costs one unit of the budget for 2 to this power."""


def check(connection: Connection, *, is_topic: bool, is_durable: bool) -> Refusal | None:
    """Return why a subscription cannot be without its own messages, None if it can."""
    if not is_topic:
        return Refusal(
            Code.INVALID,
            "no-local is for subscriptions to topics; each message of a queue is for one consumer,"
            " and nobody else might take it",
        )
    if is_durable and not connection.client_id:
        return Refusal(
            Code.INVALID,
            "no-local: a durable subscription outlives its connection, so its own messages are"
            " those of its client id; connect with a client-id",
        )
    return None


def is_own(state: State, definition: QueueDefinition, sender: int) -> bool:
    """Whether a message of a connection is one that a queue without its own messages refuses."""
    if definition.routing_type != MULTICAST:
        return False
    if definition.owner:
        return definition.owner == sender
    connection = state.connections.get(sender)
    return connection is not None and connection.client_id == definition.client_id


def without_own(state: State, queues: list[Queue], sender: int) -> list[Queue]:
    """Return the queues of those chosen that take a message of this connection."""
    unwilling = state.without_own
    return [
        queue
        for queue in queues
        if queue.id not in unwilling or not is_own(state, queue.definition, sender)
    ]
