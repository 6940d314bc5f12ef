"""A subscription: receives deliveries from the broker, and turns them into MESSAGE frames.

Must never know queues or decide anything: the engine decided each delivery that arrives here.
"""

from itertools import islice
from typing import Final

from daybook.engine.effects import REDELIVERED, RETAINED
from daybook.engine.facts.events import FORMAT, GROUPED
from daybook.engine.facts.formats import FORMAT_SHIFT, LINES
from daybook.engine.facts.reasons import ADMINISTRATION
from daybook.engine.facts.settlements import AUTO, BY_GRANT, UNMETERED
from daybook.engine.messages.content import view_of
from daybook.engine.messages.conversions import text_of
from daybook.engine.messages.headers import (
    build,
    is_of_applications,
    standard_pairs,
    unescape,
    without,
)
from daybook.protocols.port import DeliveredMessage
from daybook.protocols.stomp.output import Output
from daybook.protocols.stomp.sending import NOT_STORED, REPLY_TO
from daybook.protocols.stomp.subscribing import CLIENT, SubscribeRequest
from daybook.protocols.stomp.wire.destinations import respelled
from daybook.protocols.stomp.wire.spelling import SEPARATOR
from daybook.protocols.stomp.wire.versions import V10, V12, escape, express

_REMEMBERED_BYTES: Final = range(2, 513)
"""The length of headers that a subscription keeps, to compare them with those of the next message.
Python has one object for each string of at most one byte, so the identity of those proves
nothing."""

_IN_LINES: Final = frozenset(
    flags | group for flags in range(LINES, LINES + (1 << FORMAT_SHIFT)) for group in (0, GROUPED)
)
"""Flags of messages whose headers are lines."""
_DESTINATIONS: Final = (b"destination", REPLY_TO.encode())
"""Headers with destinations."""
_OF_FRAMES: Final = frozenset(("receipt-id", "message", "version", "session", "server"))
"""Headers of other frames of the broker, which no property of another format becomes."""
_NONE: Final[frozenset[int]] = frozenset()

OWED_MAX: Final = 65_536
"""The number of deliveries of `ack:auto` with a credit for which an ACK still returns credit;
beyond it, the older half is forgotten."""
_OWED_BYTES: Final = 128
"""Bytes of memory for each of them."""


