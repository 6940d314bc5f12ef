"""A broker that records commands and answers as told: enough to test sessions without an engine."""

from daybook.engine.commands import Attach, Command, OpenConnection
from daybook.engine.limits.budget import Budget
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.send_outcome import Outcome
from daybook.protocols.port import Caller
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.subscription import Subscription
from daybook.protocols.stomp.wire.options import StompOptions

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


class FakeBroker:
    """Answers each command with the next LSN, or with the refusal prepared for its type."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.commands: list[Command] = []
        self.lsn = 0
        self.attached: list[int] = []
        self.refusals: dict[type[Command], list[Refusal]] = {}

    def handle(self, command: Command, now: int) -> int | Refusal:
        self.commands.append(command)
        self.budget.spent += 1
        waiting = self.refusals.get(type(command))
        if waiting:
            return waiting.pop(0)
        self.lsn += 1
        if isinstance(command, Attach):
            self.attached.append(self.lsn)
        return self.lsn

    def holders(self, connection: int, message: int) -> list[int]:
        """All that attached; a fake does not know their deliveries."""
        return self.attached

    def is_direct(self, consumer: int) -> bool:
        return False

    def routing_type(self, address: str) -> str:
        return "multicast"

    def roles_of(self, user: str) -> tuple[str, ...]:
        return ("sales", "admins")

    def outcome(self, since: int, connection: int) -> Outcome | None:
        return Outcome(("q",)) if since < self.lsn else None

    def refuse(self, kind: type[Command], code: Code, text: str) -> None:
        self.refusals.setdefault(kind, []).append(Refusal(code, text))

    def of(self, kind: type[Command]) -> list[Command]:
        return [command for command in self.commands if type(command) is kind]


class FakeMessage:
    def __init__(
        self,
        number: int,
        headers: bytes,
        body: bytes = b"",
        chunks: tuple[int, ...] = (),
        flags: int = 0,
    ) -> None:
        self.id = number
        self.flags = flags
        self.priority = 4
        self.expires = 0
        self.headers = headers
        self.body = body
        self.chunks = chunks
        self.body_bytes = len(body) or 10 * len(chunks)


class Peer:
    """A client without a socket: sends bytes to its session and reads what comes back."""

    def __init__(
        self, options: StompOptions | None = None, broker: FakeBroker | None = None
    ) -> None:
        self.broker = broker or FakeBroker()
        self.session = Session(
            self.broker, options or StompOptions(), Caller("127.0.0.1:5"), "daybook/0"
        )
        self.now = NOW
        self.session.tick(self.now)

    def send(self, data: bytes) -> bytes:
        self.session.receive(data, self.now)
        return self.taken()

    def taken(self) -> bytes:
        output = b"".join(self.session.out)
        self.session.out.clear()
        return output

    def connect(self, version: str | None = "1.2", extra: bytes = b"") -> bytes:
        head = b"CONNECT\n"
        if version is not None:
            head += b"accept-version:" + version.encode() + b"\nhost:here\n"
        self.send(head + extra + b"\n\0")
        self.log_in()
        return self.taken()

    def log_in(self, user: str | None = "user", text: str = "") -> None:
        """Answer the login, and let the user use every virtual host."""
        self.session.authenticated(user, text, self.now)
        if self.session.host_request is not None:
            self.session.admitted("", self.now)

    def subscribed(self) -> Subscription:
        receiver = self.broker.of(Attach)[-1].receiver
        assert isinstance(receiver, Subscription)
        return receiver


def connected(version: str | None = "1.2", options: StompOptions | None = None) -> Peer:
    """A peer that is logged in, with nothing but OpenConnection behind it."""
    peer = Peer(options)
    answer = peer.connect(version)
    assert answer.startswith(b"CONNECTED\n"), answer
    assert isinstance(peer.broker.commands[-1], OpenConnection)
    peer.broker.commands.clear()
    peer.session.gate = 0
    return peer


def frame(text: str, body: bytes = b"") -> bytes:
    """A frame from lines: command, then headers."""
    return text.encode() + b"\n\n" + body + b"\0"
