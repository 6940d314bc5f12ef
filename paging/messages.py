"""What broker and indexer say to each other, over a pair of connected sockets (ADR 8).

Each message is its length (u32, little endian) and msgpack. The indexer waits until the broker took
what it says; the broker waits for nobody: what it cannot say now it says later, and of what waits
the newest is all that matters. Must never know who reads it.
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
    tables, `digest_seconds` how long the digest took, while nothing was indexed.
    """

    lsn: int
    digest: str = ""
    processor_seconds: float = 0.0
    map_bytes: int = 0
    digest_seconds: float = 0.0


class Trouble(msgspec.Struct, tag="trouble", array_like=True):
    """Indexer: it cannot commit for now (disk full or read-only), and tries again."""

    text: str


class Damaged(msgspec.Struct, tag="damaged", array_like=True):
    """Indexer: it cannot go on; `index` says whether for the tables or for the journal.

    `corrupt` says whether it read the journal and found it damaged, which trying again heals not.
    """

    text: str
    index: bool
    corrupt: bool = False


Said: TypeAlias = Durable | Indexed | Trouble | Damaged

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Said)


def _packed(message: Said) -> bytes:
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Ended(Exception):
    """The other side has gone."""


class Line:
    """One end of the pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket: Final = end
        self._buffer: Final = bytearray()
        # What `offer` could not say yet: the rest of a message, and what comes after it.
        self._rest = b""
        self._next: Durable | None = None

    def fileno(self) -> int:
        """Descriptor, for those who wait for several."""
        return self._socket.fileno()

    def say(self, message: Said) -> None:
        """Send a message, however long the other side does not read. Raises Ended."""
        try:
            self._socket.sendall(_packed(message))
        except OSError as error:
            raise Ended from error

    def offer(self, message: Durable) -> None:
        """Send a message as soon as there is room for it, and never wait. Raises Ended.

        It takes the place of one that had no room: it says the same and more.
        """
        waiting = self._next
        if waiting is not None:
            message = Durable(
                max(waiting.lsn, message.lsn),
                waiting.urgent or message.urgent,
                waiting.digest or message.digest,
            )
        self._next = message
        self.flush()

    def flush(self) -> None:
        """Send what was offered and has room now. Raises Ended."""
        while self._rest or self._next is not None:
            if not self._rest and self._next is not None:
                self._rest = _packed(self._next)
                self._next = None
            try:
                sent = self._socket.send(self._rest, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                raise Ended from error
            self._rest = self._rest[sent:]

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
