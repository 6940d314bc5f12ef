"""The limits of a virtual host, as the configuration says them (ADR 58).

Must never know what they are compared with (`engine.core.hosts`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec


class HostLimits(msgspec.Struct, frozen=True):
    """How much a virtual host may have, 0 for no limit: connections, addresses, queues, and bytes
    of messages in its queues."""

    max_connections: int = 0
    max_addresses: int = 0
    max_queues: int = 0
    max_size: int = 0


UNLIMITED: Final = HostLimits()
NO_HOSTS: Final[Mapping[str, HostLimits]] = {}
"""Without virtual hosts in the configuration there is only the default one."""
