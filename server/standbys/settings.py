"""The settings of a cluster, from the configuration, for the node and for its broker."""

from pathlib import Path
from typing import Final

from daybook.replication.links import Address, Security
from daybook.replication.node import Times
from daybook.replication.quorum import Acks
from daybook.replication.runner import Settings
from daybook.server.configuration.replication_config import Place, ReplicationConfig

MARGIN_US: Final = 100_000
"""The least time between the end of a lease and the last confirm."""


def times_of(config: ReplicationConfig) -> Times:
    """Return how long things take."""
    lease = config.lease * 1_000
    return Times(lease=lease, margin=lease // 10 + MARGIN_US, lag=config.lag_max * 1_000)


def settings_of(config: ReplicationConfig) -> Settings:
    """Return what a node knows of its cluster."""
    security = None
    if config.certificate:
        files = (config.certificate, config.key, config.authority)
        security = Security(*map(Path, files))
    return Settings(
        cluster=config.cluster,
        name=config.node,
        nodes={name: _address(place) for name, place in config.nodes.items()},
        listen=_address(config.listen),
        acks=Acks(config.acks),
        times=times_of(config),
        security=security,
    )


def _address(place: Place) -> Address:
    return Address(place.host, place.port)
