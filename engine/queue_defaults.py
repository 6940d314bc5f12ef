"""The attributes that a queue has by the settings of its address unless its definition has them.

Pure. Must never know how a queue is created.
"""

import msgspec

from daybook.engine.definitions import QueueDefinition
from daybook.engine.settings import AddressSettings


def with_defaults(definition: QueueDefinition, settings: AddressSettings) -> QueueDefinition:
    """Return the definition of a new queue on an address with these settings."""
    if settings.default_non_destructive and not definition.non_destructive:
        return msgspec.structs.replace(definition, non_destructive=True)
    return definition
