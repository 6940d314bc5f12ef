"""Terms of Artemis that have another name here, and its defaults where ours differ.

Only differences stand here: a key with the same name and meaning needs no entry. Must never know
how a file is read.
"""

from typing import Final

from daybook.engine.settings.setting_key import Value

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
    "amqpMinLargeMessageSize": "min-large-message-size",
    "amqpCredits": "credit",
    "amqpIdleTimeout": "idle-time-out",
}
"""Parameters in the URL of an acceptor, and their keys."""

_FILES: Final = "the journal has files of its own, whose sizes are keys of [journal]"
_DATA: Final = "all data is in the data directory (--data)"
_ITSELF: Final = "the broker watches its disk and its processes without it"
_THREADS: Final = "the broker has no pools of threads"
_COUNTERS: Final = "figures are in `daybook status` and in the metrics (docs/monitoring.md)"
_PAGES: Final = "pages are read from the index, which syncs by itself"
_COUNTS: Final = "every delivery count is recorded"
_JMS: Final = "there is one kind of queue, which auto-create-queues is for"
_JVM: Final = "there is no JVM"
_RELOAD: Final = "the broker reads its files again on SIGHUP"
NEEDLESS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "journal-type", "journal-min-files", "journal-pool-files", "journal-file-size",
            "journal-device-block-size", "journal-buffer-timeout", "journal-buffer-size",
            "journal-max-io", "journal-compact-min-files", "journal-compact-percentage",
            "journal-file-open-timeout", "journal-lock-acquisition-timeout",
            "create-journal-dir", "create-bindings-dir",
            "log-journal-write-rate", "large-message-sync",
        ),
        _FILES,
    ),
    **dict.fromkeys(
        (
            "paging-directory", "bindings-directory", "journal-directory",
            "large-messages-directory", "node-manager-lock-directory",
        ),
        _DATA,
    ),
    **dict.fromkeys(
        (
            "critical-analyzer", "critical-analyzer-timeout", "critical-analyzer-check-period",
            "critical-analyzer-policy",
        ),
        _ITSELF,
    ),
    **dict.fromkeys(
        (
            "thread-pool-max-size", "scheduled-thread-pool-max-size",
            "async-connection-execution-enabled",
        ),
        _THREADS,
    ),
    **dict.fromkeys(
        (
            "message-counter-enabled", "message-counter-sample-period",
            "message-counter-max-day-history", "server-dump-interval", "memory-measure-interval",
            "memory-warning-threshold",
        ),
        _COUNTERS,
    ),
    **dict.fromkeys(
        ("page-sync-timeout", "page-max-concurrent-io", "purge-page-folders", "read-whole-page"),
        _PAGES,
    ),
    "max-redelivery-records": _COUNTS,
    "configuration-file-refresh-period": _RELOAD,
    "system-property-prefix": _JVM,
    "jmx-management-enabled": _JVM,
    "jmx-domain": _JVM,
    "jmx-use-broker-name": _JVM,
}  # fmt: skip
"""Elements of <core> that are not needed, and why."""

NEEDLESS_SETTINGS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "message-counter-history-day-limit", "management-browse-page-size",
            "management-message-attribute-size-limit", "enable-metrics",
        ),
        _COUNTERS,
    ),
    **dict.fromkeys(
        (
            "auto-create-jms-queues", "auto-create-jms-topics", "auto-delete-jms-queues",
            "auto-delete-jms-topics",
        ),
        _JMS,
    ),
    "redistribution-delay": "there is one node",
}  # fmt: skip
"""Elements of an <address-setting> that are not needed, and why."""

NEEDLESS_PARAMETERS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "tcpSendBufferSize", "tcpReceiveBufferSize", "tcpNoDelay", "useEpoll", "useKQueue",
            "useNio", "useNioGlobalWorkerPool", "nioRemotingThreads", "remotingThreads",
            "batchDelay", "directDeliver", "backlog", "writeBufferLowWaterMark",
            "writeBufferHighWaterMark",
        ),
        "sockets are tuned by the broker",
    ),
    "amqpLowCredits": "links get credit again before they have used up what they had",
    "amqpDuplicateDetection": "messages with a duplicate id are always looked up",
    **dict.fromkeys(
        (
            "amqpCredits", "amqpMinLargeMessageSize", "amqpIdleTimeout",
            "supportAdvisory", "suppressInternalManagementObjects",
            "virtualTopicConsumerWildcards", "subscribeToMaximum", "topicAliasMaximum",
            "defaultMqttSessionExpiryInterval", "receiveMaximum", "maximumPacketSize",
            "serverKeepAlive",
        ),
        "it is for a protocol that is not spoken",
    ),
}  # fmt: skip
"""Parameters in the URL of an acceptor that are not needed, and why."""

ON: Final = "true"
EXPECTED: Final[dict[str, tuple[str, str]]] = {
    "persistence-enabled": (
        "",
        "persistence-enabled is not true: everything is journaled here; only messages that are sent"
        " with persistent:false are gone after a restart",
    ),
    "journal-datasync": (
        "every receipt waits for the disk",
        "journal-datasync is not true: every receipt waits for the disk here, and takes longer",
    ),
}
"""Elements of <core> that must be true: why they are not needed, "" if that is not worth a line,
and the loss if they are false.
"""

NO_NAMES: Final = ("0.0.0.0", "::", "[::]", "localhost", "127.0.0.1")
"""The name of a broker that `artemis create` writes by default."""
