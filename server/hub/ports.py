"""The hub's options and notices.

Must never know the hub.
"""

from typing import Final

import msgspec

from daybook.server.hub.memory import MemoryOptions


def ignore_notice(text: str) -> None:
    """Do nothing; the default for `Hub.on_notice`."""


STALL_US: Final = 5_000_000
"""How long the end of a session waits for a peer that does not read a body."""


class HubOptions(msgspec.Struct):
    """Bounds and periods; bytes and microseconds."""

    block_bytes: int = 256 * 1024
    max_pending_bytes: int = 32 * 1024 * 1024
    max_unindexed_bytes: int = 32 * 1024 * 1024
    expiry_scan_us: int = 30_000_000
    name_scan_us: int = 30_000_000
    idle_mark_us: int = 1_000_000
    memory: MemoryOptions = msgspec.field(default_factory=MemoryOptions)