class Subscription:
    """One SUBSCRIBE of an output. `serial` numbers them within the connection and begins ack ids.

    `consumer` is the broker's id for it, set once it is attached: of its consumer, or of all its
    consumers together if it has several of its `parts`, which are destinations. `is_open` is false
    after UNSUBSCRIBE and after the end of the session: later deliveries are not written. `is_over`
    says that the broker has ended it, because a browser has read all of its queue. `owed` are bytes
    of bodies by message for which an ACK gives credit back though it acknowledges nothing
    (`ack:auto` with a credit); None for all other subscriptions. `forgotten` is the latest message
    that left `owed` without an ACK.
    """

    __slots__ = (
        "_after_id", "_before_id", "_destination_line", "_headers", "_headers_out",
        "_is_plain", "_plain_flags", "acknowledges", "consumer", "cumulative", "durable_name",
        "forgotten", "id", "is_open", "is_over", "key", "output", "owed", "parts", "serial",
    )  # fmt: skip

    def __init__(self, output: Output, serial: int, request: SubscribeRequest) -> None:
        version = output.version
        self.output: Output = output
        self.serial: int = serial
        self.id: str | None = request.id
        self.key: tuple[str, str] = request.key
        self.consumer: int = 0
        self.parts: int = request.parts
        self.acknowledges: bool = request.ack_mode != AUTO
        self.cumulative: bool = request.ack_mode == CLIENT
        self.owed: dict[int, int] | None = {} if request.credit_policy == BY_GRANT else None
        self.forgotten: int = 0
        self.durable_name: str | None = request.durable_name
        self.is_open: bool = True
        self.is_over: bool = False
        # Flags of messages whose headers are written as they are, unless there is a bare colon.
        self._is_plain: bool = output.options.spelling.is_plain
        is_direct = version == V12 and self._is_plain
        self._plain_flags: frozenset[int] = _IN_LINES if is_direct else _NONE
        # Headers of the last message, and what became of them.
        self._headers: bytes | None = None
        self._headers_out: bytes = b""
        before = b"MESSAGE\n"
        if request.id is not None:
            before += b"subscription:" + escape(request.id.encode(), version) + b"\n"
        self._before_id: bytes = before + b"message-id:"
        self._after_id: bytes = (
            b"\nack:%d-" % serial if request.credit_policy != UNMETERED and version == V12 else b""
        )
        self._destination_line: bytes = (
            b"destination:" + escape(request.destination.encode(), version) + b"\n"
        )

    @property
    def keys_bytes(self) -> int:
        """Bytes of memory that its names take, here and in the broker."""
        names = len(self.key[1]) + len(self.durable_name or "")
        owed = _OWED_BYTES * len(self.owed) if self.owed else 0
        return 6 * names + 4 * len(self._destination_line) + owed

    def owe(self, message: int, size: int) -> None:
        """Remember that an ACK of a delivery gives credit back."""
        owed = self.owed
        if owed is None:
            return
        if len(owed) >= OWED_MAX:
            for each in list(islice(owed, OWED_MAX // 2)):
                del owed[each]
                self.forgotten = max(self.forgotten, each)
            self.output.keys_bytes -= OWED_MAX // 2 * _OWED_BYTES
        if message not in owed:
            self.output.keys_bytes += _OWED_BYTES
        owed[message] = size

    def give_back(self, message: int) -> int | None:
        """Return the bytes of credit that an ACK of a delivery gives back, once; -1 if it gives
        none because it was forgotten, and None if there is no such delivery."""
        if self.owed is None:
            return None
        size = self.owed.pop(message, None)
        if size is not None:
            self.output.keys_bytes -= _OWED_BYTES
            return size
        return -1 if 0 < message <= self.forgotten else None

    def deliver(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        """Write MESSAGE for the count-th attempt; it waits until LSN `gate` is durable."""
        if not self.is_open:
            return
        output = self.output
        headers = message.headers
        # All messages of one plan share one object for their headers while it is in memory.
        headers = self._headers_out if headers is self._headers else self._express(headers, message)
        if marks:
            headers = self._marked(headers, count, marks)
        number = message.id
        body = message.body
        if message.flags & FORMAT != LINES and not message.chunks:
            body = view_of(message).plain_body
        if self.owed is not None:
            self.owe(number, message.body_bytes)
        if message.chunks:
            gate = max(gate, self._deliver_large(message, headers))
        elif self._after_id:
            output.out.append(
                b"%b%d%b%d\n%b\n%b\0"
                % (self._before_id, number, self._after_id, number, headers, body)
            )
        else:
            output.out.append(b"%b%d\n%b\n%b\0" % (self._before_id, number, headers, body))
        output.has_spoken = True
        if gate > output.gate:
            output.gate = gate

    def drained(self, unused: int, total: int) -> None:
        """Ignore the answer to a drain: no frame of STOMP asks for one."""

    def settled(self, messages: tuple[int, ...], reason: int, gate: int) -> None:
        """Ignore deliveries that the broker ended: no frame of STOMP tells that, and the engine
        accepts a late ACK of them."""

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """End the session, because STOMP has no frame for the end of one subscription."""
        if self.is_open:
            self.output.gate = max(self.output.gate, gate)
            self.output.dismiss(text, "subscribe to another queue", now, ADMINISTRATION)

    def browsed(self) -> None:
        """Ignore the end of a browse: only readers browse."""

    def _marked(self, headers: bytes, count: int, marks: int) -> bytes:
        """Return headers behind the lines for the marks of a delivery."""
        if marks & RETAINED:
            headers = b"retained:true\n" + headers
        if not marks & REDELIVERED:
            return headers
        if count > 1:
            headers = b"redelivered:true\ndelivery-count:%d\n%b" % (count, headers)
        else:
            headers = b"redelivered:true\n" + headers
        if self.output.options.add_redeliveries_header:
            headers = self._redeliveries(count) + headers
        return headers

    def _redeliveries(self, count: int) -> bytes:
        """Return the line about a redelivery, which did not count if `count` is 1."""
        name = self.output.options.add_redeliveries_header
        return express(build([(name, str(max(count - 1, 1)))]), self.output.version)

    def _deliver_large(self, message: DeliveredMessage, headers: bytes) -> int:
        """Write MESSAGE around the place of its body; answers the last chunk, to wait for it."""
        after_id = b"%b%d" % (self._after_id, message.id) if self._after_id else b""
        head = b"%b%d%b\n%b\n" % (self._before_id, message.id, after_id, headers)
        self.output.out.append(head)
        self.output.say_body(message, self.consumer)
        self.output.out.append(b"\0")
        return message.chunks[-1]

    def _express(self, headers: bytes, message: DeliveredMessage) -> bytes:
        """Return headers of a message as the peer is to see them, and remember them if short."""
        if message.flags not in self._plain_flags:
            if message.flags & FORMAT != LINES:
                headers = _translated(message)
            headers = self._respelled(headers)
            return self._with_destination(self._for_version(headers))
        out = headers
        if headers.count(b":") != headers.count(b"\n"):
            out = self._for_version(headers)
        if not out.startswith(b"destination:"):
            out = self._with_destination(out)
        if len(headers) in _REMEMBERED_BYTES:
            self._headers, self._headers_out = headers, out
        return out

    def _respelled(self, headers: bytes) -> bytes:
        """Return headers with the names of destinations as the acceptor spells them."""
        if self._is_plain:
            return headers
        lines = headers.splitlines(keepends=True)
        for place, line in enumerate(lines):
            name, _, value = line.partition(b":")
            if name in _DESTINATIONS:
                lines[place] = self._respelled_line(name, value)
        return b"".join(lines)

    def _respelled_line(self, name: bytes, value: bytes) -> bytes:
        options = self.output.options
        text = unescape(value[:-1]).decode()
        separator = options.spelling.between
        if name != b"destination" and separator:
            # Stored names have no commas.
            text = separator.join(respelled(each, options) for each in text.split(SEPARATOR))
        else:
            text = respelled(text, options)
        return build([(name.decode(), text)])

    def _with_destination(self, headers: bytes) -> bytes:
        """Return headers with a destination, which every MESSAGE has: theirs, or ours."""
        if headers.startswith(b"destination:") or b"\ndestination:" in headers:
            return headers
        return self._destination_line + headers

    def _for_version(self, headers: bytes) -> bytes:
        version = self.output.version
        if version == V10:
            # Its ACK names only a message, so the session has to find the subscription.
            self.output.latest = self.consumer
        return express(headers, version)


def _translated(message: DeliveredMessage) -> bytes:
    """Return header lines for a message of another format, with what the broker knows of it first.

    Headers that have another meaning in MESSAGE are left out, and lines with a NUL, which would end
    the frame. Its destination is that of the subscription: the sender may have named any.
    """
    view = view_of(message)
    standard = view.standard._replace(destination="")
    said = [
        (name, text_of(value))
        for name, value in view.properties.items()
        if name and is_of_applications(name) and name not in _OF_FRAMES
    ]
    known = [
        ("content-length", text_of(view.body_bytes if message.chunks else len(view.plain_body))),
        ("priority", text_of(view.priority)),
        ("persistent", text_of(view.persistent)),
    ]
    if view.expires:
        known.append(("expires", text_of(view.expires)))
    lines = build(known) + without(build([*standard_pairs(standard), *said]), NOT_STORED)
    if b"\0" not in lines:
        return lines
    return b"".join(line for line in lines.splitlines(keepends=True) if b"\0" not in line)
