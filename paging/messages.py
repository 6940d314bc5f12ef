"""What broker and indexer say to each other, over a pair of connected sockets (ADR 8).

Each message is its length (u32, little endian) and msgpack. Must never know who reads it.
"""

import socket
from struct import Struct
from typing import Final, TypeAlias

import msgspec

_LENGTH: Final = Struct("<I")
_READ_BYTES: Final = 64 * 1024


class Durable(msgspec.Struct, tag="durable", array_like=True):
    """Broker: everything up to `lsn` is durable. `urgent`: commit now; `digest`: and tell it."""

    lsn: int
    urgent: bool = False
    digest: bool = False


class Indexed(msgspec.Struct, tag="indexed", array_like=True):
    """Indexer: the tables are the state at `lsn`. `digest` if it was asked for, else empty.

    `processor_seconds` is what the process has used since its start, `map_bytes` the size of the
    tables.
    """

    lsn: int
    digest: str = ""
    processor_seconds: float = 0.0
    map_bytes: int = 0


class Trouble(msgspec.Struct, tag="trouble", array_like=True):
    """Indexer: it cannot commit for now (disk full or read-only), and tries again."""

    text: str


class Damaged(msgspec.Struct, tag="damaged", array_like=True):
    """Indexer: it cannot go on; `index` says whether for the tables or for the journal."""

    text: str
    index: bool


Said: TypeAlias = Durable | Indexed | Trouble | Damaged

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Said)


class Ended(Exception):
    """The other side has gone."""


class Line:
    """One end of the pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket: Final = end
        self._buffer: Final = bytearray()

    def fileno(self) -> int:
        """Descriptor, for those who wait for several."""
        return self._socket.fileno()

    def say(self, message: Said) -> None:
        """Send a message. Raises Ended."""
        body = _encoder.encode(message)
        try:
            self._socket.sendall(_LENGTH.pack(len(body)) + body)
        except OSError as error:
            raise Ended from error

    def hear(self, timeout_seconds: float | None) -> list[Said]:
        """Messages that have come; waits for the first as long as is said (None: for ever).

        Raises Ended when there can be no more.
        """
        self._socket.settimeout(timeout_seconds)
        try:
            data = self._socket.recv(_READ_BYTES)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError as error:
            raise Ended from error
        finally:
            self._socket.settimeout(None)
        if not data:
            raise Ended
        self._buffer.extend(data)
        return self._whole()

    def _whole(self) -> list[Said]:
        found = []
        start = 0
        buffer = self._buffer
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            found.append(_decoder.decode(bytes(buffer[start + _LENGTH.size : end])))
            start = end
        del buffer[:start]
        return found

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
