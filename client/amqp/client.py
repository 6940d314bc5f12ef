"""A small synchronous AMQP 1.0 client for the command line, the pipeline and the drills.

Fault model: the peer may not speak AMQP, may send any bytes, may close the connection in the middle
of a frame, may give no credit, or may never answer. Each case raises an AmqpClientError that
explains it. Bodies of any size are sent and received in pieces.
"""

import ssl
import time
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from daybook.client.amqp.arriving import Arrived
from daybook.client.amqp.conversation import FRAME_BYTES, Conversation
from daybook.client.amqp.failures import AmqpClientError, AmqpRefused, refused
from daybook.client.amqp.leaving import Leaving, Place
from daybook.client.amqp.links import ClientLink, Receiver, Sender
from daybook.client.amqp.login import Login
from daybook.client.bodies import PIECE_BYTES, Content
from daybook.client.endpoint import Endpoint, EndpointError
from daybook.engine.messages.amqp.sections import VALUE
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.faults import DROPPED
from daybook.protocols.amqp.wire.frames import EMPTY_FRAME
from daybook.protocols.amqp.wire.performatives import Open
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Rejected,
    Source,
    Target,
    TransactionalState,
)

ANSWER_SECONDS: Final = 30.0
CREDIT: Final = 100
_CLOSE_SECONDS: Final = 5.0
_UNSETTLED: Final = 2
"""The durability of a subscription that outlives its connection."""


