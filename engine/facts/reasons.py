"""Why the broker decided something: numbers and names of the reasons in events.

Numbers are permanent. Must never know the kinds of events.
"""

from typing import Final

# Numbers of the reasons; one list for all kinds, so that a query needs no second table.
NO_REASON: Final = 0
SENT: Final = 1
DEAD_LETTER: Final = 2
EXPIRY: Final = 3
NO_BINDING: Final = 4
NO_MATCHING_FILTER: Final = 5
BY_CONSUMER: Final = 6
AUTOMATIC: Final = 7
NACK: Final = 8
ROLLBACK: Final = 9
CLOSED: Final = 10
DISCONNECTED: Final = 11
TIMEOUT: Final = 12
PROTOCOL_ERROR: Final = 13
SHUTDOWN: Final = 14
RESTART: Final = 15
ADMINISTRATION: Final = 16
QUEUE_REMOVED: Final = 17
NO_DEAD_LETTER_ADDRESS: Final = 18
NO_EXPIRY_ADDRESS: Final = 19
UNROUTABLE: Final = 20
ON_DEMAND: Final = 21
CONFIGURATION: Final = 22
AUTHENTICATION: Final = 23
LIMIT: Final = 24
COMMIT_REFUSED: Final = 25
SUBSCRIPTION: Final = 26
UNUSED: Final = 27
MAX_SIZE_BYTES: Final = 28
MAX_SIZE_MESSAGES: Final = 29
PAGE_LIMIT_BYTES: Final = 30
PAGE_LIMIT_MESSAGES: Final = 31
GLOBAL_MAX_SIZE: Final = 32
GLOBAL_MAX_MESSAGES: Final = 33
DISK_FULL: Final = 34
DUPLICATE: Final = 35
UNREADABLE: Final = 36
GIVEN_BACK: Final = 37
REFUSED: Final = 38
REDELIVERY_DELAY: Final = 39
AUTO_DELETE: Final = 60
NO_ROUTE: Final = 61
DISABLED: Final = 62
REPLACED: Final = 70
RING_EVICTED: Final = 71
DIVERT: Final = 80
# From 90 on: reasons about the beginning and the end of deliveries from a queue.
DELIVERY_TIME: Final = 90
CONSUMERS_CAME: Final = 91
DELAY_OVER: Final = 92
NO_CONSUMERS: Final = 93
GONE: Final = 130
HOST_MAX_SIZE: Final = 131
LEFT_OUT: Final = 138
STOLEN: Final = 139
RESUMED: Final = 140
SALVAGED: Final = 141
NO_RECEIVERS: Final = 142
# From 105 on: reasons about subscriptions.
NO_LOCAL: Final = 105
END_OF_BROWSE: Final = 106
# From 100 on: reasons about the history that addresses keep.
HISTORY: Final = 100
RETROACTIVE_MAX_AGE: Final = 101
RETROACTIVE_BYTES: Final = 102
NOT_RETROACTIVE: Final = 103
HISTORY_ONLY: Final = 110
# From 135 on: reasons about retained messages.
RETAINED: Final = 135
FORGOTTEN: Final = 136

