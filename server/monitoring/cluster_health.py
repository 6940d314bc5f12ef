"""The troubles of a cluster, as one of its nodes sees them.

The same judgement serves `daybook cluster status`, `daybook health`, probes and metrics. It uses
only the status of the node. Must never know where that comes from.
"""

from collections.abc import Mapping
from typing import Any, Final

from daybook.texts import counted

LEADING: Final = "leading"
FOLLOWING: Final = "following"
WAITING_SECONDS: Final = 10.0
"""How long events may wait for the disks of followers before that is a problem."""
LAG_SECONDS: Final = 30.0
"""How far behind a follower may be before that is a problem."""


def cluster_troubles(status: Mapping[str, Any]) -> list[str]:
    """Return sentences; none without a status."""
    if not status:
        return []
    found = []
    if status["arbiter_trouble"]:
        found.append(f"the arbiter does not answer: {status['arbiter_trouble']}")
    if status["role"] != LEADING:
        found += status["strays"]
    if status["role"] == LEADING:
        found += _of_leader(status)
    elif not status["leader"]:
        why = f"; this one does not, because {status['why']}" if status["why"] else ""
        found.append(f"no node leads: enough nodes, and the arbiter, must be there{why}")
    elif status["lag_seconds"] > LAG_SECONDS:
        found.append(f"this node is behind '{status['leader']}' by {_lag(status, 'lag_')}")
    if status["index_trouble"]:
        found.append(f"the index of this node is behind: {status['index_trouble']}")
    if status.get("console_trouble"):
        found.append(f"the console of this node does not run: {status['console_trouble']}")
    return found


def _of_leader(status: Mapping[str, Any]) -> list[str]:
    found = []
    for each in status["nodes"]:
        if not each["joined"]:
            why = f": {each['trouble']}" if each["trouble"] else ""
            found.append(f"'{each['node']}' does not follow{why}")
        elif each["in_sync"] is False:
            found.append(f"'{each['node']}' is not in sync, for {each['in_sync_seconds']:.0f} s")
        elif (each["behind_seconds"] or 0) > LAG_SECONDS:
            found.append(f"'{each['node']}' is behind by {_lag(each, 'behind_')}")
    if status["waiting_seconds"] > WAITING_SECONDS:
        found.append(
            f"nothing is confirmed for {status['waiting_seconds']:.0f} s: too few followers have"
            f" the last {counted(status['waiting_events'], 'event')} (acks = {status['acks']})"
        )
    return found


def _lag(row: Mapping[str, Any], prefix: str) -> str:
    return f"{row[f'{prefix}seconds']:.0f} s and {row[f'{prefix}bytes']:,} bytes"


def role_for_clients(status: Mapping[str, Any]) -> str:
    """Return why a node takes no clients, in words for anybody; "" if it leads."""
    if status["role"] == LEADING:
        return ""
    if status["role"] != FOLLOWING:
        return "this node is about to lead"
    return f"follows {status['leader']}" if status["leader"] else "no node leads"
