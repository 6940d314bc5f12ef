"""A session of the made-up protocol: sans-IO, like those of the others."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from daybook.engine.commands import (
    Attach,
    CloseConnection,
    CreateTemporary,
    Credit,
    Detach,
    EndOwner,
    OpenConnection,
    Settle,
)
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, AutoLink
from daybook.engine.facts.reasons import (
    AUTHENTICATION,
    CLOSED,
    DISCONNECTED,
    LIMIT,
    PROTOCOL_ERROR,
    TIMEOUT,
)
from daybook.engine.facts.settlements import BY_GRANT
from daybook.engine.names.names import HOST, temporary_name
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.port import (
    RECEIVES,
    SENDS,
    AutoLinkRow,
    Body,
    BrokerPort,
    Caller,
    LinkCounts,
    LinkRow,
    Pull,
    SaslStep,
    SessionRow,
)
from tests.support.links.incoming import CREDIT, Incoming
from tests.support.links.outgoing import Outgoing
from tests.support.links.wire import BadFrame, Cutter, frame

OPEN_US: Final = 60_000_000
"""How long a peer may take until it has opened its connection."""


class Wrong(Exception):
    """The peer did something wrong; its connection ends."""


class LinksSession:
    """One connection; its attributes are those of the port."""

    def __init__(self, broker: BrokerPort, caller: Caller, room: int) -> None:
        self.broker: Final = broker
        self.out: list[bytes] = []
        self.bodies: list[Body] = []
        self.pulls: list[Pull] = []
        self.gate = 0
        self.connection = 0
        self.login_request: SaslStep | None = None
        self.host_request: str | None = None
        self.refusal: tuple[int, str, str, str] | None = None
        self.has_more = self.has_unfinished = self.closing = self.is_blocked = False
        self.is_unheard = self.awaits_disk = self.has_stalled = False
        self.urgent = b""
        self.close_delay_ms = 0
        self.error = ""
        self.next_deadline = 0
        self.window = 0
        self.links: Final[dict[int, Incoming | Outgoing]] = {}
        self._caller: Final = caller
        self._room: Final = room
        self._cutter: Final = Cutter()
        self._user = self._mechanism = ""
        self._proof = b""
        self._container = ""
        self._is_pumping = False

    def attach_link(self, link: AutoLink, now: int) -> None:
        """Attach nothing."""

    def renew_auto_links(self, now: int) -> None:
        """There are none."""

    @property
    def auto_links(self) -> Sequence[AutoLinkRow]:
        """There are none."""
        return ()

    @property
    def peer_product(self) -> str:
        """Peers do not say it."""
        return ""

    @property
    def link_counts(self) -> LinkCounts:
        """How many links there are."""
        receivers = sum(isinstance(each, Outgoing) for each in self.links.values())
        return LinkCounts(1, len(self.links) - receivers, receivers)

    def session_rows(self, first: int, count: int) -> list[SessionRow]:
        """Say that the one session has no windows."""
        return [SessionRow(1, len(self.links), 0, 0, 0, 0, 0)][first : first + count]

    def link_rows(self, first: int, count: int) -> list[LinkRow]:
        """Return so many links, from one on."""
        some = list(self.links.items())[first : first + count]
        return [
            LinkRow(str(number), RECEIVES if isinstance(each, Outgoing) else SENDS, 1)
            for number, each in some
        ]

    # ---- output

    def say(self, output: bytes, gate: int = 0) -> None:
        """Put out a frame that waits for an event."""
        self.out.append(output)
        self.gate = max(self.gate, gate)

    def pump(self) -> None:
        """Send what the window allows, a frame of each link in turn."""
        # Deliveries of a call are pumped together.
        links = [each for each in self.links.values() if isinstance(each, Outgoing)]
        while self.window > 0 and links:
            for link in list(links):
                if self.window <= 0:
                    return
                if link.pump():
                    self.window -= 1
                else:
                    links.remove(link)

    def end_link(self, number: int, code: str, text: str = "") -> None:
        """End a link, and say why."""
        link = self.links.pop(number, None)
        if isinstance(link, Outgoing):
            link.forget()
        self.say(frame("detached", number, code, text))

    # ---- input

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer."""
        if not self.closing:
            self._cutter.put(data)
            if not self.has_more:
                self._go_on(now)

    def proceed(self, now: int) -> None:
        """Take the input that is left, then continue with commands that were unfinished."""
        if self.has_more:
            self.has_more = False
            self._go_on(now)
        if self.has_unfinished:
            self.has_unfinished = False
            for link in list(self.links.values()):
                if isinstance(link, Incoming) and link.is_unfinished:
                    link.finish(now)

    def _go_on(self, now: int) -> None:
        try:
            while not self.closing and self.login_request is None and self.host_request is None:
                if self.broker.budget.is_spent:
                    self.has_more = True
                    return
                found = self._cutter.next()
                if found is None:
                    return
                self._obey(found, now)
        except (BadFrame, Wrong) as error:
            self._fail(str(error), PROTOCOL_ERROR, now)

    def _obey(self, found: list[Any], now: int) -> None:
        name, *parts = found
        action: Callable[..., None] | None = getattr(self, f"_on_{name}", None)
        if action is None:
            raise Wrong(f"unknown frame {name}")
        if not self.connection and name not in ("hello", "init", "response", "open"):
            raise Wrong(f"{name} before open")
        try:
            action(now, *parts)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise Wrong(f"{name}: {error}") from None

    def _on_hello(self, now: int) -> None:
        caller = self._caller
        self.say(frame("mechanisms", list(caller.mechanisms), sorted(caller.bindings)))

    def _on_init(self, now: int, mechanism: str, response: bytes | None) -> None:
        if self._user or self._mechanism:
            raise Wrong("login twice")
        self._mechanism = mechanism
        self.login_request = SaslStep(mechanism, response, self)

    def _on_response(self, now: int, response: bytes) -> None:
        if self._user or not self._mechanism:
            raise Wrong("a response to no challenge")
        self.login_request = SaslStep(self._mechanism, response, self)

    def challenge(self, challenge: bytes, now: int) -> None:
        """The login has another step."""
        self.login_request = None
        self.say(frame("challenge", challenge))
        self._go_on(now)

    def prove(self, proof: bytes) -> None:
        """The outcome takes this along."""
        self._proof = proof

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The login was checked."""
        self.login_request = None
        if self.closing:
            return
        if user is None:
            self.refusal = (AUTHENTICATION, "links", "", text)
            self._fail(text, AUTHENTICATION, now)
            return
        self._user = user
        self.say(frame("outcome", user, self._proof))
        self._go_on(now)

    def _on_open(self, now: int, container: str, host: str = HOST) -> None:
        if not self._user or self.connection:
            raise Wrong("open before login, or twice")
        self._container = container
        self.host_request = host

    def admitted(self, text: str, now: int) -> None:
        """The virtual host was checked: the connection is opened."""
        host, self.host_request = self.host_request, None
        if self.closing or host is None:
            return
        if text:
            self._fail(text, AUTHENTICATION, now)
            return
        answer = self.broker.handle(
            OpenConnection(
                "links", self._caller.name, self._user, self._container, self._room, host=host
            ),
            now,
        )
        if isinstance(answer, Refusal):
            self._fail(answer.text, LIMIT, now)
            return
        self.connection = answer
        self.next_deadline = 0
        self.say(frame("opened", answer), answer)
        self._go_on(now)

    def _on_attach(
        self, now: int, number: int, role: str, address: str, options: dict[str, Any] | None = None
    ) -> None:
        if number in self.links:
            raise Wrong(f"link {number} is attached")
        if role == "sender":
            self.links[number] = Incoming(self, number, address)
            self.say(frame("attached", number))
            self.say(frame("credit", number, CREDIT))
            return
        if role == "dynamic":
            self._make(number, address, now)
            return
        asked = options or {}
        link = Outgoing(self, number)
        answer = self.broker.handle(
            Attach(
                self.connection, address, subscription=str(number),
                routing_type=MULTICAST if asked.get("topic") else ANYCAST,
                filter=asked.get("filter", ""), credit_policy=BY_GRANT, credit_messages=0,
                credit_bytes=0, receiver=link, durable_name=asked.get("named"),
                session=asked.get("session", 0), expiry_policy=asked.get("expires", ""),
                expiry_ms=asked.get("after", 0), durable=asked.get("durable", True),
            ),
            now,
        )  # fmt: skip
        if isinstance(answer, Refusal):
            self.say(frame("detached", number, answer.code.value, answer.text))
            return
        link.consumer = answer
        self.links[number] = link
        self.say(frame("attached", number), answer)

    def _make(self, number: int, name: str, now: int) -> None:
        """Attach a link to send by to a destination that is made for it and ends with it."""
        address = temporary_name(self.connection, name)
        answer = self._do(CreateTemporary(self.connection, address, link=number), now)
        self.links[number] = Incoming(self, number, address)
        self.say(frame("attached", number, address), answer)
        self.say(frame("credit", number, CREDIT))

    def _on_end(self, now: int, session: int) -> None:
        """End a session, whose links were detached before."""
        self.say(frame("ended", session), self._do(EndOwner(self.connection, session=session), now))

    def _on_transfer(
        self, now: int, number: int, tag: str, headers: dict[str, Any], piece: bytes, more: bool
    ) -> None:
        link = self.links[number]
        assert isinstance(link, Incoming)
        if wrong := link.transfer(tag, headers, piece, more):
            link.detach(now)
            self.end_link(number, "transfer-refused", wrong)
        else:
            link.push(now)

    def _on_flow(self, now: int, number: int, credit: int, drains: bool = False) -> None:
        """Give credit: how many deliveries there may be in all."""
        link = self._outgoing(number)
        self._do(Credit(link.consumer, in_all=credit, drains=drains), now)

    def _on_window(self, now: int, frames: int) -> None:
        self.window += frames
        self.pump()

    def _on_settle(
        self, now: int, number: int, message: int, outcome: int, said: dict[str, Any]
    ) -> None:
        consumer = self._outgoing(number).consumer
        said["annotations"] = dict(said.get("annotations", ()))
        command = Settle(consumer, message, outcome=outcome, **said)
        answer = self.broker.handle(command, now)
        if isinstance(answer, Refusal) and answer.code in (Code.LIMIT, Code.INVALID):
            # The delivery stays with the link, which may say less.
            self.say(frame("unsettled", number, message, answer.code.value, answer.text))
            return
        if isinstance(answer, Refusal):
            answer = self._do(command, now)
        self.say(frame("settled", number, message), answer)

    def _on_detach(self, now: int, number: int, closes: bool = False) -> None:
        """Detach a link, or close it: with its subscription."""
        link = self.links[number]
        if isinstance(link, Incoming):
            link.detach(now)
            self._do(EndOwner(self.connection, link=number), now)
        else:
            link.forget()
            self._do(Detach(link.consumer, delete_durable=closes), now)
        self.end_link(number, "")

    def _on_close(self, now: int) -> None:
        self.say(frame("closed", ""))
        self._close(CLOSED, "", now)

    def _outgoing(self, number: int) -> Outgoing:
        link = self.links[number]
        if not isinstance(link, Outgoing):
            raise Wrong(f"link {number} is no receiver")
        return link

    def _do(self, command: Any, now: int) -> int:
        answer = self.broker.handle(command, now)
        if isinstance(answer, Refusal):
            if answer.code is Code.UNFINISHED:
                return self._do(command, now)
            raise Wrong(answer.text)
        return answer

    # ---- questions of the hub

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory that hold input."""
        buffered = sum(
            each.buffered_bytes for each in self.links.values() if isinstance(each, Incoming)
        )
        return buffered + len(self._cutter.rest)

    @property
    def unsent_bytes(self) -> int:
        """The bytes of deliveries that wait for the window."""
        return sum(each.unsent_bytes for each in self.links.values() if isinstance(each, Outgoing))

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that is still needed."""
        return min(filter(None, (each.first_chunk for each in self.links.values())), default=0)

    def is_sender_waiting(self, link: int) -> bool:
        """Whether a link waits for room."""
        found = self.links.get(link)
        return isinstance(found, Incoming) and found.is_waiting

    def resume_sender(self, link: int, now: int) -> None:
        """Give the command of a link again."""
        found = self.links[link]
        assert isinstance(found, Incoming)
        found.is_waiting = False
        found.push(now)

    def conclude(self, now: int) -> None:
        """Effects have written everything."""

    def is_ahead(self, durable_lsn: int, chunk_count: int) -> bool:
        """Bodies of tests are short."""
        return False

    def tick(self, now: int) -> None:
        """End a connection that is not opened in time."""
        if self.connection or self.closing:
            return
        if not self.next_deadline:
            self.next_deadline = now + OPEN_US
        elif now >= self.next_deadline:
            self._fail("not opened in time", TIMEOUT, now)

    def clock_stepped(self, step: int, now: int) -> None:
        """Deadlines move along."""
        if self.next_deadline:
            self.next_deadline = now + OPEN_US

    def listen_again(self, now: int) -> None:
        """The peer is read again."""
        self.is_unheard = False

    def is_taking(self, now: int) -> None:
        """The peer reads."""

    # ---- the end

    def dismiss(self, what: str, advice: str, now: int, reason: int = LIMIT) -> None:
        """End the session on behalf of the broker."""
        if not self.closing:
            self._fail(what, reason, now)

    def farewell(self, text: str) -> bytes:
        """Return nothing."""
        return b""

    def connection_lost(self, now: int, reason: int = DISCONNECTED, text: str = "") -> None:
        """The connection is gone."""
        self._close(reason, text, now)

    def _fail(self, what: str, reason: int, now: int) -> None:
        self.error = what
        self.say(frame("closed", what))
        self._close(reason, what, now)

    def _close(self, reason: int, text: str, now: int) -> None:
        if self.connection:
            self.broker.handle(CloseConnection(self.connection, reason, text), now)
            self.connection = 0
        self.links.clear()
        self.closing = True
        self.has_more = self.has_unfinished = False
        self.next_deadline = 0
        self.login_request = self.host_request = None