REASONS: Final[dict[int, tuple[str, str]]] = {
    NO_REASON: ("", "the kind says it all"),
    SENT: ("sent", "a producer sent it"),
    DEAD_LETTER: ("dead-letter", "on the way to the dead letter address"),
    EXPIRY: ("expiry", "on the way to the expiry address"),
    NO_BINDING: ("no-binding", "the address has no queue of a fitting routing type"),
    NO_MATCHING_FILTER: ("no-matching-filter", "every filter on the address refused it"),
    BY_CONSUMER: ("by-consumer", "the consumer acknowledged it"),
    AUTOMATIC: ("automatic", "acknowledged by being sent to a consumer that does not acknowledge"),
    NACK: ("nack", "the consumer rejected it"),
    ROLLBACK: ("rollback", "the client rolled back"),
    CLOSED: ("closed", "the client closed it cleanly; a prefetched delivery does not count"),
    DISCONNECTED: ("disconnected", "the connection was lost; the attempt counts"),
    TIMEOUT: ("timeout", "nothing was heard from the peer in time"),
    PROTOCOL_ERROR: ("protocol-error", "the peer broke the protocol"),
    SHUTDOWN: ("shutdown", "the broker was stopped"),
    RESTART: ("restart", "the broker was started again"),
    ADMINISTRATION: ("administration", "an administrator asked for it"),
    QUEUE_REMOVED: ("queue-removed", "its queue was deleted"),
    NO_DEAD_LETTER_ADDRESS: ("no-dead-letter-address", "no dead letter address is set: dropped"),
    NO_EXPIRY_ADDRESS: ("no-expiry-address", "no expiry address is set: dropped"),
    UNROUTABLE: ("unroutable", "the target address has no queue that takes it"),
    ON_DEMAND: ("on-demand", "created because somebody used it"),
    CONFIGURATION: ("configuration", "the configuration says so"),
    AUTHENTICATION: ("authentication", "login or passcode were wrong"),
    LIMIT: ("limit", "a configured limit was reached"),
    COMMIT_REFUSED: ("commit-refused", "a part of the transaction was refused at commit"),
    SUBSCRIPTION: ("subscription", "created for a subscription"),
    UNUSED: ("unused", "temporary and no longer used"),
    MAX_SIZE_BYTES: ("max-size-bytes", "the address is full by its bytes"),
    MAX_SIZE_MESSAGES: ("max-size-messages", "the address is full by its messages"),
    PAGE_LIMIT_BYTES: ("page-limit-bytes", "the address pages, and is full by its bytes"),
    PAGE_LIMIT_MESSAGES: (
        "page-limit-messages",
        "the address pages, and one of its queues is full",
    ),
    GLOBAL_MAX_SIZE: ("global-max-size", "the broker is full by its bytes"),
    GLOBAL_MAX_MESSAGES: ("global-max-messages", "the broker is full by its messages"),
    DISK_FULL: ("disk-full", "the disk is full"),
    DUPLICATE: ("duplicate", "the address had a message with its duplicate id before"),
    UNREADABLE: (
        "unreadable",
        "the broker could not read a body for this connection; no attempt counts",
    ),
    GIVEN_BACK: ("given-back", "the consumer gave it back untried; the attempt does not count"),
    REFUSED: ("refused", "the consumer will never take it; a queue dead-letters it at once"),
    REDELIVERY_DELAY: ("redelivery-delay", "a delivery failed, and the next one is to come later"),
    NO_ROUTE: ("no-route", "no queue of its address took it: it went to the dead letter address"),
    DISABLED: ("disabled", "every queue that it could go to is disabled"),
    AUTO_DELETE: ("auto-delete", "nobody uses it any more, and its settings do not keep it"),
    REPLACED: ("replaced", "another message with the same last value key took its place"),
    RING_EVICTED: ("ring-evicted", "the ring was full"),
    DIVERT: ("divert", "a divert made it a copy for one of its forwarding addresses"),
    DELIVERY_TIME: ("delivery-time", "its sender said when it may be delivered"),
    CONSUMERS_CAME: ("consumers-came", "as many consumers are attached as deliveries wait for"),
    DELAY_OVER: ("delay-over", "the first consumer has waited long enough"),
    NO_CONSUMERS: ("no-consumers", "the queue keeps messages only while it has consumers"),
    GONE: ("gone", "the temporary destination that it was sent to has ended"),
    END_OF_BROWSE: ("end-of-browse", "the browser has read, and settled, all of its queue"),
    NO_LOCAL: ("no-local", "its sender is the only subscriber, and wants none of its own messages"),
    HISTORY: ("history", "it belongs to the history that an address keeps"),
    RETROACTIVE_MAX_AGE: ("retroactive-max-age", "the history keeps messages for so long"),
    RETROACTIVE_BYTES: ("retroactive-bytes", "the history is full by its bytes"),
    NOT_RETROACTIVE: ("not-retroactive", "the address no longer keeps its history"),
    HOST_MAX_SIZE: ("virtual-host-max-size", "the virtual host is full by its bytes"),
    HISTORY_ONLY: (
        "history-only",
        "no queue of its address took it, only what the broker keeps for queues to come",
    ),
    RETAINED: ("retained", "it is for the retained messages of all topics"),
    FORGOTTEN: ("forgotten", "its address is no longer to remember it for queues to come"),
    LEFT_OUT: (
        "left-out",
        "its subscription has wildcards, and may not consume from this queue any more",
    ),
    STOLEN: ("stolen", "another link of its client took its subscription over"),
    RESUMED: ("resumed", "its client had it from an earlier link, and says now what became of it"),
    SALVAGED: ("salvaged", "what a damaged journal still says of it leaves nothing else"),
    NO_RECEIVERS: ("no-receivers", "nobody receives from the direct address, or not any more"),
}
