"""The conversation of a connection: login, commands, time and the end. Not how input is cut.

Sans-IO like the session, which is its other half: it must never know where a frame begins.
"""

from collections.abc import Callable
from typing import Final

from engine.commands import CloseConnection, Command, OpenConnection, RefuseConnection
from engine.events import DISCONNECTED, PROTOCOL_ERROR, TIMEOUT
from engine.refusals import Refusal
from protocols.stomp import states
from protocols.stomp.actions import ACTIONS, not_now
from protocols.stomp.bodies import Body
from protocols.stomp.errors import StompError, never_connected, refused, silent
from protocols.stomp.frames import (
    Head,
    check_receipt,
    content_length,
    cut_receipt,
    error_frame,
    parse_head,
    required,
)
from protocols.stomp.handshake import Handshake
from protocols.stomp.heart_beats import HeartBeats
from protocols.stomp.options import StompOptions
from protocols.stomp.ports import BrokerPort
from protocols.stomp.subscription import Subscription
from protocols.stomp.versions import TEXTS, V10, V12

_US_PER_MS: Final = 1000


class Conversation:
    """What the two sides of a connection have said so far, and what follows from it.

    `out` is what is to be said, `bodies` are the places in it where bodies of large messages go.
    """

    __slots__ = (
        "_connect_by", "_handshake", "_head", "_heard", "_heart_beats", "_peer", "_server_name",
        "bodies", "by_key", "by_serial", "close_delay_ms", "closing", "connection", "gate",
        "handle", "has_spoken", "is_unheard", "latest", "login_request", "next_deadline",
        "options", "out", "serials", "state", "version",
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
        self.bodies: list[Body] = []
        self.gate: int = 0
        self.closing: bool = False
        self.close_delay_ms: int = 0
        self.login_request: tuple[str, str, str] | None = None
        self._handshake: Handshake | None = None
        self._head: bytes = b""
        # Subscriptions by their key (id, destination in 1.0); in 1.2 those that acknowledge also
        # by serial, which their ack ids begin with.
        self.by_key: dict[tuple[str, str], Subscription] = {}
        self.by_serial: dict[bytes, Subscription] = {}
        self.serials: int = 0
        self.latest: Subscription | None = None
        # Time, in microseconds.
        self.next_deadline: int = 0
        self.has_spoken: bool = False
        self.is_unheard: bool = False
        self._heard: int = 0
        self._connect_by: int = 0
        self._heart_beats: HeartBeats = HeartBeats()

    # ---------------------------------------------------------------- commands

    def _receipt(self, receipt: bytes | None, answer: int) -> None:
        if receipt is not None:
            self.out.append(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
            if answer > self.gate:
                self.gate = answer

    def say_body(self, chunks: tuple[int, ...], body_bytes: int) -> None:
        """Have the body of a large message follow what was said last."""
        self.bodies.append(Body(sum(map(len, self.out)), chunks, body_bytes))

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
        """Have the broker carry out a command; a refusal is raised as StompError, or as Blocked."""
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

    def _opened(self, shake: Handshake, user: str, now: int) -> None:
        answer = self.do(
            OpenConnection(self._protocol(), self._peer, user, shake.client_id, self.options.room),
            now,
        )
        self.connection = answer
        self.state = states.CONNECTED
        self.out.append(shake.connected(str(answer), self._server_name))
        self.gate = max(self.gate, answer)
        self._heard = now
        self._heart_beats.start(shake, self.options.heart_beat_grace, now)
        self.has_spoken = True
        self.next_deadline = self._heart_beats.deadline(now)

    def listen_again(self, now: int) -> None:
        """What the peer says is read again; its silence and its time to log in begin now."""
        self.is_unheard = False
        self._heard = now
        if self._connect_by:
            self._await_login(now)

    def is_taking(self, now: int) -> None:
        """The peer takes what it is sent: it is alive, and it hears the broker."""
        self._heard = max(self._heard, now)
        self.has_spoken = True

    def tick(self, now: int) -> None:
        """Do what time asks for: heart-beats out, silence of the peer, a login that never comes."""
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
            self._await_login(now)
            self.next_deadline = self._connect_by
        if self.state == states.CONNECTED:
            self._heart_beats.clock_stepped(now)
            self.next_deadline = self._heart_beats.deadline(self._heard)

    def _tick_before_login(self, now: int) -> None:
        timeout_ms = self.options.connect_timeout_ms
        if not timeout_ms:
            return
        if self.is_unheard or not self._connect_by:
            # Of whom nothing is read, nothing can be expected.
            self._await_login(now)
        elif now >= self._connect_by:
            self._head = b""
            self._fail(never_connected(timeout_ms), TIMEOUT, now)
            return
        self.next_deadline = self._connect_by

    def _await_login(self, now: int) -> None:
        self._connect_by = now + self.options.connect_timeout_ms * _US_PER_MS

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
            closed = self.handle(CloseConnection(self.connection, reason, error.what), now)
            if error.code and isinstance(closed, int):
                self.gate = max(self.gate, closed)
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
        self.latest = None
