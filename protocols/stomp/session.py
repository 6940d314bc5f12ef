"""A STOMP session: bytes of one connection in, commands to the broker, bytes out.

Sans-IO: it must never know sockets, clocks, tasks or disks. Time comes with every call, in
microseconds since 1970; output is collected in `out` together with the LSN that has to be durable
before it may leave. Whatever the peer sends ends in commands or in one ERROR frame, never in
an exception.
"""

from collections.abc import Callable
from typing import Final

from engine.commands import (
    Acknowledge,
    CloseConnection,
    Command,
    OpenConnection,
    RefuseConnection,
    Send,
)
from engine.events import AUTHENTICATION, DISCONNECTED, PROTOCOL_ERROR, TIMEOUT
from engine.refusals import Refusal
from protocols.stomp import states
from protocols.stomp.actions import ACTIONS, MESSAGE_ID_DIGITS_MAX, not_now, unknown_delivery
from protocols.stomp.errors import StompError, never_connected, refused, silent
from protocols.stomp.frames import (
    UNTIL_NUL,
    Gathering,
    Head,
    body_too_long,
    check_receipt,
    content_length,
    cut_receipt,
    error_frame,
    no_blank_line,
    parse_head,
    required,
    without_carriage_returns,
    wrong_length,
)
from protocols.stomp.handshake import Handshake
from protocols.stomp.heart_beats import HeartBeats
from protocols.stomp.options import StompOptions
from protocols.stomp.ports import BrokerPort
from protocols.stomp.sending import Planner, SendPlan
from protocols.stomp.subscription import Subscription
from protocols.stomp.versions import TEXTS, V10, V12

_LINE_ENDS: Final = (10, 13)
_PLAIN: Final = (65, 83)  # what begins with A or S may be plain
_S: Final = 83

_BLANK_LINE: Final = b"\n\n"
_BLANK_LINE_CR: Final = b"\n\r\n"

_ACK_ID: Final = b"ACK\nid:"
_ACK_END: Final = b"\n\n\0"
_ACK_ID_BYTES_MAX: Final = 10 + MESSAGE_ID_DIGITS_MAX + len(_ACK_END)

_SMALL_BYTES: Final = 16 * 1024
"""Up to here the beginning of a frame is kept as it is and read again; above, in pieces."""

_SIMPLE_RECEIPT_BYTES: Final = 64
_PLAIN_HEAD_BYTES_MAX: Final = 4096
_US_PER_MS: Final = 1000


