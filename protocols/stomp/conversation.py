"""The conversation of a connection: login, time and the end, but no frame of the peer.

Sans-IO like the session, which parses the input: it must never know where a frame begins.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from daybook.engine.commands import (
    CloseConnection,
    Command,
    OpenConnection,
    Send,
    SendToAll,
)
from daybook.engine.facts.definitions import AutoLink
from daybook.engine.facts.reasons import DISCONNECTED, LIMIT, TIMEOUT
from daybook.engine.names.names import UNKNOWN_HOST
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.port import (
    RECEIVES,
    AutoLinkRow,
    BrokerPort,
    Caller,
    LinkCounts,
    LinkRow,
    Login,
    SessionRow,
)
from daybook.protocols.stomp.heart_beats import HeartBeats
from daybook.protocols.stomp.output import Output
from daybook.protocols.stomp.subscription import Subscription
from daybook.protocols.stomp.wire import states
from daybook.protocols.stomp.wire.errors import (
    StompError,
    never_connected,
    on_its_host,
    refused,
    silent,
    stalled,
    unchecked,
)
from daybook.protocols.stomp.wire.frames import (
    check_receipt,
    cut_receipt,
    error_frame,
)
from daybook.protocols.stomp.wire.handshake import Handshake
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import TEXTS, V12

_US_PER_MS: Final = 1000

FIRST_ROOM: Final = 64 * 1024
"""Bytes of deliveries that may be on their way to a peer that has not shown that it reads."""


class Conversation(Output):
    """The state of the conversation between client and broker.

    `error` is the text of the ERROR frame that ended the conversation, if one did.
    """

    __slots__ = (
        "_body_by", "_caller", "_connect_by", "_handshake", "_head", "_heard", "_heart_beats",
        "_server_name", "_user", "awaits_disk", "broker", "by_consumer", "by_key", "by_serial",
        "client_id", "close_delay_ms", "closing", "connection", "error", "handle", "has_more",
        "has_stalled", "has_unfinished", "host_request", "is_blocked", "is_unheard", "kept",
        "login_request", "next_deadline", "parts", "refusal", "serials", "state", "urgent",
    )  # fmt: skip

    def __init__(
        self, broker: BrokerPort, options: StompOptions, caller: Caller, server_name: str
    ) -> None:
        super().__init__(options)
        self.broker: BrokerPort = broker
        self.handle: Callable[[Command, int], int | Refusal] = broker.handle
        self._caller: Caller = caller
        self._server_name: str = server_name
        self.state: str = states.NEW
        self.connection: int = 0
        # The send that was answered UNFINISHED: the command records the progress.
        self.kept: Send | SendToAll | None = None
        self.closing: bool = False
        self.error: str = ""
        self.close_delay_ms: int = 0
        self.login_request: Login | None = None
        self.host_request: str | None = None
        self._user: str = ""
        # Why the peer was refused: reason, protocol, login and text.
        self.refusal: tuple[int, str, str, str] | None = None
        self._handshake: Handshake | None = None
        self.client_id: str = ""
        self._head: bytes = b""
        # Subscriptions by their key (id, destination in 1.0); in 1.2 those that acknowledge also
        # by serial, which their ack ids begin with.
        self.by_key: dict[tuple[str, str], Subscription] = {}
        self.by_serial: dict[bytes, Subscription] = {}
        # In 1.0 also by consumer: an ACK names only a message, and the broker knows its consumer.
        self.by_consumer: dict[int, Subscription] = {}
        self.serials: int = 0
        # How many destinations they have together.
        self.parts: int = 0
        # Time, in microseconds.
        self.next_deadline: int = 0
        self.is_unheard: bool = False
        self.awaits_disk: bool = False
        self.urgent: bytes = b""
        self.is_blocked: bool = False
        self.has_more: bool = False
        # Everything of a connection waits for a command that is unfinished (`has_more`).
        self.has_unfinished: bool = False
        self.has_stalled: bool = False
        self._body_by: int = 0
        self._heard: int = 0
        self._connect_by: int = caller.log_in_by
        self._heart_beats: HeartBeats = HeartBeats()

    # ---------------------------------------------------------------- commands

    def do(self, command: Command, now: int) -> int:
        """Execute a command; a refusal is raised as the exception of `refused`."""
        answer = self.handle(command, now)
        if isinstance(answer, Refusal):
            raise refused(answer)
        return answer

    def do_send(self, command: Send | SendToAll, now: int) -> int:
        """Execute a send as `do`, and keep it if it is unfinished: the same one is given again."""
        answer = self.handle(command, now)
        self.kept = None
        if isinstance(answer, Refusal):
            if answer.code is Code.UNFINISHED:
                self.kept = command
            raise refused(answer)
        return answer

    def _refuse(self, reason: int, login: str, text: str) -> None:
        self.refusal = (reason, self._protocol(), login, text)

    def _protocol(self) -> str:
        return f"STOMP {TEXTS[self.version]}"

    # ---------------------------------------------------------------- login, time, the end

    def _open(self, shake: Handshake, user: str, now: int) -> None:
        assert shake.host != UNKNOWN_HOST, "no user may use a virtual host that does not exist"
        room = min(FIRST_ROOM, self.options.room or FIRST_ROOM)
        answer = self.do(
            OpenConnection(
                self._protocol(), self._caller.name, user, shake.client_id, room,
                host=shake.host,
            ),
            now,
        )  # fmt: skip
        self.connection = answer
        self.client_id = shake.client_id
        self.state = states.TRANSITIONS[self.state, states.OPENED]
        self.out.append(shake.connected(str(answer), self._server_name, user))
        self.gate = max(self.gate, answer)
        self._heard = now
        self._heart_beats.start(shake, self.options.heart_beat_grace, now)
        self.has_spoken = True
        self.next_deadline = self._heart_beats.deadline(now)

    def listen_again(self, now: int) -> None:
        """The peer is read again; its silence and its time to log in are measured from now."""
        self.is_unheard = False
        self._heard = now
        if self._body_by:
            self._await_body(now)
        if self._connect_by:
            self._await_login(now)

    def is_taking(self, now: int) -> None:
        """The peer reads the output: so it is alive, and it needs no heart-beat."""
        self._heard = max(self._heard, now)
        self.has_spoken = True

    def tick(self, now: int) -> None:
        """Do what is due: send heart-beats, detect a silent peer or a missing login."""
        if self.closing:
            return
        if self.state != states.CONNECTED:
            self._tick_before_login(now)
            return
        if self.is_unheard:
            self._heard = now
        if self._heart_beats.is_silent(self._heard, now):
            self._head = b""
            self._fail(silent((now - self._heard) // _US_PER_MS), TIMEOUT, now)
            return
        if self._is_stalled(now):
            self._head = b""
            self.has_stalled = True
            self._fail(stalled(self.options.body_timeout_ms), TIMEOUT, now)
            return
        if self._heart_beats.is_due(now):
            if self.awaits_disk:
                # Output since then has not left, and a disk may hang for a while.
                self.urgent = b"\n"
            elif not self.has_spoken:
                self.out.append(b"\n")
            # A heart-beat counts as output; otherwise the next check looks for new output.
            self.has_spoken = not self.has_spoken
        self._set_deadline()

    def _set_deadline(self) -> None:
        """Set the next deadline: that of the heart-beats or of a body, whichever is first."""
        beat = self._heart_beats.deadline(self._heard)
        self.next_deadline = min(beat, self._body_by) if beat and self._body_by else (
            beat or self._body_by
        )  # fmt: skip

    def _await_body(self, now: int) -> None:
        """Start the time for the next part of a body."""
        if self.options.body_timeout_ms:
            is_first = not self._body_by
            self._body_by = now + self.options.body_timeout_ms * _US_PER_MS
            if is_first:
                self._set_deadline()

    def _is_stalled(self, now: int) -> bool:
        """Return whether a peer that is being read takes too long to send a body."""
        if not self._body_by:
            return False
        if self.is_unheard or self.is_blocked or self.has_more:
            self._await_body(now)
        return now >= self._body_by

    def clock_stepped(self, step: int, now: int) -> None:
        """The clock was set by `step` microseconds, to `now`; no peer was silent for that time."""
        # A time from before the step is by the old clock; a time since then is already right.
        if step > 0 or self._heard > now:
            self._heard = min(self._heard + step, now)
        if self._connect_by:
            self._await_login(now)
            self.next_deadline = self._connect_by
        if self.state == states.CONNECTED:
            self._heart_beats.clock_stepped(now)
            if self._body_by:
                self._await_body(now)
            self._set_deadline()

    def _tick_before_login(self, now: int) -> None:
        timeout_ms = self.options.connect_timeout_ms
        if not timeout_ms:
            return
        if self.is_unheard or not self._connect_by:
            # While nothing is read from the peer, it cannot log in.
            self._await_login(now)
        elif now >= self._connect_by:
            self._head = b""
            in_time = self.state != states.AUTHENTICATING
            error = never_connected(timeout_ms) if in_time else unchecked(timeout_ms)
            self._fail(error, TIMEOUT, now)
            return
        self.next_deadline = self._connect_by

    def _await_login(self, now: int) -> None:
        self._connect_by = now + self.options.connect_timeout_ms * _US_PER_MS

    def connection_lost(self, now: int, reason: int = DISCONNECTED, text: str = "") -> None:
        """The connection has ended; notify the broker, unless the session ended before."""
        if self.connection:
            self.handle(CloseConnection(self.connection, reason, text), now)
            self.connection = 0
        self.end(0)

    def attach_link(self, link: AutoLink, now: int) -> None:
        """Attach nothing: there are no links."""

    def renew_auto_links(self, now: int) -> None:
        """There are none."""

    @property
    def auto_links(self) -> Sequence[AutoLinkRow]:
        """There are none: the broker attaches nothing over STOMP."""
        return ()

    @property
    def peer_product(self) -> str:
        """Clients of STOMP do not say it."""
        return ""

    @property
    def link_counts(self) -> LinkCounts:
        """How many subscriptions there are: each is a link."""
        return LinkCounts(0, 0, len(self.by_key))

    def link_rows(self, first: int, count: int) -> list[LinkRow]:
        """Return so many of the subscriptions, from one on."""
        some = islice(self.by_key.values(), first, first + count)
        return [
            LinkRow(each.key[1], RECEIVES, consumer=each.consumer, memory_bytes=each.keys_bytes)
            for each in some
        ]

    def session_rows(self, first: int, count: int) -> list[SessionRow]:
        """Return none: STOMP has no sessions."""
        return []

    def farewell(self, text: str) -> bytes:
        """Return nothing: STOMP has only ERROR, by which clients understand a mistake of theirs."""
        return b""

    def dismiss(self, what: str, advice: str, now: int, reason: int = LIMIT) -> None:
        """End the session on behalf of the broker, and send the peer the reason."""
        if not self.closing:
            self._head = b""
            self._fail(StompError(what, advice), reason, now)

    def _fail(self, error: StompError, reason: int, now: int) -> None:
        """Write the ERROR frame and end the session; further input is not processed."""
        head = self._head.partition(b"\0")[0]
        receipt = cut_receipt(head)[1]
        if receipt is not None:
            try:
                receipt = receipt.removesuffix(b"\r") if self.version == V12 else receipt
                receipt = check_receipt(receipt, self.version, self.options)
            except StompError:
                receipt = None
        self.error = error.what
        shown = on_its_host(error, self.options.host)
        self.out.append(error_frame(shown, head, receipt, self.version))
        if self.connection:
            closed = self.handle(CloseConnection(self.connection, reason, error.what), now)
            if error.code:
                # It may speak of the events of others: of a message that is there already.
                known = closed if isinstance(closed, int) else self.broker.lsn
                self.gate = max(self.gate, known)
            self.connection = 0
        self.end(self.options.die_delay_ms)

    def end(self, delay_ms: int) -> None:
        """End the session; its connection is closed `delay_ms` after its output is sent."""
        if not self.closing:
            self.closing = True
            self.close_delay_ms = delay_ms
        self.state = states.TRANSITIONS[self.state, states.ENDED]
        self.next_deadline = 0
        self.login_request = self.host_request = None
        for subscription in self.by_key.values():
            subscription.is_open = False
        self.by_key.clear()
        self.keys_bytes = 0
        self.by_serial.clear()
        self.by_consumer.clear()
        self.latest = 0
