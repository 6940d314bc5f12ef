"""A paged range: the part of a level of a queue whose entries only the store has.

Counts what is in it, and knows the few resident entries in between. Must never know the queue.
"""

from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import Entry


class PagedRange:
    """The part of a level that only the store has: `count` entries with after < id <= until.

    `islands` are resident entries in between, in no order. `transients` and `transient_bytes` are
    the part of `count` and `bytes` that is non-persistent. `first` is the id of the first entry, 0
    as long as nobody asked the store for it.
    """

    __slots__ = (
        "after", "bytes", "count", "first", "islands", "transient_bytes", "transients", "until",
    )  # fmt: skip

    def __init__(self, after: int, until: int) -> None:
        self.after = after
        self.until = until
        self.count = 0
        self.bytes = 0
        self.transients = 0
        self.transient_bytes = 0
        self.first = 0
        self.islands: list[Entry] = []

    def add(self, message: Message) -> None:
        """Count an entry that from now on is only in the store."""
        self.count += 1
        self.bytes += message.size
        self.first = min(self.first, message.id)
        if not message.persistent:
            self.transients += 1
            self.transient_bytes += message.size

    def subtract(self, message: Message) -> None:
        """Stop counting an entry that came into memory."""
        self.count -= 1
        self.bytes -= message.size
        if self.first == message.id:
            self.first = 0
        if not message.persistent:
            self.transients -= 1
            self.transient_bytes -= message.size
