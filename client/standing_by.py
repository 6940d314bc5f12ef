"""A sentence about a node that follows: who leads, and how far this node is behind (ADR 118).

A command may ask a data directory on which no broker runs. The answer ends with the last event that
the cluster has confirmed here. Fault model: nothing waits for a node that does not answer soon; the
sentence says so. Must never know what was asked.
"""

from pathlib import Path
from typing import Any, Final

from daybook.client.control import ControlError, ask
from daybook.journal.confirmed import ConfirmedDisk, is_bounded
from daybook.journal.data_directory import NODE_SOCKET

SECONDS: Final = 2.0


def about_standby(directory: Path) -> str:
    """Return the sentence; "" on the node that leads, and where there is no cluster. Raises
    JournalError and OSError."""
    if not is_bounded(directory):
        return ""
    try:
        status = ask(directory, {"do": "cluster"}, SECONDS, name=NODE_SOCKET)
    except ControlError as error:
        return f"how far this node of a cluster is behind is not known: {error}"
    if status is None:
        confirmed = ConfirmedDisk(directory).confirmed_lsn
        return (
            "no node of the cluster runs here, so this ends with event"
            f" {confirmed:,}, the last one of which it knew that the cluster has confirmed it"
        )
    return _about(status)


def _about(status: dict[str, Any]) -> str:
    if status["role"] in ("leading", "opening"):
        return ""
    leader = f"'{status['leader']}', which leads" if status["leader"] else "nobody: no node leads"
    behind = f"{status['lag_events']:,} events, {status['lag_seconds']:.1f} s behind"
    return f"this node, '{status['node']}', follows {leader}; it is {behind}"
