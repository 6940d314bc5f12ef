"""Durable subscriptions that have a name beside the `id`: `durable-subscription-name`.

Artemis and ActiveMQ put the client id of the connection in front of the name, so that each client
names its own subscriptions; so does Daybook. Must never know what a subscription is.
"""

from typing import Final

from daybook.protocols.stomp.wire import synonyms
from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.frames import Head

_SPELLINGS: Final = frozenset(
    {
        "subscriptionname", "subcriptionname", "subscribername", "durablesubscriptionname",
        "durablesubcriptionname", "durablesubscribername", "activemqsubscriptionname",
        "activemqsubcriptionname", "activemqsubscribername", "activemqdurablesubscriptionname",
    }
)  # fmt: skip
"""The header in lower case and without other characters: documentation and clients spell it in
several ways."""


def durable_name(head: Head, client_id: str) -> str | None:
    """Return the name of the durable subscription that a frame names beside its id, if any.

    Raises StompError if the header is empty, given twice with different values, or given on a
    connection without a client id.
    """
    given = [
        name for name in head.values if "".join(filter(str.isalpha, name)).lower() in _SPELLINGS
    ]
    if not given:
        return None
    header = synonyms.DURABLE_NAME.chosen_of(given, head.values)
    name = head.values[header]
    if not name:
        raise StompError(f"header {header} is empty", "give the name of the durable subscription")
    if not client_id:
        raise StompError(
            f"header {header}: the connection has no client-id, which such a name belongs to",
            "send client-id with CONNECT, or name the durable subscription by id, with"
            " persistent:true",
        )
    return f"{client_id}.{name}"
