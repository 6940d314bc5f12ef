"""What Artemis calls things that have another name here, and its defaults where ours differ.

Only differences stand here: a key with the same name and meaning needs no entry. Must never know
how a file is read.
"""

from typing import Final

from daybook.engine.setting_key import Value

BASE_SETTINGS: Final[dict[str, Value]] = {
    "dead-letter-policy": "DROP",
    "default-address-routing-type": "MULTICAST",
    "default-queue-routing-type": "MULTICAST",
}
"""Settings of every address of a broker.xml that does not say otherwise."""

SETTING_ALIASES: Final = {"last-value-queue": "default-last-value-queue"}
QUEUE_ALIASES: Final = {"filter-string": "filter"}
CORE_ALIASES: Final = {"connection-max-per-user": "max-connections-per-user"}
PERMISSION_TYPES: Final = {
    "createTempQueue": "create-non-durable-queue",
    "deleteTempQueue": "delete-non-durable-queue",
}
"""Permissions under the names of old releases; the others are ours in another spelling."""
PARAMETERS: Final = {
    "anycastPrefix": "anycast-prefix",
    "multicastPrefix": "multicast-prefix",
    "connectionsAllowed": "max-connections",
    "stompMaxHeaderSize": "max-header-length",
    "stompMinLargeMessageSize": "min-large-message-size",
}
"""Parameters in the URL of an acceptor, and their keys."""
