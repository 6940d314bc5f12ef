"""Bodies that arrive in several reads.

Must never know what a body is used for.
"""

from typing import Final

from daybook.engine.commands import Send
from daybook.protocols.stomp.sending import SendPlan
from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.frames import UNTIL_NUL, body_too_long, wrong_length
from daybook.protocols.stomp.wire.options import StompOptions

CHUNK_BYTES: Final = 64 * 1024
"""Length of the chunks of a large body, except the last; less if bodies are large below it."""


class Gathering:
    """The body of a SEND that is too long for one read. Each byte is examined only once.

    Up to `min-large-message-size` it is kept until it is complete; a longer one is passed on in
    chunks that do not depend on how the input was split. The session keeps `send`, the command for
    this body, and `chunks`, the LSNs of the chunks that were passed on. `is_whole` says whether the
    body is complete. `problem` is its fault, if any, to be reported after the bytes before it were
    passed on. `buffered_bytes` is the number of bytes kept here.
    """

    __slots__ = (
        "_chunk_bytes", "_large_from", "_limit", "_options", "_pieces", "buffered_bytes", "chunks",
        "head", "is_whole", "length", "plan", "problem", "send", "size",
    )  # fmt: skip

    def __init__(self, head: bytes, plan: SendPlan, options: StompOptions) -> None:
        self.head: bytes = head
        self.plan: SendPlan = plan
        self.length: int = plan.length
        self.size: int = 0
        self.is_whole: bool = False
        self.chunks: list[int] = []
        self.send: Send | None = None
        self.problem: StompError | None = None
        self._options: StompOptions = options
        self._limit: int = options.max_data_length
        self._large_from: int = options.min_large_message_size + 1
        self._chunk_bytes: int = min(CHUNK_BYTES, max(1, options.min_large_message_size))
        self._pieces: list[bytes] = []
        self.buffered_bytes: int = 0

    @property
    def is_large(self) -> bool:
        """Whether the body is passed on in chunks."""
        return max(self.length, self.size) >= self._large_from

    def add(self, data: bytes) -> int:
        """Add the body's part of `data`; return its length with the NUL, -1 if more must follow."""
        end = data.find(b"\0") if self.length == UNTIL_NUL else self.length - self.size
        is_whole = 0 <= end < len(data)
        piece = data[:end] if is_whole else data
        if self.length != UNTIL_NUL:
            if is_whole and data[end] != 0:
                self.problem = wrong_length(self.length)
        elif self.size + len(piece) > self._limit:
            self.problem = body_too_long(f"more than {self._limit}", self._options)
            piece = piece[: self._limit - self.size]
        self.size += len(piece)
        self.buffered_bytes += len(piece)
        self._pieces.append(piece)
        self.is_whole = is_whole and self.problem is None
        return end + 1 if self.is_whole else -1

    def chunk(self, is_whole: bool) -> bytes:
        """Return the next chunk to pass on, b"" if there is none yet.

        When the body `is_whole`, the last chunk may be shorter than the others.
        """
        length = self._chunk_bytes
        if (
            not self.buffered_bytes
            or not self.is_large
            or (self.buffered_bytes < length and not is_whole)
        ):
            return b""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        rest = data[length:]
        self._pieces = [rest]
        self.buffered_bytes = len(rest)
        return data[:length]

    def put_back(self, chunk: bytes) -> None:
        """Put back a chunk that could not be passed on yet."""
        self._pieces.insert(0, chunk)
        self.buffered_bytes += len(chunk)

    def body(self) -> bytes:
        """Return the whole body, if no part of it was passed on."""
        return b"".join(self._pieces)