class AmqpClient:
    """A connection with a completed login and one session; a context manager."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float = ANSWER_SECONDS,
        silence_ms: int = 0,
        container: str = "",
    ) -> None:
        """Connect and log in. `silence_ms` is how long the broker may say nothing, 0 for any time.
        Raises AmqpClientError."""
        self.endpoint: Final = endpoint
        self._timeout: Final = timeout
        self._heard = self._spoken = monotonic()
        self._coordinator: Sender | None = None
        opening = Open(
            container or f"daybook-{uuid4().hex}", endpoint.virtual_host,
            max_frame_size=FRAME_BYTES, channel_max=0, idle_time_out=silence_ms or None,
        )  # fmt: skip
        self._talk: Final = Conversation(str(endpoint), Login(endpoint), opening)
        try:
            self._socket = endpoint.connect(timeout)
        except EndpointError as error:
            raise AmqpClientError(str(error)) from error
        try:
            if not self._await(lambda: self._talk.is_open):
                raise AmqpClientError(
                    f"{endpoint} did not answer within {timeout:.0f} s: is it an AMQP broker?"
                )
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> "AmqpClient":
        return self

    def __exit__(self, *failure: object) -> None:
        self._socket.close()
        self._talk.discard()

    @property
    def silence(self) -> float:
        """Seconds since the broker last sent anything."""
        return monotonic() - self._heard

    # ---- links

    def sender(self, place: Place, *, tells_drops: bool = False) -> Sender:
        """Attach a link to send to an address; the broker says in an outcome if a message went to
        no queue and the link `tells_drops`. Raises AmqpClientError."""
        target = Target(place.address, capabilities=place.capabilities)
        desired = (DROPPED,) if tells_drops else ()
        link = self._talk.attach_sender(target, Source(), place.destination, desired=desired)
        self._await_attached(link)
        return link

    def receiver(
        self,
        place: Place,
        *,
        window: int = CREDIT,
        wanted: int | None = None,
        is_settled: bool = False,
        durable: str = "",
    ) -> Receiver:
        """Attach a link to receive by, in all `wanted` deliveries, None for all. `durable` is the
        name of a durable subscription of this container. Raises AmqpClientError."""
        source = Source(place.address, capabilities=place.capabilities)
        if durable:
            capabilities = place.capabilities or ("topic",)
            source = Source(place.address, _UNSETTLED, "never", capabilities=capabilities)
        link = self._talk.attach_receiver(
            source, Target(), place.destination, name=durable, window=window, wanted=wanted,
            is_settled=is_settled,
        )  # fmt: skip
        self._await_attached(link)
        return link

    def _await_attached(self, link: ClientLink) -> None:
        if not self._await_of(link, lambda: link.is_attached):
            raise AmqpClientError(
                f"{self.endpoint} did not attach {link.about} within {self._timeout:.0f} s"
            )

    # ---- sending

    def send(self, link: Sender, message: Leaving, content: Content, *, txn_id: bytes = b"") -> int:
        """Write a message piece by piece, once the link has credit; return its delivery, for
        `accept`. Raises AmqpClientError.

        If the broker refuses the message meanwhile, the rest is not sent. If the content ends
        early, the message is taken back.
        """
        return self._send(link, message.encoded(content), txn_id)

    def _send(self, link: Sender, whole: Content, txn_id: bytes) -> int:
        if link.message_bytes_max and whole.size > link.message_bytes_max:
            raise AmqpClientError(
                f"the message has {whole.size:,} bytes, and {self.endpoint} takes no more than"
                f" {link.message_bytes_max:,}"
            )
        if not self._await_of(link, lambda: link.credit > 0):
            raise AmqpClientError(
                f"{self.endpoint} gave no credit for {link.about} within {self._timeout:.0f} s:"
                f" {link.why_no_credit}"
            )
        talk = self._talk
        number = talk.begin_delivery(link)
        left, is_first = whole.size, True
        size = talk.payload_bytes_max
        for piece in whole.pieces():
            for at in range(0, len(piece), size):
                payload = piece[at : at + size][:left]
                left -= len(payload)
                self._await_room(link)
                if number in talk.outcomes:
                    talk.abort(link, number)
                    return number
                talk.transfer(
                    link, number, payload, is_first=is_first, has_more=left > 0, txn_id=txn_id
                )
                is_first = False
                if left <= 0:
                    break
        if left > 0:
            if not is_first:
                talk.abort(link, number)
                self._flush()
            raise AmqpClientError(
                f"the body ended {left:,} bytes early: it changed while it was read"
            )
        if len(talk.out) > PIECE_BYTES:
            self._flush()
            self._hear()
        return number

    def _await_room(self, link: Sender) -> None:
        """Wait for the window of the session, and write what is much."""
        if len(self._talk.out) > PIECE_BYTES:
            self._flush()
            self._hear()
        if not self._await_of(link, lambda: self._talk.room > 0):
            raise AmqpClientError(
                f"{self.endpoint} took no part of a message within {self._timeout:.0f} s"
            )

    def outcome(self, number: int, seconds: float) -> Any:
        """Return the state by which the broker ended a delivery, None if it does not within
        `seconds`. Raises AmqpClientError."""
        outcomes = self._talk.outcomes
        self._await_said(lambda: number in outcomes, seconds)
        return outcomes.pop(number, None)

    def accept(self, number: int, about: str = "the message") -> None:
        """Wait until the broker has accepted a message: it is on disk if it is durable. Raises
        AmqpClientError, also if it refused it."""
        state = self.outcome(number, self._timeout)
        if state is None:
            raise AmqpClientError(f"no outcome arrived within {self._timeout:.0f} s")
        check(state, f"{self.endpoint} refused {about}")

    def routed(self, number: int) -> str:
        """Wait until the broker has a message of a link that tells drops; return why it went to no
        queue, "" if it went to one. Raises AmqpClientError."""
        try:
            self.accept(number)
        except AmqpRefused as refusal:
            if not refusal.dropped:
                raise
            return refusal.dropped
        return ""

    # ---- transactions

    def begin(self) -> bytes:
        """Begin a transaction; return its id. Raises AmqpClientError."""
        number = self._tell(Declare())
        state = self.outcome(number, self._timeout)
        if state is None:
            raise AmqpClientError(f"no transaction began within {self._timeout:.0f} s")
        check(state, f"{self.endpoint} refused a transaction", Declared)
        txn_id: bytes = state.txn_id
        return txn_id

    def end(self, txn_id: bytes, *, fails: bool = False) -> int:
        """Ask for the end of a transaction; return the delivery, for `accept` or `outcome`. Raises
        AmqpClientError."""
        return self._tell(Discharge(txn_id, fails))

    def commit(self, txn_id: bytes) -> None:
        """Commit a transaction: its effects are then durable. Raises AmqpClientError."""
        self.accept(self.end(txn_id), "the transaction")

    def _tell(self, asked: Any) -> int:
        if self._coordinator is None:
            target = Coordinator()
            self._coordinator = self._talk.attach_sender(target, Source(), "transactions")
            self._await_attached(self._coordinator)
        data = section_of(VALUE, COMPOSITES.encoded(asked))
        return self._send(self._coordinator, Content(len(data), lambda: iter([data])), b"")

    # ---- receiving

    def message(self, timeout: float | None) -> tuple[Receiver, Arrived] | None:
        """Return the next message and its link, None after `timeout` seconds (None: wait without
        limit). Raises AmqpClientError.

        While a message arrives, only silence is limited, not the time of all of it.
        """
        talk = self._talk
        begun = monotonic()
        while not talk.arrived:
            self._check_links()
            left = None if timeout is None else begun + timeout - monotonic()
            is_within = talk.is_within_message
            if left is not None and is_within:
                left = max(left, self._timeout)
            if left is not None and left <= 0:
                return None
            if not self._advance(left) and is_within and left is not None:
                raise AmqpClientError(f"{self.endpoint} stopped sending in the middle of a message")
        link, message = talk.arrived.popleft()
        talk.refill(link)
        return link, message

    def settle(
        self, message: Arrived, state: Any, *, txn_id: bytes = b"", is_settled: bool = False
    ) -> None:
        """Say the outcome of a message. Unless it is settled with that, `confirm` waits until the
        broker has it on disk."""
        said = TransactionalState(txn_id, state) if txn_id else state
        self._talk.settle(message.delivery, said, is_settled=is_settled)

    def is_confirmed(self, number: int, seconds: float) -> bool:
        """Return whether the broker confirms an outcome within `seconds`. Raises
        AmqpClientError."""
        confirmed = self._talk.confirmed
        if not self._await_said(lambda: number in confirmed, seconds):
            return False
        confirmed.discard(number)
        return True

    def confirm(self, number: int) -> None:
        """Wait until the broker has an outcome on disk. Raises AmqpClientError."""
        if not self.is_confirmed(number, self._timeout):
            raise AmqpClientError(f"no confirmation arrived within {self._timeout:.0f} s")

    def poll(self, seconds: float) -> bool:
        """Read what arrives within `seconds`; return whether anything did, for callers that wait
        for several things. Raises AmqpClientError."""
        found = self._advance(seconds)
        self._check_links()
        return found

    def take_outcomes(self) -> list[tuple[int, Any]]:
        """Return the outcomes that came, and forget them."""
        found = list(self._talk.outcomes.items())
        self._talk.outcomes.clear()
        return found

    def take_confirmed(self) -> list[int]:
        """Return the deliveries whose outcomes the broker confirmed, and forget them."""
        found = list(self._talk.confirmed)
        self._talk.confirmed.clear()
        return found

    def take_message(self) -> Arrived | None:
        """Return the next message that is there already."""
        if not self._talk.arrived:
            return None
        link, message = self._talk.arrived.popleft()
        self._talk.refill(link)
        return message

    # ---- the end

    def disconnect(self) -> None:
        """Close the connection, and wait until the broker has done so too. Raises
        AmqpClientError."""
        self._talk.close()
        if not self._await(lambda: self._talk.is_closed, self._timeout):
            raise AmqpClientError(
                f"{self.endpoint} did not close the connection within {self._timeout:.0f} s"
            )

    # ---- the socket

    def _check_links(self) -> None:
        refusal = self._talk.refusal
        if refusal is not None:
            raise refusal

    def _await_of(self, link: ClientLink, is_done: Callable[[], bool]) -> bool:
        """Wait for something of a link. Raises its refusal."""
        found = self._await(lambda: link.refusal is not None or is_done())
        if link.refusal is not None:
            raise link.refusal
        return found

    def _await_said(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Wait for an answer about a delivery. Raises the refusal of a link, which has none."""
        found = self._await(lambda: is_done() or self._talk.refusal is not None, seconds)
        if not is_done():
            self._check_links()
        return found

    def _await(self, is_done: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something is done, at most `seconds`; return whether it is."""
        deadline = monotonic() + (self._timeout if seconds is None else seconds)
        while not is_done():
            left = deadline - monotonic()
            if left <= 0:
                return False
            self._advance(left)
        return True

    def _advance(self, seconds: float | None) -> bool:
        """Write what is to be written, and read once, waiting up to `seconds`; return whether
        anything arrived. A wait is interrupted to say that this client is alive."""
        if self._talk.is_closed:
            raise AmqpClientError(f"{self.endpoint} closed the connection")
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            self._flush()
            left = None if deadline is None else max(deadline - monotonic(), 0.0)
            pause = self._keep_alive_seconds
            if pause is None or (left is not None and left <= pause):
                return self._read(left)
            if self._read(pause):
                return True
            if self._keep_alive_seconds == 0.0:
                self._talk.out += EMPTY_FRAME

    @property
    def _keep_alive_seconds(self) -> float | None:
        """How long this client may still be silent, None for any time."""
        if not self._talk.keep_alive_ms:
            return None
        return max(self._spoken + self._talk.keep_alive_ms / 2000 - monotonic(), 0.0)

    def _hear(self) -> None:
        """Read what has arrived, without waiting for more."""
        while self._read(0.0):
            pass

    def _flush(self) -> None:
        data = self._talk.out
        if not data:
            return
        self._spoken = monotonic()
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(data)
        except OSError as error:
            self._explain_end(error)
        data.clear()

    def _explain_end(self, error: OSError) -> None:
        """Raise the broker's reason, if it gave one for the end, else the failure."""
        try:
            while self._read(1.0):
                pass
        except AmqpClientError as said:
            raise said from error
        raise AmqpClientError(f"the connection to {self.endpoint} broke: {error}") from error

    def _read(self, seconds: float | None) -> bool:
        """Read bytes, waiting up to `seconds` (None: without limit); return whether any arrived."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(PIECE_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise AmqpClientError(f"the connection to {self.endpoint} broke: {error}") from error
        if not data:
            raise AmqpClientError(f"{self.endpoint} closed the connection")
        self._heard = monotonic()
        self._talk.now_ms = time.time_ns() // 1_000_000
        self._talk.receive(data)
        return True


def check(state: Any, what: str, wanted: type = Accepted) -> None:
    """Raise AmqpRefused unless a state is the wanted outcome, or that outcome in a transaction."""
    found = state.outcome if isinstance(state, TransactionalState) else state
    if isinstance(found, wanted):
        return
    if isinstance(found, Rejected):
        raise refused(what, found.error)
    raise refused(f"{what}: it was {type(found).__name__.lower()}", None)
