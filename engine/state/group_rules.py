"""By which rule a queue knows its message groups, and what changes with its consumers.

Must never know how a consumer is chosen.
"""

from typing import Any, Final

from daybook.engine.queues.consumer import Consumer, InFlightIndex, consumers_of
from daybook.engine.queues.groups import GroupCount, Grouping, Groups
from daybook.engine.queues.hashed_groups import HashedGroups
from daybook.engine.queues.queue import Queue

GROUPS_SHIFT: Final = 6
"""Releasing message groups, and asking consumers to look again, costs one unit for 2 to this
power."""
_CHOOSING: Final = ("exclusive", "group_buckets", "group_hashing")
"""The attributes of a queue that say which consumer a group goes to."""


def units_of(queue: Queue) -> int:
    """Return what it costs that the consumers of a queue with groups change."""
    groups = queue.groups
    return len(groups.bound) + len(queue.consumers) >> GROUPS_SHIFT if groups is not None else 0


def groups_of(queue: Queue, count: GroupCount) -> Grouping:
    """Return the groups of a queue; none is bound if their rule changed since."""
    definition = queue.definition
    found = queue.groups
    is_hashed = isinstance(found, HashedGroups)
    if (
        found is not None
        and found.buckets == definition.group_buckets
        and is_hashed == definition.group_hashing
    ):
        return found
    if found is not None:
        found.release_all(queue.consumers)
    for consumer in consumers_of(queue):
        if consumer.index is not None:
            consumer.index.groups = None
    if not definition.group_hashing:
        queue.groups = Groups(count, definition.group_buckets)
        return queue.groups
    hashed = HashedGroups(count, definition.group_buckets, queue.consumers)
    queue.groups = hashed
    for consumer in consumers_of(queue):
        _watch(consumer, hashed)
    return hashed


def joined(queue: Queue, consumer: Consumer) -> None:
    """Give the groups of a queue to consumers again, because one more came, if its rule says so."""
    definition = queue.definition
    groups = queue.groups
    if groups is None:
        return
    if isinstance(groups, HashedGroups):
        _watch(consumer, groups)
        groups.change()
    elif definition.group_rebalance:
        groups.release_all(queue.consumers)
    if definition.group_rebalance:
        groups.pauses = definition.group_rebalance_pause_dispatch


def updated(queue: Queue, count: GroupCount, values: dict[str, Any]) -> None:
    """Follow a change of attributes: what waits for the consumers of groups may be for others now.

    Where hashing begins or ends, nothing is delivered until what is in flight is settled: the new
    rule does not know its groups.
    """
    if not queue.consumers or not any(name in values for name in _CHOOSING):
        return
    if queue.groups is not None and "exclusive" not in values:
        queue.groups.release_all(queue.consumers)
    has_groups = queue.definition.group_buckets != 0
    if has_groups and (queue.definition.group_hashing or "group_hashing" in values):
        groups_of(queue, count).pauses = queue.in_flight_count > 0


def _watch(consumer: Consumer, groups: HashedGroups) -> None:
    """Let groups know which messages a consumer has in flight."""
    if consumer.index is None:
        consumer.index = InFlightIndex(None)
    consumer.index.groups = groups
