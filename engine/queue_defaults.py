"""The attributes that a queue has by the settings of its address unless its definition has them.

Pure. Must never know how a queue is created.
"""

import msgspec

from daybook.engine.definitions import QueueDefinition
from daybook.engine.settings import AddressSettings


def with_defaults(definition: QueueDefinition, settings: AddressSettings) -> QueueDefinition:
    """Return the definition of a new queue on an address with these settings."""
    is_keyed = bool(definition.keyed_by)
    filled = msgspec.structs.replace(
        definition,
        non_destructive=definition.non_destructive or settings.default_non_destructive,
        last_value=definition.last_value or (settings.default_last_value_queue and not is_keyed),
        last_value_key=definition.last_value_key
        or (settings.default_last_value_key if not is_keyed else ""),
    )
    return filled if filled != definition else definition
