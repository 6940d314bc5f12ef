"""A STOMP session: bytes of one connection in, commands to the broker, bytes out.

Sans-IO: it must never know sockets, clocks, tasks or disks. Time comes with every call, in
microseconds since 1970; output is collected in `out` together with the LSN that has to be durable
before it may leave. Any input of the peer leads to commands or to one ERROR frame, never to an
exception.
"""

import re
from collections.abc import Callable
from typing import Final

from daybook.engine.commands import Chunk, Send, Settle
from daybook.engine.facts.reasons import AUTHENTICATION, PROTOCOL_ERROR
from daybook.engine.messages.headers import build
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.send_outcome import Outcome
from daybook.protocols.port import BrokerPort, Caller, Login
from daybook.protocols.stomp.actions import (
    ACTIONS,
    MESSAGE_ID_DIGITS_MAX,
    not_now,
    unknown_delivery,
)
from daybook.protocols.stomp.bodies import Gathering
from daybook.protocols.stomp.composite import send_to_all
from daybook.protocols.stomp.conversation import Conversation
from daybook.protocols.stomp.sending import Planner, SendPlan
from daybook.protocols.stomp.wire import states
from daybook.protocols.stomp.wire.errors import Blocked, StompError, Unfinished, refused, too_early
from daybook.protocols.stomp.wire.frames import (
    UNTIL_NUL,
    Head,
    check_receipt,
    content_length,
    cut_receipt,
    no_blank_line,
    parse_head,
    required,
    without_carriage_returns,
    wrong_length,
)
from daybook.protocols.stomp.wire.handshake import Handshake
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import TEXTS, V10, V12, escape
from daybook.protocols.stomp.wire.virtual_hosts import on_host

_LINE_ENDS: Final = (10, 13)
_NO_LINE_END: Final = re.compile(rb"[^\r\n]")
_FEW_LINE_ENDS: Final = 16
_LINE_ENDS_SHIFT: Final = 8
"""Line ends between frames cost a unit of the budget for 2 to this power."""
_PLAIN: Final = (65, 83)  # what begins with A or S may be plain
_S: Final = 83

_BLANK_LINE: Final = b"\n\n"
_BLANK_LINE_CR: Final = b"\n\r\n"

_ACK_ID: Final = b"ACK\nid:"
_ACK_END: Final = b"\n\n\0"
_ACK_ID_BYTES_MAX: Final = 10 + MESSAGE_ID_DIGITS_MAX + len(_ACK_END)

_SMALL_BYTES: Final = 16 * 1024
"""A shorter beginning of a frame is kept and parsed again; a longer one is kept in pieces."""

_SIMPLE_RECEIPT_BYTES: Final = 64
_PLAIN_HEAD_BYTES_MAX: Final = 4096
_US_PER_MS: Final = 1000


