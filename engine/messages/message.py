"""The contents of queues: a message, which never changes, and an entry, a queue's reference to it.

Must never know queues, or where content is stored that is not in memory.
"""

from typing import Final, Protocol

from daybook.engine.facts.details import Origin

PRIORITIES: Final = 10
DEFAULT_PRIORITY: Final = 4
MESSAGE_OVERHEAD_BYTES: Final = 128
"""The weight of a message in windows, in addition to its headers and body."""

ENTRY_BYTES: Final = 512
"""The measured memory of an entry and its message, in addition to `Message.size`."""

ENTRY_ALONE_BYTES: Final = 256
"""The part of that for the entry alone, without the message, which other entries may share."""

LARGE_BYTES: Final = 1024
"""The most memory of a large message, whatever its size."""

LARGE: Final = 4
"""Flag of a message whose body is in the journal only; the same as `events.LARGE`."""

UNREAD: Final = Origin()
"""In place of an origin that is only in the journal; compared by identity."""


class Filter(Protocol):
    """The methods of a filter: the extension point for selectors.

    A filter reads headers by a view (`engine.messages.content`), so it works on messages of every
    format.
    """

    def matches(self, message: "Message") -> bool:
        """Whether the message passes."""
        ...

    def work(self, message: "Message") -> int:
        """Return how many steps it takes to ask about a message (`Budget.step`)."""
        ...


class Message:
    """Immutable headers and body, shared by the entries of all queues that it was routed to.

    `resident` is false as long as headers and body are only in the journal (`Store.fill`);
    everything else is always known. `size` is in bytes, with the overhead. The body of a large
    message (flag LARGE) is never in memory: `chunks` are the LSNs of its pieces in the journal, and
    `size` includes it. `weight` is an estimate of the memory of an entry, without content that is
    in the journal only or counted with the entries of other queues. `origin` is where it was
    before, None for a message that is not a copy, or UNREAD (`Core.origin_of`). Size and weight
    include the annotations of an entry, which only few have (`engine.messages.annotations`).
    """

    __slots__ = (
        "address_id",
        "body",
        "chunks",
        "expires",
        "flags",
        "headers",
        "id",
        "origin",
        "priority",
        "resident",
        "size",
        "weight",
    )

    def __init__(
        self,
        message_id: int,
        address_id: int,
        priority: int,
        flags: int,
        expires: int,
        headers: bytes,
        body: bytes,
    ) -> None:
        self.id = message_id
        self.address_id = address_id
        self.priority = priority
        self.flags = flags
        self.expires = expires
        self.headers = headers
        self.body = body
        size = len(headers) + len(body) + MESSAGE_OVERHEAD_BYTES
        self.size = size
        self.weight = size + ENTRY_BYTES
        self.resident = True
        self.chunks: tuple[int, ...] = ()
        self.origin: Origin | None = None

    def enlarge(self, chunks: tuple[int, ...], body_bytes: int) -> None:
        """Make it a large message whose body is in these chunks; `resident` then means the
        headers."""
        self.chunks = chunks
        noted = len(self.annotations)
        size = len(self.headers) + body_bytes + MESSAGE_OVERHEAD_BYTES
        self.size = size + noted
        self.weight = min(size, LARGE_BYTES) + ENTRY_BYTES + noted

    def share(self, queue_count: int) -> None:
        """Make entries in so many queues each count a part of the content."""
        if not self.chunks:
            shared = self.size + ENTRY_BYTES - ENTRY_ALONE_BYTES
            self.weight = shared // queue_count + ENTRY_ALONE_BYTES

    def is_expired(self, now: int) -> bool:
        """Whether its time to live is over."""
        return 0 < self.expires * 1000 <= now

    @property
    def body_bytes(self) -> int:
        """Length of the body, wherever it is; headers must be resident."""
        if not self.chunks:
            return len(self.body)
        noted = len(self.annotations)
        return self.size - len(self.headers) - MESSAGE_OVERHEAD_BYTES - noted

    @property
    def annotations(self) -> bytes:
        """What consumers noted on it, packed."""
        return b""

    @property
    def persistent(self) -> bool:
        """Whether the message must survive a restart."""
        return self.flags & 1 == 1


def message_without_content(
    message_id: int, address_id: int, priority: int, flags: int, expires: int, size: int
) -> Message:
    """Make a message whose headers and body are in the journal only."""
    message = Message(message_id, address_id, priority, flags, expires, b"", b"")
    message.size = size
    message.weight = (min(size, LARGE_BYTES) if flags & LARGE else size) + ENTRY_BYTES
    message.resident = False
    message.origin = UNREAD
    return message
