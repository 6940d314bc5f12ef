"""The metrics of a node of a cluster: name, meaning, and how each is read from its status.

The node shows them while it follows, the broker while it leads. Must never know where the status
comes from.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from daybook.protocols.port import Family, Reading

ROLES: Final = ("following", "standing", "opening", "leading")
FOLLOWER: Final = "follower"

Status: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Sequence[tuple[tuple[str, ...], float]]


class ClusterFigure(NamedTuple):
    """A metric: its family, and how it is read."""

    family: Family
    read: Callable[[Status], Values]


def _of_node(name: str, key: str, meaning: str, kind: str = "gauge") -> ClusterFigure:
    """Return a metric of this node, a key of the status; text counts as trouble."""

    def read(status: Status) -> Values:
        value = status[key]
        number = float(not value) if isinstance(value, str) else float(value or 0)
        return [((), number)]

    return ClusterFigure(Family(f"daybook_cluster_{name}", kind, meaning), read)


def _of_followers(name: str, key: str, meaning: str) -> ClusterFigure:
    """Return a metric of each follower, which the node that leads knows."""

    def read(status: Status) -> Values:
        if status["role"] != ROLES[-1]:
            return []
        rows = [(each["node"], each[key]) for each in status["nodes"]]
        return [((node,), float(value)) for node, value in rows if value is not None]

    return ClusterFigure(
        Family(f"daybook_cluster_follower_{name}", "gauge", meaning, (FOLLOWER,)), read
    )


def _roles(status: Status) -> Values:
    return [
        ((status["cluster"], status["node"], role), float(role == status["role"])) for role in ROLES
    ]


CLUSTER: Final = (
    ClusterFigure(
        Family(
            "daybook_cluster_role",
            "gauge",
            "1 for what this node of a cluster does, 0 for what it does not.",
            ("cluster", "node", "role"),
        ),
        _roles,
    ),
    _of_node("epoch", "epoch", "The newest epoch that this node knows; each lead has a new one."),
    _of_node(
        "leads_total", "leads", "How often this node began to lead since it started.", "counter"
    ),
    _of_node(
        "whole", "whole",
        "1 if this node may lead with some of the others; 0 while it is new, or lost its directory,"
        " and has not got everything yet.",
    ),
    _of_node(
        "lease_seconds", "lease_seconds",
        "How long this node may still lead without the arbiter; 0 while it follows.",
    ),
    _of_node("arbiter_up", "arbiter_trouble", "1 if the arbiter answers this node, 0 if not."),
    _of_node("lsn", "lsn", "The last event on the disk of this node."),
    _of_node("confirmed_lsn", "confirmed_lsn", "The last event that enough nodes have on disk."),
    _of_node(
        "waiting_events", "waiting_events",
        "Events on the disk of the leader that too few followers have, so that they are not"
        " confirmed.",
    ),
    _of_node("waiting_bytes", "waiting_bytes", "Bytes of these events in the journal."),
    _of_node("waiting_seconds", "waiting_seconds", "How long the oldest of them has waited."),
    _of_node("lag_events", "lag_events", "Events that this node does not have yet; 0 if it leads."),
    _of_node("lag_bytes", "lag_bytes", "Bytes of these events in the journal."),
    _of_node("lag_seconds", "lag_seconds", "How long the leader has had the oldest of them."),
    _of_node(
        "silence_seconds", "silence_seconds",
        "How long ago the leader spoke to a follower; 0 if it leads, or never heard of one.",
    ),
    _of_node(
        "cut_tails", "cut_tails",
        "Tails in the folder `cut` of this node: events that a cluster continued without.",
    ),
    _of_node("cut_bytes", "cut_bytes", "Disk that these tails take."),
    _of_node(
        "cut_removed_total", "cut_removed",
        "Tails that left because of `cut-max-bytes` or `cut-max-age` since this node started.",
        "counter",
    ),
    _of_followers("joined", "joined", "1 if a follower gets the journal of this leader, 0 if not."),
    _of_followers(
        "in_sync", "in_sync",
        "1 if a follower counts as one that has what is confirmed, 0 if not.",
    ),
    _of_followers(
        "acknowledged_lsn", "acknowledged_lsn", "The last event on the disk of a follower."
    ),
    _of_followers("lag_events", "behind", "Events that a follower does not have yet."),
    _of_followers("lag_bytes", "behind_bytes", "Bytes of these events in the journal."),
    _of_followers("lag_seconds", "behind_seconds", "How long this leader has had the oldest."),
)  # fmt: skip
"""All metrics of clusters, in the order of their output."""


def cluster_readings(status: Status) -> Iterator[Reading]:
    """Yield the metrics of a node; none without a status."""
    if status:
        for figure in CLUSTER:
            yield Reading(figure.family, figure.read(status))
