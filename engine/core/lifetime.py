"""How long queues and addresses stay that nobody uses: which go, and when (ADR 46).

Pure functions of what they are given; `engine.topology.sweep` carries out what they say. A queue
with more messages than its settings allow never goes.
"""

import msgspec

from daybook.engine.facts.definitions import NEVER, QueueDefinition
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.settings.settings import AddressSettings

ANY_NUMBER = -1
"""The message count with which a queue goes whatever it holds."""
US_PER_MS = 1000


def with_lifetime(settings: AddressSettings, definition: QueueDefinition) -> QueueDefinition:
    """Return the definition of a new queue with the lifetime that the settings give it.

    One that was created by being used goes by auto-delete-queues, another, such as a durable
    subscription, by auto-delete-created-queues. A lifetime that was asked for stays.
    """
    if definition.auto_delete:
        return definition
    if definition.auto_created:
        wanted = settings.auto_delete_queues
    else:
        wanted = settings.auto_delete_created_queues
    if not wanted:
        return definition
    return msgspec.structs.replace(
        definition,
        auto_delete=True,
        auto_delete_delay=settings.auto_delete_queues_delay,
        auto_delete_message_count=settings.auto_delete_queues_message_count,
    )


def expires(definition: QueueDefinition) -> bool:
    """Whether a queue expires by the policy of a subscription, with all that it holds."""
    return definition.expiry_policy not in ("", NEVER)


def may_go(queue: Queue) -> bool:
    """Whether there are settings and a time with which a queue goes."""
    definition = queue.definition
    if not definition.auto_delete or queue.is_used or queue.deleting or queue.is_paused:
        return False
    count = definition.auto_delete_message_count
    return count == ANY_NUMBER or queue.message_count <= count or expires(definition)


def is_over(queue: Queue, settings: AddressSettings, now: int) -> bool:
    """Whether a queue goes at this time (microseconds since 1970).

    What is paused waits for an administrator. A queue created by being used also stays if
    auto-delete-queues was turned off since. The subscriber alone says when its queue expires.
    """
    definition = queue.definition
    if not may_go(queue):
        return False
    if expires(definition):
        over_at = queue.left_at + definition.auto_delete_delay * US_PER_MS
        return queue.left_at > 0 and now >= over_at
    if definition.auto_created and not settings.auto_delete_queues:
        return False
    since = queue.left_at or queue.created_at
    if settings.auto_delete_queues_skip_usage_check:
        since = queue.created_at
    elif not (queue.added or queue.left_at):
        return False
    return now >= since + definition.auto_delete_delay * US_PER_MS


def is_address_over(address: Address, settings: AddressSettings, now: int) -> bool:
    """Whether an address without queues goes at this time.

    One that was created by being used was used; so the usage check only decides what the delay
    counts from. One that remembers duplicate ids stays, or it would accept a message again; and one
    that keeps messages for queues to come.
    """
    if not address.definition.auto_delete or not settings.auto_delete_addresses:
        return False
    if address.anycast or address.multicast or address.definition.paused:
        return False
    if any(ids is not None and ids.count for ids in (address.ids, address.volatile_ids)):
        return False
    if any(history.message_count for history in address.histories.values()):
        return False
    since = address.emptied_at or address.created_at
    if settings.auto_delete_addresses_skip_usage_check:
        since = address.created_at
    return now >= since + settings.auto_delete_addresses_delay * US_PER_MS
