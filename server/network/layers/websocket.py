"""WebSocket of a connection (RFC 6455), with the socket or TLS below and the session above it.

Data flow: `received` takes bytes, the HTTP request first, and passes on what messages contain, as
one stream: frames of the session may be split over messages or share one. `encode` makes a message
of output. A library parses and encodes; this module keeps the limits: so many frames in a turn, so
many bytes before the login, at most one answer to pings in each slice, no compression, and pages
of other sites are refused. Must never know the hub, nor which protocol the messages carry.
"""

import codecs
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec
from websockets.exceptions import NegotiationError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from daybook.server.network.layers.shell import UNREAD_BYTES_MAX, Owner

ANY_ORIGIN: Final = "*"
CLOSE_MS: Final = 1000
"""How long the peer may take to answer the end, before the socket is closed."""
EARLY_BYTES_MAX: Final = 32 * 1024
"""The limit of input before the login: the request, and the frames until then."""
SLICE_BYTES: Final = 2048
FRAMES_PER_TURN: Final = 200
"""After so many frames others have their turn. The smallest has 6 bytes: a slice of them is work of
a few milliseconds.
"""
STATE_BYTES: Final = 8 * 1024
"""The approximate memory of a connection with WebSocket, besides that of one without."""
REASON_BYTES_MAX: Final = 120
_ORIGIN_SHOWN_MAX: Final = 200
"""How much of the origin that a page states is logged."""
_PONG: Final = b"\x8a"
_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

# The library logs every connection; what matters is logged by the acceptor.
_silent: Final = logging.Logger("daybook.websocket", logging.CRITICAL + 1)


class WebSocketOptions(msgspec.Struct, frozen=True):
    """The options of an acceptor; `subprotocols` in order of preference."""

    subprotocols: tuple[str, ...]
    path: str
    origins: tuple[str, ...]
    max_frame: int

    @classmethod
    def of(
        cls, subprotocols: Sequence[str], options: Mapping[str, Any]
    ) -> "WebSocketOptions | None":
        """Return the options of an acceptor, None if it does not speak WebSocket."""
        if not subprotocols or not options["websocket"]:
            return None
        return cls(
            tuple(subprotocols), options["websocket-path"], options["websocket-origins"],
            options["websocket-max-frame"],
        )  # fmt: skip


class WebOwner(Owner, Protocol):
    """The connection."""

    @property
    def has_logged_in(self) -> bool:
        """Whether a user is logged in on it."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether its owner wants nothing to be read."""
        ...

    def charge_input(self, buffered_bytes: int) -> None:
        """Note how much input of the peer is buffered."""
        ...


