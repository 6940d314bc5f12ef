"""The bytes that are journaled but not indexed yet, and their limit.

Entries that are not in the index must stay in memory. Above a limit, a sender is blocked at its
next message (its connection is not blocked for acknowledgements and consumers), until three
quarters of the limit are left. If indexing has failed, senders are refused. Must never know the
indexer, nor why it is slow.
"""

from typing import Final

from daybook.engine.broker import Broker
from daybook.engine.setting_keys import BLOCK, FAIL

BEHIND: Final = (
    "more than {} bytes wait for the index (max-unindexed-bytes), so the broker takes no "
    "messages until it has caught up; consumers can continue"
)


class Unindexed:
    """Rows and heaps of all blocks closed so far, and of those that are indexed; in bytes."""

    def __init__(self, broker: Broker) -> None:
        self.journaled = 0
        self.indexed = 0
        self._broker: Final = broker
        self._is_behind = False
        self._failing = ""

    @property
    def bytes(self) -> int:
        """Bytes in closed blocks that are not indexed."""
        return self.journaled - self.indexed

    def add(self, count: int, limit: int) -> None:
        """A block was closed."""
        self.journaled += count
        if not self._is_behind and self.bytes > limit:
            self._is_behind = True
            self._judge(limit)

    def index(self, indexed: int, limit: int) -> bool:
        """`indexed` bytes are indexed; return whether messages are accepted again."""
        self.indexed = indexed
        if self._is_behind and self.bytes <= limit * 3 // 4:
            self._is_behind = False
            self._judge(limit)
            return not self._failing
        return False

    def fail(self, why: str, limit: int) -> None:
        """Indexing has failed; senders are refused with this reason. "": it works again."""
        self._failing = why
        self._judge(limit)

    def _judge(self, limit: int) -> None:
        if self._failing:
            self._broker.hold(self._failing, FAIL)
        else:
            self._broker.hold(BEHIND.format(limit) if self._is_behind else "", BLOCK)
