"""Bodies of messages that are sent and received in pieces, whatever the protocol.

Long ones are never whole in memory. Fault model: a file may shrink while it is read.
"""

from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import IO, Final, NamedTuple

PIECE_BYTES: Final = 1 << 18
BODY_BYTES_IN_MEMORY: Final = 1 << 20


class Content(NamedTuple):
    """A body to send: its length in bytes, and a function that returns its pieces.

    The pieces may end early, as when a file shrinks while it is read.
    """

    size: int
    pieces: Callable[[], Iterator[bytes]]


class Received:
    """A received body, kept until `close`; in a file if it exceeds BODY_BYTES_IN_MEMORY."""

    def __init__(self) -> None:
        self.size = 0
        self._kept = bytearray()
        self._file: IO[bytes] | None = None

    def add(self, piece: bytes) -> None:
        """Append the next piece."""
        self.size += len(piece)
        self._kept += piece
        if self._file is None and self.size > BODY_BYTES_IN_MEMORY:
            self._file = TemporaryFile()  # noqa: SIM115 - it lives as long as the body
        if self._file is not None:
            self._file.write(self._kept)
            self._kept.clear()

    def pieces(self) -> Iterator[bytes]:
        """Return the whole body, piece by piece."""
        if self._file is None:
            yield bytes(self._kept)
            return
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """Discard the body and its file."""
        self._kept.clear()
        if self._file is not None:
            self._file.close()
