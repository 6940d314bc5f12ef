"""Converts the configuration of memory to the limits of the account and of the engine.

`max-memory` is a size or a percentage of the memory of the machine or its control group. Limits
that are not configured are derived from it. Must never act on a limit.
"""

from collections.abc import Mapping

from daybook.engine.core.core import Options
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.queues.consumer import UNLIMITED
from daybook.server.configuration.config import BrokerConfig
from daybook.server.hub.memory import MemoryOptions
from daybook.server.process.machine_memory import available


def memory_options(broker: BrokerConfig) -> MemoryOptions:
    """Return the limits of the account."""
    limit = max_memory(broker.max_memory)
    return MemoryOptions(
        limit=limit,
        of_user=of_user(broker.max_memory_per_user, limit),
        unacked_max=broker.max_unacknowledged_bytes or UNLIMITED,
        stalled_us=broker.stalled_timeout * 1000,
        transaction_timeout_us=broker.transaction_timeout * 1000,
        transaction_scan_us=broker.transaction_timeout_scan_period * 1000,
    )


def max_memory(configured: str | int) -> int:
    """Return the limit of the total in bytes; 0 for none."""
    if isinstance(configured, int):
        return configured
    return available() * int(configured.removesuffix("%")) // 100


def of_user(configured: str | int, limit: int) -> int:
    """Return how many bytes one user may use, of the limit for all; 0 for no limit."""
    if isinstance(configured, int):
        return configured
    return limit * int(configured.removesuffix("%")) // 100


def engine_options(broker: BrokerConfig, hosts: Mapping[str, HostLimits]) -> Options:
    """Return the limits and options of the engine."""
    share = memory_options(broker).share
    global_max_size = broker.global_max_size
    return Options(
        persist_delivery_count_before_delivery=broker.persist_delivery_count_before_delivery,
        max_transaction_bytes=broker.max_transaction_bytes,
        max_transaction_entries=broker.max_transaction_entries,
        max_transactions_memory=broker.max_transactions_memory or share,
        max_open_transactions=broker.max_open_transactions,
        max_connections_per_user=_connections_per_user(broker),
        max_queues_per_user=broker.max_queues_per_user,
        global_max_size=min(global_max_size, share) if global_max_size > 0 else global_max_size,
        global_max_messages=broker.global_max_messages,
        disk_full_policy=broker.disk_full_policy,
        persist_id_cache=broker.persist_id_cache,
        spaces_in_names=broker.spaces_in_names,
        journal_direct=broker.journal_direct,
        hosts=hosts,
    )


def _connections_per_user(broker: BrokerConfig) -> int:
    """Return how many connections a user may have, 0 for no limit."""
    configured = broker.max_connections_per_user
    return configured if configured >= 0 else max(1, broker.max_connections // 2)
