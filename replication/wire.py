"""Frames: what nodes say, as bytes of a connection.

Each frame begins with its kind, its size and two checksums, so that a damaged one is noticed before
its size is believed. Blocks are sent as they are on the disk, behind their place; everything else
is msgpack. The first frame each way is a `Hello`.

Fault model: what arrives may be anything. A frame that is damaged, or larger than its kind may be,
raises WireDamage before memory is reserved for it; then the connection is to be closed. Must never
know a socket.
"""

import enum
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias, get_args

import msgspec
from crc32c import crc32c

from daybook.errors import DaybookError
from daybook.journal.places import Place
from daybook.replication.messages import Answer, Blocks, Said

VERSION: Final = 1
LANE_VERSION: Final = 1_001
"""Of the hello of a lane: a node that knows no lanes refuses it, and takes it for nothing else."""

# Kind, size of the content, crc of the content; and the crc of these, which comes behind them.
_HEADER: Final = Struct("<B3xII")
_CRC: Final = Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
_PLACE: Final = Struct("<QQ")
_SCRATCH_BYTES: Final = 128 << 10

HELLO_BYTES_MAX: Final = 4 << 10
SMALL_BYTES_MAX: Final = 16 << 20
BLOCKS_BYTES_MAX: Final = (1 << 30) + _PLACE.size
LANE_BYTES_MAX: Final = 64 << 10
"""How many bytes of blocks may come over a lane at once."""


class WireDamage(DaybookError):
    """What arrived is no frame of this protocol."""


class Kind(enum.IntEnum):
    """The kinds of frames."""

    HELLO = 1
    SAID = 2
    ANSWER = 3
    BLOCKS = 4
    PING = 5
    PONG = 6


_BYTES_MAX: Final = {
    Kind.HELLO: HELLO_BYTES_MAX,
    Kind.SAID: SMALL_BYTES_MAX,
    Kind.ANSWER: SMALL_BYTES_MAX,
    Kind.BLOCKS: BLOCKS_BYTES_MAX,
    Kind.PING: 0,
    Kind.PONG: 0,
}


class Hello(msgspec.Struct, frozen=True):
    """Who is at this end of the connection, and which version of the protocol it speaks; the id of
    its arbiter, "" before that has answered, and where that is. `lead` is the epoch of the lead
    whose broker opens a lane; 0 for a node."""

    version: int
    cluster: str
    node: str
    arbiter: str = ""
    place: str = ""
    lead: int = 0


class Ping(msgspec.Struct, frozen=True):
    """Asks whether the other side is alive."""


class Pong(msgspec.Struct, frozen=True):
    """The answer to `Ping`."""


Message: TypeAlias = Hello | Said | Answer | Ping | Pong

_encoder: Final = msgspec.msgpack.Encoder()
_decoders: Final[dict[Kind, msgspec.msgpack.Decoder[Message]]] = {
    Kind.HELLO: msgspec.msgpack.Decoder(Hello),
    Kind.SAID: msgspec.msgpack.Decoder(Said),
    Kind.ANSWER: msgspec.msgpack.Decoder(Answer),
}
_KINDS: Final[dict[type[Message], Kind]] = (
    {Hello: Kind.HELLO, Ping: Kind.PING, Pong: Kind.PONG}
    | dict.fromkeys(get_args(Said), Kind.SAID)
    | dict.fromkeys(get_args(Answer), Kind.ANSWER)
)
_KIND_OF: Final = {int(each): each for each in Kind}


def pack(message: Message) -> list[bytes]:
    """Return the frame of a message, in parts that are to be sent one behind the other."""
    if isinstance(message, Blocks):
        place = _PLACE.pack(*message.place)
        crc = crc32c(message.data, crc32c(place))
        return [_header(Kind.BLOCKS, len(place) + len(message.data), crc) + place, message.data]
    kind = _KINDS[type(message)]
    if kind in (Kind.PING, Kind.PONG):
        return [_header(kind, 0, 0)]
    content = _encoder.encode(message)
    return [_header(kind, len(content), crc32c(content)) + content]


