"""The attributes that a queue has by the settings of its address unless its definition has them.

Pure. Must never know how a queue is created.
"""

from typing import Any, Final

import msgspec

from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.settings.settings import AddressSettings

# Asked once: the answer takes longer than all else about a new queue.
_UNSET: Final[dict[str, Any]] = {
    field.name: field.default for field in msgspec.structs.fields(QueueDefinition)
}


def with_defaults(definition: QueueDefinition, settings: AddressSettings) -> QueueDefinition:
    """Return the definition of a new queue on an address with these settings.

    A queue that ends with its only consumer waits for no others.
    """
    wanted: dict[str, int | str] = {
        "non_destructive": settings.default_non_destructive,
        "purge_on_no_consumers": settings.default_purge_on_no_consumers,
        "group_rebalance": settings.default_group_rebalance,
        "group_rebalance_pause_dispatch": settings.default_group_rebalance_pause_dispatch,
        "group_buckets": settings.default_group_buckets,
        "group_hashing": settings.default_group_hashing,
        "group_first_key": settings.default_group_first_key,
    }
    if not definition.keyed_by:
        wanted["last_value"] = settings.default_last_value_queue
        wanted["last_value_key"] = settings.default_last_value_key
    if not definition.temporary:
        wanted["consumers_before_dispatch"] = settings.default_consumers_before_dispatch
        wanted["delay_before_dispatch"] = settings.default_delay_before_dispatch
    unset = {
        name: value for name, value in wanted.items() if getattr(definition, name) == _UNSET[name]
    }
    return msgspec.structs.replace(definition, **unset)
