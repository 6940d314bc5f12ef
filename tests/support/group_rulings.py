"""What the documentation says of message groups, for the referee: who may have a message."""

from typing import Final

from tests.support.readers import is_choosy
from tests.support.rulings import UNKNOWN
from tests.support.shelves import IN_FLIGHT, Item, Shelf

CHANGES: Final = {"group_buckets", "group_hashing"}
"""Attributes whose change gives groups to other consumers."""


def takers(shelf: Shelf, item: Item) -> set[int]:
    """The consumers that may have a message now, as far as its group says."""
    definition = shelf.definition
    if item.group == -1 or not definition.group_buckets:
        return set(shelf.consumers)
    waits = definition.group_rebalance and definition.group_rebalance_pause_dispatch
    if shelf.is_vague or item.group == UNKNOWN or (waits and shelf.count_of(IN_FLIGHT)):
        return set()
    owner = shelf.bound.get(_key_of(shelf, item), 0)
    if owner and _may_refuse(shelf, owner):
        # Perhaps it does not want it, and another one has what it does not want.
        return set()
    if definition.group_hashing:
        # One of them, but which one is for a hash to say; and perhaps the group has to wait.
        return {owner} - {0} if _holders(shelf, item) <= {owner} else set()
    return {owner} if owner else set(shelf.consumers)


def take(shelf: Shelf, item: Item, consumer: int) -> tuple[bool, str]:
    """Note a delivery; whether the consumer may have it, and what is wrong if not."""
    definition = shelf.definition
    if item.group == UNKNOWN:
        # It may have bound or closed any group.
        shelf.bound.clear()
        shelf.is_vague = True
    if shelf.is_vague or item.group < 0 or definition.group_buckets == 0:
        return True, ""
    if definition.group_hashing:
        others = _holders(shelf, item) - {consumer}
        if others:
            return False, f"is of a group that is in flight to {others}"
    key = _key_of(shelf, item)
    owner = shelf.bound.get(key, 0)
    if not owner:
        if definition.group_hashing or not item.closes:
            shelf.bound[key] = consumer
        return True, ""
    if item.closes and owner == consumer and not definition.group_hashing:
        del shelf.bound[key]
    # Others have what a choosy consumer does not want.
    return owner == consumer or _may_refuse(shelf, owner), f"is of a group of {owner}"


def _may_refuse(shelf: Shelf, owner: int) -> bool:
    """Whether a consumer may not get all messages of its group.

    With hashing the first choice may have refused the message that is remembered, and not this one.
    """
    asked = (
        shelf.consumers.values() if shelf.definition.group_hashing else (shelf.consumers[owner],)
    )
    return any(is_choosy(each) for each in asked)


def _key_of(shelf: Shelf, item: Item) -> int:
    buckets = shelf.definition.group_buckets
    return item.group % buckets if buckets > 0 else item.group


def _holders(shelf: Shelf, item: Item) -> set[int]:
    """The consumers that have messages of the group of a message in flight."""
    key = _key_of(shelf, item)
    return {
        other.consumer
        for other in shelf.items.values()
        if other.where == IN_FLIGHT and other.group >= 0 and _key_of(shelf, other) == key
    }
