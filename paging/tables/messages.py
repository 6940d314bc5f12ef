"""The messages between broker and indexer, over a pair of connected sockets (ADR 8).

Each message is its length (u32, little endian) and msgpack. The indexer waits until the broker has
read its messages. The broker never waits: messages that it cannot send now wait, and of these only
the newest matters. Must never know the readers.
"""

import socket
from struct import Struct
from typing import Final, TypeAlias

import msgspec

_LENGTH: Final = Struct("<I")
_READ_BYTES: Final = 64 * 1024


class Durable(msgspec.Struct, tag="durable", array_like=True):
    """Broker: everything up to `lsn` is durable, and to be committed now. `digest`: also report the
    digest. `snapshot_every` is the number of bytes between two snapshots, 0 for none.
    `catalog_headers` are the headers that are catalogued; None: no catalogs are made."""

    lsn: int
    digest: bool = False
    snapshot_every: int = 0
    catalog_headers: str | None = None


class Indexed(msgspec.Struct, tag="indexed", array_like=True):
    """Indexer: the tables are the state at `lsn`. `digest` if it was asked for, else empty.

    `processor_seconds` is the processor time of the process since its start, `map_bytes` the size
    of the tables, `digest_seconds` how long the digest took, during which indexing stopped, and
    `seconds` how long the commit took by the clock. `snapshot_lsn` is the newest snapshot, and
    `snapshot_trouble` says why the last one could not be written, `catalog_trouble` the same of
    catalogs.
    """

    lsn: int
    digest: str = ""
    processor_seconds: float = 0.0
    map_bytes: int = 0
    digest_seconds: float = 0.0
    seconds: float = 0.0
    snapshot_lsn: int = 0
    snapshot_trouble: str = ""
    catalog_trouble: str = ""


class Trouble(msgspec.Struct, tag="trouble", array_like=True):
    """Indexer: it cannot commit for now (disk full or read-only), and tries again."""

    text: str


class Damaged(msgspec.Struct, tag="damaged", array_like=True):
    """Indexer: it cannot continue; `index` says whether because of the tables or of the journal.

    `corrupt` says that it read the journal and found it damaged, so that trying again does not
    help.
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
    """The other side has closed the connection."""


class Line:
    """One end of the pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket: Final = end
        self._buffer: Final = bytearray()
        # Unsent data of `offer`: the rest of a message, and the message after it.
        self._rest = b""
        self._next: Durable | None = None

    def fileno(self) -> int:
        """The descriptor, for waiting on several."""
        return self._socket.fileno()

    def say(self, message: Said) -> None:
        """Send a message; wait as long as the other side does not read. Raises Ended."""
        try:
            self._socket.sendall(_packed(message))
        except OSError as error:
            raise Ended from error

    def offer(self, message: Durable) -> None:
        """Send a message as soon as there is room for it, and never wait.

        It replaces an offered message that was not sent yet: it contains the same and more.
        """
        waiting = self._next
        if waiting is not None:
            message = Durable(
                max(waiting.lsn, message.lsn),
                waiting.digest or message.digest,
                message.snapshot_every,
                message.catalog_headers,
            )
        self._next = message
        self.flush()

    def flush(self) -> None:
        """Send offered messages, as far as there is room now.

        Messages to an ended process are dropped: `hear` has its last messages, and
        then raises Ended.
        """
        while self._rest or self._next is not None:
            if not self._rest and self._next is not None:
                self._rest = _packed(self._next)
                self._next = None
            try:
                sent = self._socket.send(self._rest, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                self._rest, self._next = b"", None
                return
            self._rest = self._rest[sent:]

    def hear(self, timeout_seconds: float | None) -> list[Said]:
        """Return received messages; wait for the first one up to the timeout (None: without limit).

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
        """Close the connection."""
        self._socket.close()
