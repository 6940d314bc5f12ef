"""The bytes that are journaled but not indexed yet, and their limit.

Entries that are not in the index must stay in memory. Above a limit, a sender is blocked at its
next message (its connection is not blocked for acknowledgements and consumers), until three
quarters of the limit are left. Above half of the limit, only senders to topics with several queues
are blocked, because each of their messages becomes many events: otherwise a few of them would block
all others. If indexing has failed, senders are refused. Must never know the indexer, nor why it is
slow.
"""

from typing import Final

from daybook.engine.broker import Broker
from daybook.engine.settings.setting_keys import BLOCK, FAIL

SEVERAL: Final = 8
"""A topic with so many subscriptions makes many events of a message."""
_LIMIT: Final = (
    "{} bytes wait for the index ({}max-unindexed-bytes), so the broker takes no messages"
)
BEHIND: Final = f"more than {_LIMIT} until the index has caught up; consumers can continue"
HALF_BEHIND: Final = (
    f"more than {_LIMIT} for topics with {SEVERAL} or more subscriptions until the index has caught"
    " up; other senders, and consumers, can continue"
)
NOTICE_US: Final = 60_000_000
"""The time between two notices about blocked senders."""


class Unindexed:
    """Rows and heaps of all blocks closed so far, and of those that are indexed; in bytes."""

    def __init__(self, broker: Broker) -> None:
        self.journaled = 0
        self.indexed = 0
        self._broker: Final = broker
        # How many subscriptions a topic must have for its senders to wait; None: nobody waits.
        self._blocked_from: int | None = None
        self._failing = ""
        self._noticed = -NOTICE_US

    @property
    def bytes(self) -> int:
        """Bytes in closed blocks that are not indexed."""
        return self.journaled - self.indexed

    def add(self, count: int, limit: int) -> None:
        """A block was closed."""
        self.journaled += count
        if self.bytes > limit // 2:
            self._review(limit)

    def index(self, indexed: int, limit: int) -> bool:
        """`indexed` bytes are indexed; return whether more messages are accepted again."""
        self.indexed = indexed
        return self._blocked_from is not None and self._review(limit) and not self._failing

    def fail(self, why: str, limit: int) -> None:
        """Indexing has failed; senders are refused with this reason. "": it works again."""
        self._failing = why
        self._judge(limit)

    def _review(self, limit: int) -> bool:
        """Block or unblock senders by the bytes that are not indexed; return whether fewer wait."""
        before = self._blocked_from
        waits = self.bytes
        if waits > (limit * 3 // 4 if before == 0 else limit):
            self._blocked_from = 0
        elif waits > (limit // 2 if before is None else limit * 3 // 8):
            self._blocked_from = SEVERAL
        else:
            self._blocked_from = None
        if self._blocked_from == before:
            return False
        self._judge(limit)
        return before == 0 or self._blocked_from is None

    def _judge(self, limit: int) -> None:
        if self._failing:
            self._broker.block_senders(self._failing, FAIL)
        elif self._blocked_from is None:
            self._broker.block_senders("", BLOCK)
        else:
            half = HALF_BEHIND.format(limit // 2, "half of ")
            text = half if self._blocked_from else BEHIND.format(limit, "")
            self._broker.block_senders(text, BLOCK, self._blocked_from)
            is_due = self._broker.now - self._noticed >= NOTICE_US
            if is_due and self._broker.has_topics(self._blocked_from):
                self._noticed = self._broker.now
                self._broker.notices.append(text)