class Session(Conversation):
    """One connection's conversation. The owner of the connection

    - calls `tick` right after creating it, again whenever `next_deadline` (microseconds, 0 for
      none) is reached, and reads the new `next_deadline` after `tick` and `authenticated`;
    - after each call takes `out`, `bodies` and `gate`: the bytes may be sent when LSN `gate` is
      durable, with the bodies of large messages in their places;
    - when `login_request` is set, answers with `authenticated`;
    - when `host_request` is set, answers with `admitted`;
    - records a `refusal` (reason, protocol, login, text), within the limit for peers without login;
    - when `is_blocked` is set, reads no more from the peer until it has called `resume_sender`,
      which it does when it is the connection's turn (`engine.limits.waiting_senders`);
    - when `has_more` is set, reads no more from the peer until it has called `proceed`, which it
      does after other sessions had their turn: the broker's budget was used up before the input;
    - sets `is_unheard` while it reads nothing from the peer, until it calls `listen_again`;
    - when `closing` is set, closes the connection `close_delay_ms` after its output has left;
    - calls `connection_lost` when the connection ended, for whatever reason.
    """

    __slots__ = (
        "_behind", "_body_max", "_connect_bytes", "_early_bytes", "_early_input", "_gathering",
        "_head_max", "_plain_reach", "_planner", "_rest", "_returns", "_scanned",
    )  # fmt: skip

    def __init__(
        self, broker: BrokerPort, options: StompOptions, caller: Caller, server_name: str
    ) -> None:
        super().__init__(broker, options, caller, server_name)
        # Input that is not a complete frame yet.
        self._rest: bytearray = bytearray()
        self._scanned: int = -1
        # The limit of a head: small before the login, then that of frames.
        self._head_max: int = min(options.max_frame_head, options.max_early_data)
        self._connect_bytes: int = 0
        self._gathering: Gathering | None = None
        self._early_input: list[bytes] = []
        self._early_bytes: int = 0
        self._plain_reach: int = min(options.max_frame_head + 2, _PLAIN_HEAD_BYTES_MAX)
        # The longest body that is kept in one piece.
        self._body_max: int = min(options.max_data_length, options.min_large_message_size)
        self._returns: bool = False  # the last head had CR LF line ends
        self._planner: Planner = Planner(V10, options)
        # Input beginning with the frame whose command is blocked, or for which there was no budget.
        self._behind: bytes = b""

    # ---------------------------------------------------------------- commands

    def _receipt(self, receipt: bytes | None, answer: int, outcome: Outcome | None = None) -> None:
        if receipt is not None:
            said = b"" if outcome is None else self._told(outcome)
            self.out.append(b"RECEIPT\nreceipt-id:" + receipt + b"\n" + said + b"\n\0")
            if answer > self.gate:
                self.gate = answer

    def _told(self, outcome: Outcome) -> bytes:
        """Return the outcome of a message as a header: its queues, or the reason for dropping
        it."""
        if outcome.reason:
            return b"dropped:" + outcome.reason.encode() + b"\n"
        names = ",".join(map(self.options.spelling.shown, outcome.queues))
        others = b"routed-others:%d\n" % outcome.others if outcome.others else b""
        return b"routed:" + escape(names.encode(), self.version) + b"\n" + others

    def _command(self, key: bytes, receipt: bytes | None, terminator: int, now: int) -> None:
        self.broker.budget.spent += key.count(b"\n") >> 1
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

    def _connect(self, head: Head, now: int) -> None:
        """CONNECT or STOMP: agree on a version, then request a check of the login."""
        try:
            self._handshake = Handshake(head, self.options)
        except StompError as error:
            self._refuse(PROTOCOL_ERROR, head.values.get("login", ""), error.what)
            raise
        shake = self._handshake
        self.version = shake.version
        self.options = on_host(self.options, shake.host)
        self.state = states.TRANSITIONS[self.state, states.LOGIN]
        certified = self._caller.certified
        by_certificate = certified != "" and shake.login in ("", certified)
        self.login_request = Login(shake.login, shake.passcode, by_certificate)

    # ---------------------------------------------------------------- input

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer, split anywhere; ignored after the end of the session."""
        self._heard = now
        if self.closing or not data:
            return
        if self.is_blocked or self.has_more:
            self._behind += data
            return
        if self.state == states.CONNECTED:
            self._carry_out(self._feed, data, now)
        elif self.state == states.NEW:
            self._carry_out(self._feed_early, data, now)
        else:
            self._carry_out(self._keep_early, data, now)

    def proceed(self, now: int) -> None:
        """Resume a blocked or unfinished command, or the input for which there was no budget."""
        if (self.is_blocked or self.has_more) and not self.closing:
            self.is_blocked = self.has_more = False
            data, self._behind = self._behind, b""
            self._carry_out(self._feed_again, data, now)

    def is_sender_waiting(self, link: int) -> bool:
        """Whether the command of the one sender of the connection waits for room."""
        return self.is_blocked

    def resume_sender(self, link: int, now: int) -> None:
        """Resume the blocked command: there may be room."""
        self.proceed(now)

    def conclude(self, now: int) -> None:
        """Effects have written everything."""

    def _carry_out(self, work: Callable[[bytes, int], None], data: bytes, now: int) -> None:
        self._head = b""
        try:
            work(data, now)
        except Blocked:
            self.is_blocked = True
        except Unfinished:
            self.has_more = True
        except StompError as error:
            self._fail(error, PROTOCOL_ERROR, now)
        if self.out:
            self.has_spoken = True

    def _feed_early(self, data: bytes, now: int) -> None:
        """Process bytes until the CONNECT is complete; even line feeds count for their limit."""
        self._feed(data, now)
        if self.state == states.NEW:
            self._connect_bytes += len(data)
            if self._connect_bytes > self.options.max_early_data:
                raise too_early(self.options.max_early_data, "CONNECT was whole")

    def _feed(self, data: bytes, now: int) -> None:
        if self._gathering is not None:
            data = self._gather(self._gathering, data, now)
        elif self._rest:
            data = self._with_rest(data)
        self._frames(data, now)

    def _feed_again(self, data: bytes, now: int) -> None:
        if self._gathering is not None:
            data = self._pass_on(self._gathering, data, now)
        self._frames(data, now)

    def _frames(self, data: bytes, now: int) -> None:
        position, size = 0, len(data)
        reach = self._head_max + len(_BLANK_LINE)
        try:
            while position < size:
                if self.broker.budget.is_spent:
                    raise Unfinished
                first = data[position]
                if first in _LINE_ENDS:
                    position = self._skip_line_ends(data, position + 1)
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
                    line_end = line_end if line_end >= 0 else len(head)
                    key, receipt = head[:at] + head[line_end:], head[at + 9 : line_end]
                    if not receipt.isalnum() or len(receipt) > _SIMPLE_RECEIPT_BYTES:
                        receipt = self._check_receipt(receipt)
                plan = self._planner.plans.get(key)
                if plan is None and first == _S and key.startswith(b"SEND\n"):
                    plan = self._prepare(key)
                if plan is not None:
                    length = plan.length
                    stop = body_at + length
                    if length < 0 or stop >= size or data[stop]:
                        stop = self._body_end(data, body_at, length)
                    if stop < 0 or stop - body_at > self._body_max:
                        if stop < 0 and self._keeps_body(data, position, body_at, plan):
                            return
                        data = self._begin_body(plan, data[body_at:], now)
                        position, size = 0, len(data)
                        continue
                    self._send(plan, data[body_at:stop], receipt, now)
                    position = stop + 1
                    continue
                if b"\0" in head:
                    raise no_blank_line()
                if body_at >= size:
                    if head.partition(b"\n")[0] not in states.COMMANDS:
                        # Parsed before the NUL arrives, because an HTTP client would never send
                        # one.
                        self._command(key, receipt, 0, now)
                    self._keep(data, position, -1)
                    return
                self._command(key, receipt, data[body_at], now)
                position = body_at + 1
                if self.state != states.CONNECTED:
                    if self.state == states.AUTHENTICATING:
                        self._keep_early(data[position:], now)
                    return
        except (Blocked, Unfinished):
            if self._gathering is None:
                self._behind = data[position:]
            raise

    def _find_head(self, data: bytes, position: int) -> tuple[bytes, int]:
        """Return the head that begins here and the position of its body; -1 if it is incomplete.

        This handles everything unusual: CR LF, incomplete heads, heads that never end.
        """
        limit = self._head_max
        reach = position + limit + len(_BLANK_LINE_CR)
        may_return = self._may_return()
        # The likely line end is searched first, so that neither search runs far past the head.
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
            if self.state == states.NEW:
                raise too_early(limit, "CONNECT was whole")
            raise StompError(
                f"command and headers of a frame are longer than {limit} bytes",
                "send less, or raise max-frame-head in the broker's configuration",
            )
        head = data[position:end]
        self._head = head
        self._returns = may_return and b"\r" in head
        return without_carriage_returns(head) if self._returns else head, body_at

    def _may_return(self) -> bool:
        """Return whether lines may end in CR LF: in 1.2, and before the version is known."""
        return self.version == V12 or self.state == states.NEW

    def _keep(self, data: bytes, position: int, scanned: int) -> None:
        """Keep the beginning of a frame; the search for its head's end continues at `scanned`."""
        self._rest += data[position:]
        self._scanned = scanned

    def _with_rest(self, data: bytes) -> bytes:
        """Return kept and new bytes joined, or b"" as long as the head cannot be complete."""
        rest = self._rest
        rest += data
        scanned = self._scanned
        if (
            scanned >= 0
            and len(rest) <= self._head_max
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
        """Return the position of the frame's NUL, -1 if it has not arrived yet."""
        if length == UNTIL_NUL:
            return data.find(b"\0", body_at)
        stop = body_at + length
        if stop >= len(data):
            return -1
        if data[stop] != 0 and length <= self._body_max:
            raise wrong_length(length)
        return stop

    def _skip_line_ends(self, data: bytes, position: int) -> int:
        after = _after_line_ends(data, position)
        self.broker.budget.spent += (after - position) >> _LINE_ENDS_SHIFT
        return after

    def _keeps_body(self, data: bytes, position: int, body_at: int, plan: SendPlan) -> bool:
        """Keep a short received part of a frame, to parse it again; return whether it was short.

        This is not done if the head would have to be parsed again, because it may arrive byte by
        byte.
        """
        body_bytes = max(len(data) - body_at, plan.length)
        if len(data) - position > _SMALL_BYTES or body_bytes > self._body_max:
            return False
        if not self._planner.remembers(body_at - position):
            return False
        self._keep(data, position, -1)
        return True

    def _begin_body(self, plan: SendPlan, data: bytes, now: int) -> bytes:
        """Begin a long body of the frame with this head; return the input after its frame."""
        self._gathering = Gathering(self._head, plan, self.options)
        self._await_body(now)
        return self._gather(self._gathering, data, now)

    def _gather(self, gathering: Gathering, data: bytes, now: int) -> bytes:
        """Continue a long body; return the input after its frame."""
        taken = gathering.add(data)
        return self._pass_on(gathering, data[taken:] if taken >= 0 else b"", now)

    def _pass_on(self, gathering: Gathering, behind: bytes, now: int) -> bytes:
        """Pass on complete chunks of a long body, or all of it; return the input after its frame.

        If it is blocked, the whole call is repeated later.
        """
        self._head = gathering.head
        self._behind = behind
        while chunk := gathering.chunk(gathering.is_whole):
            self._send_chunk(gathering, chunk, now)
        if gathering.problem is not None:
            raise gathering.problem
        if not gathering.is_whole:
            # Input that arrived while a chunk was blocked belongs to the same body.
            return self._gather(gathering, behind, now) if behind else b""
        receipt = cut_receipt(gathering.head)[1]
        receipt = self._check_receipt(receipt) if receipt is not None else None
        send = self._command_of(gathering.plan, b"" if gathering.chunks else gathering.body(), now)
        if gathering.chunks:
            send.chunks = tuple(gathering.chunks)
            send.body_bytes = gathering.size
        before = self.broker.lsn
        answer = self._pass(gathering.plan, send, now)
        outcome = None
        if gathering.plan.tells_outcome and send.transaction is None:
            outcome = self.broker.outcome(before, self.connection)
        self._gathering = None
        self._body_by = 0
        self._behind = b""
        self._receipt(receipt, answer, outcome)
        return behind

    def _send_chunk(self, gathering: Gathering, chunk: bytes, now: int) -> None:
        if gathering.send is None:
            gathering.send = self._command_of(gathering.plan, b"", now)
            if gathering.plan.also:
                # The first destination may have had it, and the others need its chunks.
                gathering.send.duplicate_id = ""
        chunks = gathering.chunks
        try:
            chunks.append(self.do(Chunk(gathering.send, chunk, chunks[-1] if chunks else 0), now))
            self._await_body(now)
        except Blocked:
            gathering.put_back(chunk)
            raise

    def is_ahead(self, durable_lsn: int, chunk_count: int) -> bool:
        """Return whether `chunk_count` chunks of the peer's current body are not durable yet."""
        gathering = self._gathering
        if gathering is None or len(gathering.chunks) < chunk_count:
            return False
        return gathering.chunks[-chunk_count] > durable_lsn

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory that hold input of the peer, except for input that became a command."""
        buffered = len(self._rest) + len(self._behind) + self._early_bytes
        if self._gathering is not None:
            buffered += self._gathering.buffered_bytes
        return buffered + self._planner.cached_bytes + self.keys_bytes

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk of the body that the peer is sending, 0 if none."""
        gathering = self._gathering
        return gathering.chunks[0] if gathering is not None and gathering.chunks else 0

    def _keep_early(self, data: bytes, now: int) -> None:
        """Keep input that arrives before the login is decided."""
        self._early_bytes += len(data)
        if self._early_bytes > self.options.max_early_data:
            raise too_early(self.options.max_early_data, "CONNECTED was sent")
        self._early_input.append(data)

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
        self.broker.budget.spent += key.count(b"\n") >> 1
        return self._planner.plan(key)

    def _send(self, plan: SendPlan, body: bytes, receipt: bytes | None, now: int) -> None:
        self._do_send(plan, self._command_of(plan, body, now), receipt, now)

    def _do_send(self, plan: SendPlan, send: Send, receipt: bytes | None, now: int) -> None:
        """Send a message and its receipt, with the outcome if requested."""
        before = self.broker.lsn
        answer = self._pass(plan, send, now)
        outcome = None
        if plan.tells_outcome and receipt is not None and plan.transaction is None:
            outcome = self.broker.outcome(before, self.connection)
        self._receipt(receipt, answer, outcome)

    def _pass(self, plan: SendPlan, send: Send, now: int) -> int:
        return send_to_all(self, plan, send, now) if plan.also else self.do_send(send, now)

    def _command_of(self, plan: SendPlan, body: bytes, now: int) -> Send:
        if isinstance(self.kept, Send):
            return self.kept
        expires, headers = plan.expires, plan.headers
        if plan.ttl:
            by_ttl = now // _US_PER_MS + plan.ttl
            expires = min(expires, by_ttl) if expires else by_ttl
            headers = b"%bexpires:%d\n" % (headers, expires)
        due = plan.due
        if plan.delay:
            due = now // _US_PER_MS + plan.delay
            headers = b"%b_AMQ_SCHED_DELIVERY:%d\n" % (headers, due)
        if self.options.add_timestamp_header:
            arrived = (self.options.add_timestamp_header, str(now // _US_PER_MS))
            headers += build([arrived])
        return Send(
            self.connection, plan.address, headers, body, plan.routing_type, plan.queue,
            plan.priority, plan.persistent, expires, plan.transaction, (), 0, plan.duplicate_id,
            plan.format, due, retain=plan.retain,
        )  # fmt: skip

    def _sends(self, data: bytes, position: int, now: int) -> int:
        """Execute a run of complete, plain SENDs; return where it ends. As in `_acks`, all other
        frames are left to `_feed`, which alone reports errors."""
        if self.kept is not None:
            return position
        plans, handle = self._planner.plans, self.handle
        budget, connection = self.broker.budget, self.connection
        reach, body_max, size = self._plain_reach, self._body_max, len(data)
        # The head of the previous frame: the part before its receipt, and the part after it.
        before = behind = b""
        plan: SendPlan | None = None
        while budget.spent < budget.limit:
            receipt: bytes | None = None
            if plan is not None and data.startswith(before, position):
                at = body_at = position + len(before)
                if behind:
                    end = data.find(behind, at, at + _SIMPLE_RECEIPT_BYTES)
                    if end < 0:
                        return position
                    receipt = data[at:end]
                    body_at = end + len(behind)
                    if not receipt.isalnum():
                        return position
            else:
                end = data.find(_BLANK_LINE, position, position + reach)
                if end < 0:
                    return position
                body_at = end + 2
                at = data.find(b"\nreceipt:", position, end)
                if at < 0:
                    key = data[position:end]
                    before, behind = data[position:body_at], b""
                else:
                    line_end = data.find(b"\n", at + 9, body_at)
                    receipt = data[at + 9 : line_end]
                    if not receipt.isalnum() or line_end - at > _SIMPLE_RECEIPT_BYTES:
                        return position
                    key = data[position:at] + data[line_end:end]
                    before, behind = data[position : at + 9], data[line_end:body_at]
                plan = plans.get(key)
                if plan is None:
                    if not connection or not key.startswith(b"SEND\n") or b"\r" in key:
                        return position
                    self._head = data[position:end]
                    plan = self._prepare(key)
            if plan.is_special:
                return position
            length = plan.length
            stop = body_at + length if length >= 0 else data.find(b"\0", body_at)
            if not body_at <= stop < size or data[stop] or stop - body_at > body_max:
                return position
            answer = handle(
                Send(
                    connection, plan.address, plan.headers, data[body_at:stop], plan.routing_type,
                    plan.queue, plan.priority, plan.persistent, plan.expires, plan.transaction,
                    (), 0, plan.duplicate_id, plan.format,
                ),
                now,
            )  # fmt: skip
            if isinstance(answer, Refusal):
                if answer.code is Code.BLOCKED or answer.code is Code.UNFINISHED:
                    return position
                self._head = data[position : body_at - 2]
                raise refused(answer)
            if receipt is not None:
                self.out.append(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
                if answer > self.gate:
                    self.gate = answer
            position = stop + 1
        return position

    def _acks(self, data: bytes, position: int, now: int) -> int:
        """Execute a run of ACKs of STOMP 1.2 that have only an id; return where it ends."""
        handle = self.handle
        serials = self.by_serial
        budget = self.broker.budget
        while data.startswith(_ACK_ID, position) and budget.spent < budget.limit:
            start = position + 7
            stop = data.find(_ACK_END, start, start + _ACK_ID_BYTES_MAX)
            if stop < 0:
                break
            serial, _, number = data[start:stop].partition(b"-")
            subscription = serials.get(serial)
            if subscription is None or not subscription.acknowledges or not number.isdigit():
                break
            answer = handle(
                Settle(subscription.consumer, int(number), subscription.cumulative, None), now
            )
            if isinstance(answer, Refusal):
                if answer.code is Code.UNFINISHED or subscription.is_over:
                    return position
                self._head = data[position:stop]
                raise unknown_delivery("ACK", data[start:stop].decode(), answer)
            position = stop + 3
        return position

    # ---------------------------------------------------------------- the beginning and the end

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `login_request`: the user's name, or None and the reason for people."""
        shake = self._handshake
        if self.closing or self.login_request is None or shake is None:
            return
        self.login_request = None
        try:
            if user is None:
                what, _, advice = text.partition("; ")
                self._refuse(AUTHENTICATION, shake.login, what)
                raise StompError(what, advice or "give a valid login and passcode")
        except StompError as error:
            self._fail_login(error, now)
            return
        self._user = user
        self.host_request = shake.host

    def admitted(self, text: str, now: int) -> None:
        """The answer to `host_request`: "" or the reason, for people, why the user may not use the
        host. The connection is opened."""
        shake, user = self._handshake, self._user
        if self.closing or self.host_request is None or shake is None:
            return
        self.host_request = None
        try:
            if text:
                what, _, advice = text.partition("; ")
                self._refuse(AUTHENTICATION, shake.login, what)
                raise StompError(what, advice or "connect to another virtual host")
            self._open(shake, user, now)
            roles = self.broker.roles_of(user)
            self._planner = Planner(self.version, self.options, self.connection, user, roles)
            self._head_max = self.options.max_frame_head
            self._returns = False  # a CONNECT may have them in any version
        except StompError as error:
            self._fail_login(error, now)
            return
        data, self._early_bytes = b"".join(self._early_input), 0
        self._early_input.clear()
        self.receive(data, now)

    def _fail_login(self, error: StompError, now: int) -> None:
        self._head = b"CONNECT"
        self._fail(error, PROTOCOL_ERROR, now)

    def end(self, delay_ms: int) -> None:
        """End the session; its connection is to be closed so long after its output has left."""
        super().end(delay_ms)
        self._planner = Planner(V10, self.options)
        self._early_input.clear()
        self._early_bytes = 0
        self._rest.clear()
        self._gathering = None
        self._body_by = 0
        self._behind = b""
        self.is_blocked = self.has_more = False


def _after_line_ends(data: bytes, position: int) -> int:
    """Return the position of the first byte after line ends; many are skipped in one step."""
    few = position + _FEW_LINE_ENDS
    found = _NO_LINE_END.search(data, position, few)
    if found is not None:
        return found.start()
    return len(data) - len(data[few:].lstrip(b"\r\n"))
