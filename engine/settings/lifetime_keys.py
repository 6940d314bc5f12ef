"""The keys of address settings about names: how they come into being by use, and how they go.

Part of the table in `engine.settings.setting_keys`; must never know the other parts.
"""

from typing import Final

from daybook.engine.facts.definitions import ROUTING_TYPES
from daybook.engine.names import names
from daybook.engine.settings.setting_key import Key, Value, check_delay, check_limit

AFFIX_BYTES_MAX: Final = 1024
TYPE_WORDS: Final = tuple(each.upper() for each in ROUTING_TYPES)
"""The routing types as Artemis spells them in settings."""


OFF: Final = "OFF"
FORCE: Final = "FORCE"
DELETION_POLICIES: Final = (OFF, FORCE)


def _check_type(value: Value) -> str | None:
    return None if value in TYPE_WORDS else f"it must be {' or '.join(TYPE_WORDS)}"


def _check_deletion(value: Value) -> str | None:
    return None if value in DELETION_POLICIES else f"it must be {' or '.join(DELETION_POLICIES)}"


def _check_affix(value: Value) -> str | None:
    """A prefix or suffix must be able to be a part of a name."""
    if not value:
        return None
    if names.length(str(value)) > AFFIX_BYTES_MAX:
        return f"it has more than {AFFIX_BYTES_MAX:,} bytes"
    return names.wrong_with(f"a{value}a")


LIFETIME_KEYS: Final = (
    Key(
        "default-address-routing-type",
        str,
        "ANYCAST",
        "Routing type of an address that is created because somebody sends to it or consumes from"
        " it without saying which. Artemis has MULTICAST, by which such a message is dropped as"
        " long as nobody has subscribed.",
        _check_type,
    ),
    Key(
        "default-queue-routing-type",
        str,
        "ANYCAST",
        "Routing type of a queue that is created because somebody names it (ADDRESS::QUEUE) without"
        " saying which. Artemis has MULTICAST.",
        _check_type,
    ),
    Key(
        "auto-delete-queues",
        bool,
        True,
        "Whether queues created by being used are deleted once they were used and have no consumers"
        " and no more messages than auto-delete-queues-message-count. Durable subscriptions are"
        " not among them. Queues that exist when this becomes true stay.",
    ),
    Key(
        "auto-delete-created-queues",
        bool,
        False,
        "Whether queues are deleted likewise that an administrator creates, unless the command says"
        " it, and those of durable subscriptions.",
    ),
    Key(
        "auto-delete-queues-delay",
        int,
        0,
        "Milliseconds that such a queue stays after its last consumer left, or after its creation"
        " if it never had one. Decided when the queue is created.",
        check_delay,
        is_time=True,
    ),
    Key(
        "auto-delete-queues-message-count",
        int,
        0,
        "Messages with which such a queue is deleted all the same: they are lost. -1: any number."
        " Decided when the queue is created.",
        check_limit,
    ),
    Key(
        "auto-delete-queues-skip-usage-check",
        bool,
        False,
        "Whether such queues are deleted too that were never used, which is to say that no message"
        " was sent to them and no consumer was attached; the delay then counts from their creation,"
        " and should be more than 0.",
    ),
    Key(
        "auto-delete-addresses",
        bool,
        True,
        "Whether addresses created by being used are deleted when they have no queues. An address"
        " that remembers duplicate ids stays. Addresses that exist when this becomes true stay.",
    ),
    Key(
        "auto-delete-addresses-delay",
        int,
        0,
        "Milliseconds that such an address stays after its last queue was deleted, or after its"
        " creation if it never had one.",
        check_delay,
        is_time=True,
    ),
    Key(
        "auto-delete-addresses-skip-usage-check",
        bool,
        False,
        "Whether auto-delete-addresses-delay always counts from the creation of the address.",
    ),
    Key(
        "config-delete-queues",
        str,
        OFF,
        "What a start or a reload does with queues that the configuration listed before and lists"
        " no more. OFF: they stay; FORCE: they are deleted, with their messages, and the"
        " connections of their consumers are closed.",
        _check_deletion,
    ),
    Key(
        "config-delete-addresses",
        str,
        OFF,
        "The same for addresses. FORCE: an address is deleted with all its queues, also those that"
        " clients created.",
        _check_deletion,
    ),
    Key(
        "config-delete-diverts",
        str,
        OFF,
        "The same for the diverts of an address.",
        _check_deletion,
    ),
)

DEAD_END_KEYS: Final = (
    Key(
        "auto-create-dead-letter-resources",
        bool,
        False,
        "Whether a queue is created at the dead-letter-address for each address that dead letters"
        " come from. It is multicast, named by the two keys below and the address, and takes only"
        " messages from there. It is deleted like other queues that were created by being used. If"
        " both keys are empty there is no such queue: its name would be that of the address.",
    ),
    Key(
        "dead-letter-queue-prefix",
        str,
        "DLQ.",
        "What stands before the address in the names of those queues.",
        _check_affix,
    ),
    Key(
        "dead-letter-queue-suffix",
        str,
        "",
        "What stands behind the address in the names of those queues.",
        _check_affix,
    ),
    Key(
        "auto-create-expiry-resources",
        bool,
        False,
        "The same for expired messages at the expiry-address.",
    ),
    Key(
        "expiry-queue-prefix",
        str,
        "EXP.",
        "What stands before the address in the names of those queues.",
        _check_affix,
    ),
    Key(
        "expiry-queue-suffix",
        str,
        "",
        "What stands behind the address in the names of those queues.",
        _check_affix,
    ),
    Key(
        "send-to-dla-on-no-route",
        bool,
        False,
        "Whether a message that no queue of its address takes goes to the dead-letter-address,"
        " instead of being dropped; if no queue there takes it, it is dropped.",
    ),
)
