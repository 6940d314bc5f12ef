"""Converts the configuration to options of the hub and of all sessions. Must never know a hub."""

from daybook.protocols.port import Value
from daybook.server.configuration.config import Config
from daybook.server.configuration.host_config import known_names
from daybook.server.hub.memory_limits import memory_options
from daybook.server.hub.ports import HubOptions


def session_options(config: Config) -> dict[str, Value]:
    """Return the options that the sessions of every acceptor have."""
    return {
        "syntax": config.wildcards.syntax.text,
        "populate-validated-user": config.broker.populate_validated_user,
        "virtual-hosts": known_names(config.virtual_hosts),
        "container": config.broker.name,
    }


def hub_options(config: Config) -> HubOptions:
    """Return the limits and periods of a configuration, in the units of the hub."""
    journal = config.journal
    return HubOptions(
        block_bytes=journal.block_bytes,
        # Pending bytes must fit into the half of a segment that is reserved for a full disk.
        max_pending_bytes=min(
            journal.max_pending_bytes, max(journal.segment_bytes // 2, journal.block_bytes)
        ),
        expiry_scan_us=config.broker.message_expiry_scan_period * 1000,
        name_scan_us=config.broker.address_queue_scan_period * 1000,
        max_unindexed_bytes=config.broker.max_unindexed_bytes,
        idle_mark_us=journal.idle_mark_delay * 1000,
        memory=memory_options(config.broker),
    )
