"""What is journaled and not indexed yet, and what senders meet because of it.

What is not in the index is in memory, and its entries cannot leave. Above a limit whoever sends is
held at its next message (not its connection: acknowledgements, and all that consumers do, go on),
until three quarters of it are left. When the index cannot go on at all senders are refused. Must
never know who indexes, and why it is slow.
"""

from typing import Final

from daybook.engine.broker import Broker
from daybook.engine.settings import BLOCK, FAIL

BEHIND: Final = (
    "more than {} bytes wait for the index (max-unindexed-bytes), so the broker takes no messages "
    "until it has caught up; consumers can go on"
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
        """What is closed and not indexed."""
        return self.journaled - self.indexed

    def add(self, count: int, limit: int) -> None:
        """A block was closed."""
        self.journaled += count
        if not self._is_behind and self.bytes > limit:
            self._is_behind = True
            self._judge(limit)

    def index(self, indexed: int, limit: int) -> bool:
        """So much is indexed; answers whether messages are taken again."""
        self.indexed = indexed
        if self._is_behind and self.bytes <= limit * 3 // 4:
            self._is_behind = False
            self._judge(limit)
            return not self._failing
        return False

    def fail(self, why: str, limit: int) -> None:
        """The index cannot go on, for what is said to senders; empty: it can."""
        self._failing = why
        self._judge(limit)

    def _judge(self, limit: int) -> None:
        if self._failing:
            self._broker.hold(self._failing, FAIL)
        else:
            self._broker.hold(BEHIND.format(limit) if self._is_behind else "", BLOCK)