class Session:
    """One connection's conversation. The owner of the connection

    - calls `tick` right after making it, again whenever `next_deadline` (microseconds, 0 for none)
      has come, and reads the new `next_deadline` after `tick` and `authenticated`;
    - after each call takes `out` and `gate`: the bytes may leave when LSN `gate` is durable;
    - when `login_request` (login, passcode, client id) appears, answers by `authenticated`;
    - when `closing` is set, closes the connection `close_delay_ms` after its output has left;
    - calls `connection_lost` when the connection ended, for whatever reason.
    """

    __slots__ = (
        "_body_max", "_connect_by", "_gathering", "_handshake", "_head", "_heard",
        "_heart_beats", "_held", "_held_bytes", "_peer", "_plain_reach", "_planner", "_rest",
        "_returns", "_scanned", "_server_name", "by_key", "by_serial",
        "close_delay_ms", "closing", "connection", "gate", "handle", "has_spoken", "latest",
        "login_request", "next_deadline", "options", "out", "serials", "state", "version",
    )  # fmt: skip

    def __init__(
        self, broker: BrokerPort, options: StompOptions, peer: str, server_name: str
    ) -> None:
        self.handle: Callable[[Command, int], int | Refusal] = broker.handle
        self.options: StompOptions = options
        self._peer: str = peer
        self._server_name: str = server_name
        self.state: str = states.NEW
        self.version: int = V10
        self.connection: int = 0
        self.out: list[bytes] = []
        self.gate: int = 0
        self.closing: bool = False
        self.close_delay_ms: int = 0
        self.login_request: tuple[str, str, str] | None = None
        self._handshake: Handshake | None = None
        # Input that is not yet a frame.
        self._rest: bytearray = bytearray()
        self._scanned: int = -1
        self._gathering: Gathering | None = None
        self._held: list[bytes] = []
        self._held_bytes: int = 0
        self._head: bytes = b""
        self._plain_reach: int = min(options.max_frame_head + 2, _PLAIN_HEAD_BYTES_MAX)
        self._body_max: int = options.max_data_length
        self._returns: bool = False  # the last head had CR LF line ends
        # Subscriptions by their key (id, destination in 1.0); in 1.2 those that acknowledge also
        # by serial, which their ack ids begin with; prepared SENDs by head.
        self.by_key: dict[tuple[str, str], Subscription] = {}
        self.by_serial: dict[bytes, Subscription] = {}
        self.serials: int = 0
        self.latest: Subscription | None = None
        self._planner: Planner = Planner(V10, options)
        # Time, in microseconds.
        self.next_deadline: int = 0
        self.has_spoken: bool = False
        self._heard: int = 0
        self._connect_by: int = 0
        self._heart_beats: HeartBeats = HeartBeats()

    # ---------------------------------------------------------------- input

    def receive(self, data: bytes, now: int) -> None:
        """Take bytes of the peer, cut anywhere. Input after the end of the session is ignored."""
        self._heard = now
        if self.closing or not data:
            return
        self._head = b""
        try:
            if self.state == states.AUTHENTICATING:
                self._hold(data)
            else:
                self._feed(data, now)
        except StompError as error:
            self._fail(error, PROTOCOL_ERROR, now)
        if self.out:
            self.has_spoken = True

    def _feed(self, data: bytes, now: int) -> None:
        if self._gathering is not None:
            data = self._gather(self._gathering, data, now)
        elif self._rest:
            data = self._with_rest(data)
        position = 0
        size = len(data)
        reach = self.options.max_frame_head + len(_BLANK_LINE)
        plans = self._planner.plans
        while position < size:
            first = data[position]
            if first in _LINE_ENDS:
                position += 1
                continue
            if first in _PLAIN and not self._returns:
                run = self._sends if first == _S else self._acks
                after = run(data, position, now)
                if after > position:
                    position = after
                    continue
            end = -1 if self._returns else data.find(_BLANK_LINE, position, position + reach)
            head = data[position:end] if end >= 0 else b""
            body_at = end + 2
            if end < 0 or b"\r" in head:
                head, body_at = self._find_head(data, position)
                if body_at < 0:
                    return
            self._head = head
            key = head
            receipt: bytes | None = None
            at = head.find(b"\nreceipt:")
            if at >= 0:
                line_end = head.find(b"\n", at + 9)
                if line_end < 0:
                    key, receipt = head[:at], head[at + 9 :]
                else:
                    key, receipt = head[:at] + head[line_end:], head[at + 9 : line_end]
                if not receipt.isalnum() or len(receipt) > _SIMPLE_RECEIPT_BYTES:
                    receipt = self._check_receipt(receipt)
            plan = plans.get(key)
            if plan is None and first == _S and key.startswith(b"SEND\n"):
                plan = self._prepare(key)
            if plan is not None:
                length = plan.length
                stop = body_at + length
                if length < 0 or stop >= size or data[stop]:
                    stop = self._body_end(data, body_at, length)
                    if stop < 0:
                        self._wait_for_body(data, position, body_at, length)
                        return
                self._send(plan, data[body_at:stop], receipt, now)
                position = stop + 1
                continue
            if b"\0" in head:
                raise no_blank_line()
            if body_at >= size:
                if head.partition(b"\n")[0] not in states.COMMANDS:
                    # Refused before the NUL, for which an HTTP client would make us wait for ever.
                    self._command(key, receipt, 0, now)
                self._keep(data, position, -1)
                return
            self._command(key, receipt, data[body_at], now)
            position = body_at + 1
            if self.state != states.CONNECTED:
                if self.state == states.AUTHENTICATING:
                    self._hold(data[position:])
                return

    def _find_head(self, data: bytes, position: int) -> tuple[bytes, int]:
        """The head that begins here and where its body begins; -1 when there is more to come.

        The way of everything unusual: CR LF, heads that are not complete, heads that never end.
        """
        limit = self.options.max_frame_head
        reach = position + limit + len(_BLANK_LINE_CR)
        may_return = self._may_return()
        # Searched first where it is likely, so that neither search runs far past the head.
        other = data.find(_BLANK_LINE_CR, position, reach) if self._returns else -1
        end = data.find(_BLANK_LINE, position, other + 2 if other >= 0 else reach)
        if may_return and not self._returns:
            other = data.find(_BLANK_LINE_CR, position, end + 2 if end >= 0 else reach)
        body_at = end + len(_BLANK_LINE)
        if other >= 0 and (end < 0 or other < end):
            end, body_at = other, other + len(_BLANK_LINE_CR)
        nul = data.find(b"\0", position, end if end >= 0 else reach)
        if nul >= 0:
            self._head = data[position:nul]
            raise no_blank_line()
        if end < 0 or end - position > limit:
            if len(data) < reach:
                self._keep(data, position, max(0, len(data) - position - 2))
                return b"", -1
            self._head = b""
            raise StompError(
                f"command and headers of a frame are longer than {limit} bytes",
                "send less, or raise max-frame-head in the broker's configuration",
            )
        head = data[position:end]
        self._head = head
        self._returns = may_return and b"\r" in head
        return without_carriage_returns(head) if self._returns else head, body_at

    def _may_return(self) -> bool:
        """Whether lines may end in CR LF: in 1.2, and before the version is known."""
        return self.version == V12 or self.state == states.NEW

    def _keep(self, data: bytes, position: int, scanned: int) -> None:
        """Keep the beginning of a frame; the search for its head's end goes on at `scanned`."""
        self._rest += data[position:]
        self._scanned = scanned

    def _with_rest(self, data: bytes) -> bytes:
        """What was kept and the new bytes, or nothing as long as the head cannot be complete."""
        rest = self._rest
        rest += data
        scanned = self._scanned
        if (
            scanned >= 0
            and len(rest) <= self.options.max_frame_head
            and rest.find(_BLANK_LINE, scanned) < 0
            and rest.find(b"\0", scanned) < 0
            and (not self._may_return() or rest.find(_BLANK_LINE_CR, scanned) < 0)
        ):
            self._scanned = max(0, len(rest) - 2)
            return b""
        whole = bytes(rest)
        rest.clear()
        return whole

    def _body_end(self, data: bytes, body_at: int, length: int) -> int:
        """Where the NUL of the frame is, or -1 when it has not come yet."""
        if length == UNTIL_NUL:
            stop = data.find(b"\0", body_at)
            if stop - body_at > self.options.max_data_length:
                raise body_too_long(f"more than {self.options.max_data_length}", self.options)
            return stop
        stop = body_at + length
        if stop >= len(data):
            return -1
        if data[stop] != 0:
            raise wrong_length(length)
        return stop

    def _wait_for_body(self, data: bytes, position: int, body_at: int, length: int) -> None:
        limit = self.options.max_data_length
        if length == UNTIL_NUL and len(data) - body_at > limit:
            raise body_too_long(f"more than {limit}", self.options)
        if len(data) - position <= _SMALL_BYTES:
            self._keep(data, position, -1)
        else:
            self._gathering = Gathering(self._head, length, data[body_at:])

    def _gather(self, gathering: Gathering, data: bytes, now: int) -> bytes:
        """Go on with a big body; answers what follows its frame."""
        self._head = gathering.head
        taken = gathering.add(data, self.options)
        if taken < 0:
            return b""
        self._gathering = None
        key, receipt = cut_receipt(gathering.head)
        receipt = self._check_receipt(receipt) if receipt is not None else None
        self._send(
            self._planner.plans.get(key) or self._prepare(key), gathering.body(), receipt, now
        )
        return data[taken:]

    def _hold(self, data: bytes) -> None:
        """Keep what comes before the login is decided."""
        self._held_bytes += len(data)
        if self._held_bytes > self.options.max_early_data:
            raise StompError(
                f"more than {self.options.max_early_data} bytes before CONNECTED",
                "wait for CONNECTED, or raise max-early-data in the broker's configuration",
            )
        self._held.append(data)

    def _check_receipt(self, receipt: bytes) -> bytes:
        if b"\0" in self._head:
            raise no_blank_line()
        return check_receipt(receipt, self.version, self.options)

    # ---------------------------------------------------------------- hot commands

    def _prepare(self, key: bytes) -> SendPlan:
        if b"\0" in key:
            raise no_blank_line()
        if self.state != states.CONNECTED:
            raise not_now(states.TOO_EARLY, "SEND")
        return self._planner.plan(key)

    def _send(self, plan: SendPlan, body: bytes, receipt: bytes | None, now: int) -> None:
        expires = plan.expires
        headers = plan.headers
        if plan.ttl:
            by_ttl = now // _US_PER_MS + plan.ttl
            expires = min(expires, by_ttl) if expires else by_ttl
            headers = b"%bexpires:%d\n" % (headers, expires)
        answer = self.handle(
            Send(
                self.connection, plan.address, headers, body, plan.routing_type, plan.queue,
                plan.priority, plan.persistent, expires, plan.transaction,
            ),
            now,
        )  # fmt: skip
        if isinstance(answer, Refusal):
            raise refused(answer)
        self._receipt(receipt, answer)

    def _sends(self, data: bytes, position: int, now: int) -> int:
        """Carry out a run of SENDs that are whole and plain; answers where it ends.

        Here and in `_acks`, whatever is not plain is left to the general way in `_feed`, which
        alone knows what is right and finds the words for what is wrong.
        """
        plans = self._planner.plans
        handle = self.handle
        connection = self.connection
        while True:
            end = data.find(_BLANK_LINE, position, position + self._plain_reach)
            if end < 0:
                return position
            receipt: bytes | None = None
            at = data.find(b"\nreceipt:", position, end)
            if at < 0:
                key = data[position:end]
            else:
                line_end = data.find(b"\n", at + 9, end)
                if line_end < 0:
                    line_end = end
                receipt = data[at + 9 : line_end]
                if not receipt.isalnum() or line_end - at > _SIMPLE_RECEIPT_BYTES:
                    return position
                key = data[position:at] + data[line_end:end]
            plan = plans.get(key)
            if plan is None:
                if not connection or not key.startswith(b"SEND\n") or b"\r" in key:
                    return position
                self._head = data[position:end]
                plan = self._prepare(key)
            if plan.ttl:
                return position
            body_at = end + 2
            length = plan.length
            stop = body_at + length if length >= 0 else data.find(b"\0", body_at)
            if not body_at <= stop < len(data) or data[stop] or stop - body_at > self._body_max:
                return position
            answer = handle(
                Send(
                    connection, plan.address, plan.headers, data[body_at:stop], plan.routing_type,
                    plan.queue, plan.priority, plan.persistent, plan.expires, plan.transaction,
                ),
                now,
            )  # fmt: skip
            if isinstance(answer, Refusal):
                self._head = data[position:end]
                raise refused(answer)
            if receipt is not None:
                self.out.append(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
                if answer > self.gate:
                    self.gate = answer
            position = stop + 1

    def _acks(self, data: bytes, position: int, now: int) -> int:
        """Carry out a run of ACKs of STOMP 1.2 with nothing but an id; answers where it ends."""
        handle = self.handle
        serials = self.by_serial
        while data.startswith(_ACK_ID, position):
            start = position + 7
            stop = data.find(_ACK_END, start, start + _ACK_ID_BYTES_MAX)
            if stop < 0:
                break
            serial, _, number = data[start:stop].partition(b"-")
            subscription = serials.get(serial)
            if subscription is None or not number.isdigit():
                break
            answer = handle(
                Acknowledge(subscription.consumer, int(number), subscription.cumulative, None), now
            )
            if isinstance(answer, Refusal):
                self._head = data[position:stop]
                raise unknown_delivery("ACK", data[start:stop].decode(), answer)
            position = stop + 3
        return position

    def _receipt(self, receipt: bytes | None, answer: int) -> None:
        if receipt is not None:
            self.out.append(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
            if answer > self.gate:
                self.gate = answer

    # ---------------------------------------------------------------- all commands

    def _command(self, key: bytes, receipt: bytes | None, terminator: int, now: int) -> None:
        head = parse_head(key, self.version, self.options)
        action = states.TABLE.get((self.state, head.command))
        if action is None or (action == "NACK" and self.version == V10):
            raise StompError(
                f"unknown command {head.command} in STOMP {TEXTS[self.version]}",
                "a frame begins with a STOMP command in capitals",
            )
        if action == "SEND":
            required(head, "destination")  # Only a SEND without any header comes this way.
        if action not in ACTIONS and action != "CONNECT":
            raise not_now(action, head.command)
        if content_length(head, self.options) > 0 or terminator != 0:
            raise StompError(f"{head.command} has a body", "only SEND may have a body")
        if action == "CONNECT":
            self._connect(head, now)
        else:
            self._receipt(receipt, ACTIONS[action](self, head, now))

    def do(self, command: Command, now: int) -> int:
        """Have the broker carry out a command; a refusal is raised as StompError."""
        answer = self.handle(command, now)
        if isinstance(answer, Refusal):
            raise refused(answer)
        return answer

    def _connect(self, head: Head, now: int) -> None:
        """CONNECT or STOMP: agree on a version, then ask for the login to be checked."""
        try:
            self._handshake = Handshake(head, self.options)
        except StompError as error:
            self._refuse(PROTOCOL_ERROR, head.values.get("login", ""), error.what, now)
            raise
        shake = self._handshake
        self.version = shake.version
        self.state = states.AUTHENTICATING
        self.login_request = (shake.login, shake.passcode, shake.client_id)

    def _refuse(self, reason: int, user: str, text: str, now: int) -> None:
        self.handle(RefuseConnection(reason, self._protocol(), self._peer, user, text), now)

    def _protocol(self) -> str:
        return f"STOMP {TEXTS[self.version]}"

    # ---------------------------------------------------------------- login, time, the end

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `login_request`: the user's name, or None and the reason for people."""
        shake = self._handshake
        if self.closing or self.login_request is None or shake is None:
            return
        self.login_request = None
        try:
            if user is None:
                self._refuse(AUTHENTICATION, shake.login, text, now)
                raise StompError(text or "login refused", "give a valid login and passcode")
            self._opened(shake, user, now)
        except StompError as error:
            self._head = b"CONNECT"
            self._fail(error, PROTOCOL_ERROR, now)
            return
        held = b"".join(self._held)
        self._held.clear()
        self.receive(held, now)

    def _opened(self, shake: Handshake, user: str, now: int) -> None:
        answer = self.do(
            OpenConnection(self._protocol(), self._peer, user, shake.client_id, self.options.room),
            now,
        )
        self.connection = answer
        self.state = states.CONNECTED
        self._planner = Planner(self.version, self.options)
        self._returns = False  # a CONNECT may have them in any version
        self.out.append(shake.connected(str(answer), self._server_name))
        self.gate = max(self.gate, answer)
        self._heard = now
        self._heart_beats.start(shake, self.options.heart_beat_grace, now)
        self.has_spoken = True
        self.next_deadline = self._heart_beats.deadline(now)

    def tick(self, now: int) -> None:
        """Do what time asks for: heart-beats out, silence of the peer, a login that never comes."""
        if self.closing:
            return
        if self.state != states.CONNECTED:
            self._tick_before_login(now)
            return
        if self._heart_beats.is_silent(self._heard, now):
            self._head = b""
            self._fail(silent((now - self._heard) // _US_PER_MS), TIMEOUT, now)
            return
        if self._heart_beats.is_due(now):
            if not self.has_spoken:
                self.out.append(b"\n")
            # A heart-beat counts as having spoken; else the next look is for something new.
            self.has_spoken = not self.has_spoken
        self.next_deadline = self._heart_beats.deadline(self._heard)

    def clock_stepped(self, step: int, now: int) -> None:
        """The clock was set by `step` microseconds, to `now`: no peer is given up for that."""
        # Heard before the step, by the old clock; or since, and then it is right already.
        if step > 0 or self._heard > now:
            self._heard = min(self._heard + step, now)
        if self._connect_by:
            self._connect_by = now + self.options.connect_timeout_ms * _US_PER_MS
            self.next_deadline = self._connect_by
        if self.state == states.CONNECTED:
            self._heart_beats.clock_stepped(now)
            self.next_deadline = self._heart_beats.deadline(self._heard)

    def _tick_before_login(self, now: int) -> None:
        timeout_ms = self.options.connect_timeout_ms
        if not timeout_ms:
            return
        if not self._connect_by:
            self._connect_by = now + timeout_ms * _US_PER_MS
        elif now >= self._connect_by:
            self._head = b""
            self._fail(never_connected(timeout_ms), TIMEOUT, now)
            return
        self.next_deadline = self._connect_by

    def connection_lost(self, now: int, reason: int = DISCONNECTED, text: str = "") -> None:
        """The connection is gone; the broker is told unless the session had ended before."""
        if self.connection:
            self.handle(CloseConnection(self.connection, reason, text), now)
            self.connection = 0
        self.end(0)

    def _fail(self, error: StompError, reason: int, now: int) -> None:
        """Write the ERROR frame and end the session; what the peer still sends is not processed."""
        head = self._head.partition(b"\0")[0]
        receipt = cut_receipt(head)[1]
        if receipt is not None:
            try:
                receipt = receipt.removesuffix(b"\r") if self.version == V12 else receipt
                receipt = check_receipt(receipt, self.version, self.options)
            except StompError:
                receipt = None
        self.out.append(error_frame(error, head, receipt, self.version))
        if self.connection:
            self.handle(CloseConnection(self.connection, reason, error.what), now)
            self.connection = 0
        self.end(self.options.die_delay_ms)

    def end(self, delay_ms: int) -> None:
        """End the session; its connection is to be closed so long after its output has left."""
        if not self.closing:
            self.closing = True
            self.close_delay_ms = delay_ms
        self.state = states.CLOSED
        self.next_deadline = 0
        self.login_request = None
        for subscription in self.by_key.values():
            subscription.is_open = False
        self.by_key.clear()
        self.by_serial.clear()
        self._planner = Planner(V10, self.options)
        self._held.clear()
        self._rest.clear()
        self._gathering = None
        self.latest = None
