"""Feature levels: which release a journal needs, by the features that it uses (ADR 79).

The header of each segment has a level as its format version, and every reader of a segment refuses
one that it does not know. A journal begins at level 1. The first block that uses a feature of a
higher level begins a segment of that level, so data without newer features stays readable by older
releases. To add a kind of event, a field of a detail or a key of the address settings, add a row
here; a test finds what is in none. Levels are for ever: never change or remove a row.

Must never know any room: every room may import this module.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """What a release added to what journals say.

    An event uses it that has one of the `kinds`, one of the `flags`, a detail in which one of the
    `fields` has another value than its default, or address settings with one of the `settings`.
    A feature with none of them only changes what brokers decide: no journal needs it (ADR 81).
    """

    level: int
    release: str
    name: str
    kinds: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    flags: int = 0

    @property
    def is_used(self) -> bool:
        """Whether events can use it, so that older releases must not read them."""
        return bool(self.kinds or self.fields or self.settings or self.flags)


FEATURES: Final = (
    Feature(1, "0.1.0", "what every release reads"),
    Feature(
        2, "0.2.0", "filters of queues",
        fields=("QueueDetail.filter",),
    ),
    Feature(
        2, "0.2.0", "last value queues",
        fields=(
            "QueueDetail.last_value", "QueueDetail.last_value_key", "RoutedDetail.last_values",
        ),
        settings=("default-last-value-queue", "default-last-value-key"),
    ),
    Feature(
        2, "0.2.0", "ring queues",
        fields=("QueueDetail.ring_size",),
        settings=("default-ring-size",),
    ),
    Feature(
        2, "0.2.0", "message groups",
        kinds=("GroupsReset",),
        fields=(
            "QueueDetail.group_rebalance", "QueueDetail.group_rebalance_pause_dispatch",
            "QueueDetail.group_buckets", "QueueDetail.group_hashing",
            "QueueDetail.group_first_key",
        ),
        settings=(
            "default-group-rebalance", "default-group-rebalance-pause-dispatch",
            "default-group-buckets", "default-group-hashing", "default-group-first-key",
        ),
        flags=128,
    ),
    Feature(
        2, "0.2.0", "non-destructive queues",
        kinds=("Shown", "Seen"),
        fields=("QueueDetail.non_destructive",),
        settings=("default-non-destructive",),
    ),
    Feature(
        2, "0.2.0", "scheduled messages and growing delays",
        kinds=("Scheduled", "Due"),
        settings=(
            "redelivery-delay", "redelivery-delay-multiplier",
            "redelivery-collision-avoidance-factor", "max-redelivery-delay",
        ),
    ),
    Feature(
        2, "0.2.0", "expiry by address",
        settings=("no-expiry", "expiry-delay", "min-expiry-delay", "max-expiry-delay"),
    ),
    Feature(
        2, "0.2.0", "histories of addresses and retained messages",
        kinds=("RecallStarted", "Recalled", "RecallEnded", "TimeMarked"),
        fields=("QueueDetail.keeps",),
        settings=("retroactive-message-count", "retroactive-max-age", "retroactive-bytes"),
    ),
    Feature(
        2, "0.2.0", "diverts",
        kinds=("DivertCreated", "DivertDeleted", "Diverted"),
        settings=("config-delete-diverts",),
    ),
    Feature(
        2, "0.2.0", "queues that wait for consumers, or keep messages only with them",
        kinds=("DispatchStarted",),
        fields=(
            "QueueDetail.consumers_before_dispatch", "QueueDetail.delay_before_dispatch",
            "QueueDetail.purge_on_no_consumers",
        ),
        settings=(
            "default-consumers-before-dispatch", "default-delay-before-dispatch",
            "default-purge-on-no-consumers",
        ),
    ),
    Feature(
        2, "0.2.0", "exclusive queues, limits and priorities of consumers, browsers",
        fields=(
            "QueueDetail.max_consumers", "QueueDetail.exclusive", "ConsumerAttachedDetail.priority",
            "ConsumerAttachedDetail.exclusive", "ConsumerAttachedDetail.browses",
            "ConsumerAttachedDetail.first",
        ),
        settings=("default-max-consumers", "default-exclusive-queue"),
    ),
    Feature(
        2, "0.2.0", "subscriptions without the messages of their own connection",
        fields=("QueueDetail.no_local", "QueueDetail.client_id"),
    ),
    Feature(
        2, "0.2.0", "subscriptions to several queues",
        kinds=("BundleOpened", "BundleClosed"),
    ),
    Feature(
        2, "0.2.0", "queues and addresses that are deleted when nobody uses them",
        fields=(
            "AddressDetail.auto_delete", "AddressDetail.configuration_managed",
            "QueueDetail.auto_delete", "QueueDetail.auto_delete_delay",
            "QueueDetail.auto_delete_message_count", "QueueDetail.configuration_managed",
        ),
        settings=(
            "auto-delete-queues", "auto-delete-created-queues", "auto-delete-queues-delay",
            "auto-delete-queues-message-count", "auto-delete-queues-skip-usage-check",
            "auto-delete-addresses", "auto-delete-addresses-delay",
            "auto-delete-addresses-skip-usage-check", "config-delete-queues",
            "config-delete-addresses",
        ),
    ),
    Feature(
        2, "0.2.0", "queues for dead letters and expired messages by address, routing types",
        fields=(
            "RoutedDetail.unrouted_at", "DivertedDetail.unrouted_at", "DroppedDetail.destination",
        ),
        settings=(
            "auto-create-dead-letter-resources", "dead-letter-queue-prefix",
            "dead-letter-queue-suffix", "auto-create-expiry-resources", "expiry-queue-prefix",
            "expiry-queue-suffix", "send-to-dla-on-no-route", "default-address-routing-type",
            "default-queue-routing-type",
        ),
    ),
    Feature(
        2, "0.2.0", "administration",
        kinds=("Administered", "Moved"),
        fields=(
            "AddressDetail.paused", "AddressDetail.changed", "QueueDetail.enabled",
            "QueueDetail.changed", "SettingsDetail.live",
        ),
    ),
    Feature(2, "0.2.0", "permissions", kinds=("PermissionRefused",)),
    Feature(
        2, "0.2.0", "other spellings of names",
        fields=("AddressDetail.syntax", "SettingsDetail.syntax"),
    ),
    Feature(
        2, "0.2.0", "virtual hosts",
        fields=("AddressDetail.host", "ConnectionDetail.host"),
    ),
    Feature(2, "0.2.0", "other formats of headers", flags=16 | 32 | 64),
    Feature(2, "0.2.0", "signatures", kinds=("Signed", "SigningKeyChanged")),
    Feature(2, "0.2.0", "forks and salvage", kinds=("Forked", "Lost")),
    Feature(3, "0.2.0", "shares of users in addresses", fields=("AddressDetail.user",)),
    Feature(
        4, "0.2.0", "where messages were before",
        fields=("RoutedDetail.origin", "CarriedDetail.origin"),
    ),
    Feature(5, "0.2.0", "stops without a digest", fields=("BrokerStoppedDetail.hurried",)),
    # Nothing of the data needs it: the brokers that have it say what they decided from.
    Feature(6, "0.2.0", "what decisions were made from"),
    Feature(
        7, "0.2.0", "scheduled messages that one event sets aside", fields=("RoutedDetail.due",)
    ),
    Feature(
        8, "0.2.0", "messages that consumers refuse for themselves",
        fields=("ReturnedDetail.not_here",),
    ),
    Feature(
        9, "0.2.0", "subscriptions that expire",
        kinds=("OwnerEnded",),
        fields=("QueueDetail.expiry_policy",),
    ),
    Feature(
        10, "0.2.0", "annotations of entries",
        fields=(
            "ReturnedDetail.annotations", "RoutedDetail.annotations", "RecalledDetail.annotations",
        ),
    ),
    Feature(
        11, "0.2.0", "retained messages that their queues know as such",
        fields=("RecalledDetail.retained",),
    ),
    Feature(
        12, "0.2.0", "direct addresses",
        kinds=(
            "LinkAttached", "LinkDetached", "Forwarded", "ForwardSettled", "DistributionsChanged",
        ),
    ),
    Feature(
        13, "0.2.0", "connectors and auto-links, and messages of queues that direct addresses take",
        fields=(
            "ConnectionDetail.connector", "DistributionsDetail.waypoints",
            "ForwardedDetail.omitted_bytes", "ForwardedDetail.link", "ForwardedDetail.shard",
            "LinkAttachedDetail.phase", "LinkAttachedDetail.auto_link",
            "LinkAttachedDetail.is_fallback", "LinkAttachedDetail.cost", "LinkAttachedDetail.shard",
            "DistributionsDetail.link_routes", "LinkAttachedDetail.through",
        ),
    ),
)  # fmt: skip
"""All features, by their levels. From level 3 on each feature has a level of its own: the highest
before it and 1."""

HARMLESS: Final = (
    "BrokerStartedDetail.level", "BrokerStartedDetail.epoch", "BrokerStartedDetail.node",
    "DroppedDetail.basis", "DivertedDetail.basis",
    "RoutedDetail.named", "ReturnedDetail.condition", "ReturnedDetail.error",
    "RoutedDetail.came_from", "ForwardedDetail.came_from", "DroppedDetail.came_from",
    "DivertedDetail.came_from", "ConsumerAttachedDetail.traced", "LinkAttachedDetail.traced",
)  # fmt: skip
"""Fields that releases without them may ignore: the state and its digest are the same."""

LEVEL_MIN: Final = 1
LEVEL: Final = FEATURES[-1].level
"""The highest level that this release knows."""
LEVEL_USED: Final = max((each.level for each in FEATURES if each.is_used), default=LEVEL_MIN)
"""The highest level that a journal can need."""


def release_of(level: int) -> str:
    """Return the first release that reads journals of a level that this release knows."""
    return next(feature.release for feature in FEATURES if feature.level == level)


def names_of(level: int) -> tuple[str, ...]:
    """Return the names of the features that came with a level."""
    return tuple(feature.name for feature in FEATURES if feature.level == level)