class WebSocket:
    """The state of one connection."""

    def __init__(
        self,
        owner: WebOwner,
        options: WebSocketOptions,
        below: Callable[[bytes], bytes] | None,
        schedule: Callable[[Callable[[], None]], object],
        deliver: Callable[[bytes], None],
    ) -> None:
        """`below` encrypts, if anything does; `schedule` calls a function in the next turn;
        `deliver` takes the bytes for the session, and may be replaced at any time.
        """
        self._owner: Final = owner
        self._options: Final = options
        self._below: Final = below
        self._schedule: Final = schedule
        self.deliver = deliver
        self._protocol: Final = ServerProtocol(
            origins=_accepted(options.origins),
            select_subprotocol=lambda _, offered: self._select(offered),
            max_size=(None, options.max_frame),
            logger=_silent,
        )
        self._pending = bytearray()
        self._early = 0
        self._is_scheduled = False
        self._is_ended = False
        # The kind of messages that the peer sends, which it also understands; None before.
        self._is_text: bool | None = None
        self._is_message_text = False
        self._decoder: Final = codecs.getincrementaldecoder("utf-8")()

    @property
    def subprotocol(self) -> str:
        """The subprotocol that was agreed on, "" for none."""
        return self._protocol.subprotocol or ""

    # ---- from below

    def received(self, data: bytes) -> None:
        """Take bytes of the peer."""
        if self._is_ended:
            return
        if not self._owner.has_logged_in:
            self._early += len(data)
            if self._early > EARLY_BYTES_MAX:
                self._fail("too much before the login", CloseCode.MESSAGE_TOO_BIG)
                return
        self._pending += data
        if not self._is_scheduled:
            self._pump()

    def resume(self) -> None:
        """The owner wants input again."""
        if self._pending and not self._is_scheduled and not self._is_ended:
            self._wait()

    def _wait(self) -> None:
        self._is_scheduled = True
        self._owner.hold(True)
        self._schedule(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._is_ended:
            return
        if self._owner.is_paused:
            # `resume` is called when this is over.
            self._owner.hold(False)
            return
        self._pump()
        if not self._is_scheduled and not self._is_ended:
            self._owner.hold(False)

    def _pump(self) -> None:
        """Decode until the turn is over; pass on what messages contain."""
        found: list[bytes] = []
        frames = 0
        while self._pending and frames < FRAMES_PER_TURN and not self._is_ended:
            piece = bytes(self._pending[:SLICE_BYTES])
            del self._pending[:SLICE_BYTES]
            frames += self._feed(piece, found)
        buffered = len(self._pending) + len(self._protocol.reader.buffer)
        self._owner.charge_input(0 if self._is_ended else buffered)
        # A part of a frame counts as a sign of life, and in the account of memory.
        self.deliver(found[0] if len(found) == 1 else b"".join(found))
        if self._pending and not self._is_ended:
            self._wait()

    def _feed(self, piece: bytes, found: list[bytes]) -> int:
        """Decode a piece; return the number of frames in it."""
        protocol = self._protocol
        protocol.receive_data(piece)
        events = protocol.events_received()
        for event in events:
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame) and not self._take(event, found):
                self._fail("a text message is not UTF-8", CloseCode.INVALID_DATA)
                return len(events)
        if protocol.parser_exc is not None:
            self._end(f"WebSocket: {protocol.parser_exc}", self._replies())
        elif protocol.handshake_exc is not None:
            why = f"WebSocket: {protocol.handshake_exc}"
            self._end(why, self._replies() or _BAD_REQUEST)
        elif replies := self._replies():
            self._send(replies)
        if protocol.close_rcvd is not None and not self._is_ended:
            self._is_ended = True
            self._owner.finish()
        return len(events)

    def _take(self, frame: Frame, found: list[bytes]) -> bool:
        """Take the content of a frame; return whether a text is one."""
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._is_message_text = frame.opcode is Opcode.TEXT
            if self._is_text is None:
                self._is_text = self._is_message_text
        elif frame.opcode is not Opcode.CONT:
            return True
        data = bytes(frame.data)
        if data:
            found.append(data)
        if not self._is_message_text:
            return True
        try:
            self._decoder.decode(data, final=frame.fin)
        except UnicodeDecodeError:
            return False
        return True

    def _answer(self, request: Request) -> None:
        """Answer the request that begins a connection."""
        protocol = self._protocol
        path = request.path.partition("?")[0]
        if self._options.path and path != self._options.path:
            protocol.handshake_exc = NegotiationError(f"path {path[:100]!r} (websocket-path)")
            response = protocol.reject(
                HTTPStatus.NOT_FOUND, "There is nothing here; see websocket-path of the acceptor.\n"
            )
        else:
            response = protocol.accept(request)
        if response.status_code == HTTPStatus.FORBIDDEN:
            # The log is where the operator looks for the reason; it must name the key.
            why = str(protocol.handshake_exc)[:_ORIGIN_SHOWN_MAX]
            protocol.handshake_exc = NegotiationError(
                f"{why}; list the page in websocket-origins of the acceptor"
            )
            response = protocol.reject(
                HTTPStatus.FORBIDDEN,
                "Pages of this origin may not connect; list it in websocket-origins of the"
                " acceptor.\n",
            )
        protocol.send_response(response)
        self._owner.charge(STATE_BYTES)

    def _select(self, offered: Sequence[Any]) -> Any:
        """Return the best subprotocol that the peer offers; None if it offers none at all."""
        if not offered:
            return None
        for subprotocol in self._options.subprotocols:
            if subprotocol in offered:
                return subprotocol
        raise NegotiationError(
            f"no common subprotocol; there is {', '.join(self._options.subprotocols)}"
        )

    def _replies(self) -> bytes:
        """Return what the library has to say; of several answers to pings only the last."""
        replies: list[bytes] = []
        last_pong = b""
        for reply in self._protocol.data_to_send():
            if reply[:1] == _PONG:
                last_pong = reply
            else:
                replies.append(reply)
        if last_pong and self._owner.transport.get_write_buffer_size() <= UNREAD_BYTES_MAX:
            replies.insert(0, last_pong)
        return b"".join(replies)

    # ---- to below

    def _send(self, data: bytes) -> None:
        transport = self._owner.transport
        if self._below is not None:
            data = self._below(data)
        if data and not transport.is_closing():
            transport.write(data)

    def _fail(self, why: str, code: CloseCode) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.fail(code, why)
        self._end(f"WebSocket: {why}", self._replies() or _BAD_REQUEST)

    def _end(self, why: str, last: bytes) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._pending.clear()
            self._owner.fail(why, last if self._below is None else self._below(last))

    # ---- from above

    def encode(self, data: bytes) -> bytes:
        """Make a message of output of the session; nothing unless the connection is open."""
        protocol = self._protocol
        if not data or protocol.state is not State.OPEN:
            return b""
        if self._is_text and _is_text(data):
            protocol.send_text(data)
        else:
            protocol.send_binary(data)
        return b"".join(protocol.data_to_send())

    def farewell(self, error: str) -> bytes:
        """Return the frame that ends the connection; the peer answers with one of its own."""
        protocol = self._protocol
        if protocol.state is not State.OPEN or self._is_ended:
            return b""
        code = CloseCode.POLICY_VIOLATION if error else CloseCode.NORMAL_CLOSURE
        reason = error.encode()[:REASON_BYTES_MAX].decode("utf-8", "ignore")
        protocol.send_close(code, reason)
        return b"".join(protocol.data_to_send())

    def lost(self) -> None:
        """The socket is closed."""
        self._is_ended = True
        self._pending.clear()
        # The library's object refers to itself by these.
        self._protocol.parser.close()
        for name in ("parser", "select_subprotocol"):
            vars(self._protocol).pop(name, None)


def _accepted(origins: Sequence[str]) -> list[Any] | None:
    """Return the origins for the library; only browsers send one."""
    return None if ANY_ORIGIN in origins else [None, *origins]


def _is_text(data: bytes) -> bool:
    """Return whether bytes are whole text in UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
