"""The state of a node, and of the others as it sees them, as one table of names and values.

`daybook cluster status`, health, the probe's answers and metrics are made from it. Must never
change anything.
"""

from typing import Any, Final

from daybook.replication.lags import Lag
from daybook.replication.node import Role
from daybook.replication.runner import Follower, Runner, Status
from daybook.replication.standby_index import StandbyIndex
from daybook.server.configuration.replication_config import ReplicationConfig
from daybook.server.standbys.cut_tails import CutTails

US_PER_S: Final = 1_000_000
US_PER_MS: Final = 1_000


def status_of(
    config: ReplicationConfig, runner: Runner, index: StandbyIndex | None, cut: CutTails
) -> dict[str, Any]:
    """Return the state of a node. Raises OSError."""
    found, broker = runner.status(), runner.broker
    return {
        "cluster": config.cluster,
        "node": config.node,
        "role": found.role.value,
        "epoch": found.epoch,
        "leader": _leader(config, runner, found),
        "promised": runner.leader,
        "acks": config.acks,
        "lsn": found.lsn,
        "confirmed_lsn": found.durable,
        **_lag("lag", found.lag),
        "silence_seconds": None if found.silence is None else _seconds(found.silence),
        **_lag("waiting", found.waiting),
        "lease_seconds": _seconds(found.lease),
        "leads": found.leads,
        "whole": found.is_whole,
        "why": found.why,
        "arbiter": config.arbiter,
        "arbiter_trouble": found.arbiter_trouble,
        "strays": found.strays,
        "indexed_lsn": index.indexed if index is not None else None,
        "index_trouble": index.trouble if index is not None else "",
        "cut_tails": cut.count,
        "cut_bytes": cut.bytes,
        "cut_removed": cut.removed,
        "broker_pid": broker.pid if broker is not None else None,
        "warm_broker_pid": runner.warm.pid if runner.warm.is_prepared else None,
        "nodes": [
            {"node": name, "address": str(place), **_in_sync(name, found), **_other(name, found)}
            for name, place in config.nodes.items()
            if name != config.node
        ],
    }


def _leader(config: ReplicationConfig, runner: Runner, found: Status) -> str:
    """Return who leads; "" if this node has not heard of anybody for as long as a lease lasts."""
    if found.role is Role.LEADING:
        return config.node
    is_heard = found.silence is not None and found.silence <= config.lease * US_PER_MS
    return runner.leader if is_heard else ""


def _in_sync(name: str, found: Status) -> dict[str, Any]:
    state = found.in_sync.get(name)
    return {
        "in_sync": state.is_in_sync if state is not None else None,
        "in_sync_seconds": _seconds(state.since) if state is not None else None,
    }


def _other(name: str, found: Status) -> dict[str, Any]:
    """Return what a node that leads knows of another one."""
    follower = found.followers.get(name)
    trouble = found.trouble.get(name, "")
    if follower is None or follower.acked is None:
        return _unknown(follower) | {"trouble": trouble}
    return {
        "joined": True,
        "acknowledged_lsn": follower.acked,
        "behind": follower.lag.events,
        "behind_bytes": follower.lag.bytes,
        "behind_seconds": _seconds(follower.lag.microseconds),
        "trouble": trouble,
    }


def _unknown(follower: Follower | None) -> dict[str, Any]:
    return {
        "joined": follower is not None,
        "acknowledged_lsn": None,
        "behind": None,
        "behind_bytes": None,
        "behind_seconds": None,
    }


def _lag(name: str, lag: Lag) -> dict[str, Any]:
    return {
        f"{name}_events": lag.events,
        f"{name}_bytes": lag.bytes,
        f"{name}_seconds": _seconds(lag.microseconds),
    }


def _seconds(microseconds: int) -> float:
    return round(microseconds / US_PER_S, 3)