def _header(kind: Kind, size: int, crc: int) -> bytes:
    assert size <= _BYTES_MAX[kind]
    packed = _HEADER.pack(kind, size, crc)
    return packed + _CRC.pack(crc32c(packed))


class FrameReader:
    """Finds messages in what arrives. Write into `buffer`, then call `received`.

    Until `trust` only a Hello is taken, so a stranger costs no more than the scratch.
    """

    def __init__(self) -> None:
        self._scratch: Final = bytearray(_SCRATCH_BYTES)
        self._view: Final = memoryview(self._scratch)
        self._start = 0
        self._end = 0
        # A frame that is larger than the scratch: its kind, its crc, and what arrived of it.
        self._large: tuple[Kind, int, bytearray] | None = None
        self._filled = 0
        self._trusted = False

    def trust(self) -> None:
        """Take all kinds of frames from now on."""
        self._trusted = True

    def buffer(self) -> memoryview:
        """Return where the next bytes are to go; it is never empty."""
        if self._large is not None:
            return memoryview(self._large[2])[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> Iterator[Message]:
        """Return the messages that are whole, after so many bytes came into the buffer. Raises
        WireDamage."""
        if self._large is not None:
            self._filled += count
            kind, crc, content = self._large
            if self._filled == len(content):
                self._large = None
                yield _unpack(kind, crc, memoryview(content))
            return
        self._end += count
        while (found := self._next_header()) is not None:
            kind, size, crc = found
            start = self._start + HEADER_BYTES
            if start + size > self._end:
                self._wait_for(kind, size, crc, start)
                break
            self._start = start + size
            yield _unpack(kind, crc, self._view[start : start + size])
        self._make_room()

    def _next_header(self) -> tuple[Kind, int, int] | None:
        """Return kind, size and crc of the frame that begins here; None if its header is not here
        yet."""
        end = self._start + HEADER_BYTES
        if end > self._end:
            return None
        fixed = end - _CRC.size
        if crc32c(self._view[self._start : fixed]) != _CRC.unpack_from(self._view, fixed)[0]:
            raise WireDamage("a frame is damaged, or the other side is no node")
        number, size, crc = _HEADER.unpack_from(self._view, self._start)
        kind = _kind(number)
        if not self._trusted and kind is not Kind.HELLO:
            raise WireDamage(f"a frame of kind {kind.name} came before the other side's hello")
        if size > _BYTES_MAX[kind]:
            raise WireDamage(f"a frame of kind {kind.name} has {size:,} bytes")
        return kind, size, crc

    def _wait_for(self, kind: Kind, size: int, crc: int, start: int) -> None:
        """Give a frame that the scratch cannot hold a place of its own."""
        if HEADER_BYTES + size <= len(self._scratch):
            return
        content = bytearray(size)
        self._filled = self._end - start
        content[: self._filled] = self._view[start : self._end]
        self._large = kind, crc, content
        self._start = self._end

    def _make_room(self) -> None:
        """Move what is left to the beginning of the scratch."""
        left = self._end - self._start
        if self._start:
            self._scratch[:left] = self._scratch[self._start : self._end]
            self._start, self._end = 0, left


def _kind(number: int) -> Kind:
    kind = _KIND_OF.get(number)
    if kind is None:
        raise WireDamage(f"a frame of the unknown kind {number} came")
    return kind


def _unpack(kind: Kind, crc: int, content: memoryview) -> Message:
    if crc32c(content) != crc:
        raise WireDamage(f"a frame of kind {kind.name} is damaged")
    if kind is Kind.BLOCKS:
        if len(content) < _PLACE.size:
            raise WireDamage("a frame of blocks has no place")
        place = Place(*_PLACE.unpack_from(content))
        return Blocks(place, bytes(content[_PLACE.size :]))
    if kind is Kind.PING:
        return Ping()
    if kind is Kind.PONG:
        return Pong()
    try:
        return _decoders[kind].decode(content)
    except msgspec.DecodeError as error:
        raise WireDamage(f"a frame of kind {kind.name} cannot be read: {error}") from error
