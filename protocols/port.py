"""The interfaces between the server and its protocols.

A protocol is registered with an `Offer`: the scheme of its acceptors, their options, and how its
sessions are made. There are three kinds of sessions. Those of `Messaging` protocols give the engine
commands, and their output waits until its events are durable. Those of `Watching` protocols only
read what `MonitoringView` shows; they decide nothing, and write nothing to the journal. Those of
`Administering` protocols pass on the requests of administrators.

Sessions do no I/O. They get bytes and the time (microseconds since 1970 UTC) with each call;
output, deadlines and the end of the connection are attributes that their owner reads afterwards. No
input of the peer makes a call of a session raise an exception. Must never know a single protocol.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from daybook.engine.commands import Command
from daybook.engine.facts.definitions import AutoLink
from daybook.engine.limits.budget import Budget
from daybook.engine.messages.message import Message
from daybook.engine.names.names import HOST
from daybook.engine.refusals import Refusal
from daybook.engine.routing.send_outcome import Outcome

# ---- what messaging sessions need from the engine


class BrokerPort(Protocol):
    """Executes commands; the result is a Refusal or the LSN to wait for, 0 for none.

    `budget` limits the work of one turn. `now` is the time of the last command, and of the
    deliveries that are handed over, in microseconds. `identity` is what other brokers know this one
    by, in hexadecimal digits: its messages carry it there.
    """

    budget: Budget
    now: int
    identity: str

    def handle(self, command: Command, now: int) -> int | Refusal:
        """Carry out a command at this time in microseconds."""
        ...

    def holders(self, connection: int, message: int) -> Sequence[int]:
        """Return the ids of a connection's consumers that have a message in flight.

        Those that settle by message alone (`engine.commands.Attach`).
        """
        ...

    def is_direct(self, consumer: int) -> bool:
        """Whether a consumer receives from a direct address."""
        ...

    def is_waypoint(self, sender: int) -> bool:
        """Whether a link leads to an address whose messages pass through queues of brokers."""
        ...

    def roles_of(self, user: str) -> Collection[str]:
        """Return the roles that a user has now."""
        ...

    def routing_type(self, address: str) -> str:
        """Return the routing type by which a consumer of an address, by its full name, gets
        messages if it says none."""
        ...

    def available(self, consumer: int) -> int | None:
        """Return how many messages wait for a consumer, None if that is not known."""
        ...

    @property
    def lsn(self) -> int:
        """LSN of the last decided event."""
        ...

    @property
    def routes_links(self) -> bool:
        """Whether there are routes by which links are passed on to containers."""
        ...

    def outcome(self, since: int, connection: int) -> Outcome | None:
        """Return the outcome of the message that this connection has just sent; `since` is the LSN
        before it."""
        ...


DeliveredMessage: TypeAlias = Message
"""A message as a delivery has it.

`flags` name the format of its headers. A session writes headers in a format of its own protocol
unchanged, and derives its own headers from the typed view of all others
(`engine.messages.content`). A message that has `chunks` is large: they are its only body, and
`body_bytes` is their total length. Annotations that consumers added earlier are beside its headers
(`engine.messages.annotations`); a protocol that has no place for them omits them.
"""


# ---- what sessions know of their peers


class Certificate(NamedTuple):
    """The certificate that a peer has shown: its holder, as `CN=...,O=...`, and the login that the
    acceptor reads in it, "" for none.

    `is_verified` says that an authority of the acceptor vouches for it.
    """

    subject: str
    login: str
    is_verified: bool


class Caller:
    """The peer of a connection, as the layers below its session know it.

    `name` is its address and port, `is_loopback` says that it is on this machine. Its layers have
    set everything before the first byte reaches the session: whether they encrypt, the
    `certificate` that the peer has shown, None for none, and the data that bind a login to this one
    connection (RFC 5929), by type. `auto_links` returns those that are to be attached to a peer
    with a container id; there are none where the acceptor is not for containers (`is_container`).
    `offers` returns the mechanisms of SASL that a caller may use. `log_in_by` is the time, in
    microseconds, by which its session has to be logged in; 0 for one whose time begins with the
    session. `secret` belongs to the data of the broker, and outlives restarts: with it a session
    recognises what it gave to an earlier connection.
    """

    __slots__ = (
        "auto_links", "bindings", "certificate", "is_container", "is_encrypted", "is_loopback",
        "log_in_by", "name", "offers", "secret",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        offers: Callable[["Caller"], Sequence[str]] = lambda _: (),
        *,
        is_loopback: bool = False,
    ) -> None:
        self.name: Final = name
        self.offers: Final = offers
        self.is_loopback: Final = is_loopback
        self.is_encrypted = False
        self.certificate: Certificate | None = None
        self.bindings: dict[str, bytes] = {}
        self.log_in_by = 0
        self.secret = b""
        self.is_container = False
        self.auto_links: Callable[[str], tuple[AutoLink, ...]] = lambda _: ()

    @property
    def certified(self) -> str:
        """The login that its certificate gives, "" for none."""
        return self.certificate.login if self.certificate is not None else ""

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms of SASL that it may use now, the best one first."""
        return self.offers(self)


class Login(NamedTuple):
    """A login to be checked; with `by_certificate` the certificate of the peer proves it, and the
    other two do not matter."""

    login: str
    passcode: str
    by_certificate: bool = False


class SaslTaker(Protocol):
    """Where a session wants the answers to the steps of a login by SASL."""

    def challenge(self, challenge: bytes, now: int) -> None:
        """Send the peer a challenge, perhaps an empty one; its answer is the next step."""
        ...

    def prove(self, proof: bytes) -> None:
        """Keep the proof of the server's identity: it belongs to the outcome, and `authenticated`
        follows."""
        ...


class SaslStep(NamedTuple):
    """A step of a login by SASL: the `mechanism` that the peer has chosen, and its response, None
    for none; after a challenge the answer to it. Only the server reads it.
    """

    mechanism: str
    response: bytes | None
    taker: SaslTaker


# ---- connections that the broker opens, and links that it attaches


class NotLoggedIn(Exception):
    """The login at a peer failed; the text says why."""


class SaslClient(Protocol):
    """The broker's own login at a peer, by SASL. Each call raises NotLoggedIn, and is short: the
    peer must not be able to choose how long it takes."""

    def choose(self, offered: Sequence[str]) -> tuple[str, bytes]:
        """Return the best mechanism of those that the peer offers, and the first message."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge."""
        ...

    def accepted(self, proof: bytes | None) -> None:
        """Check the proof that the peer gave with its acceptance."""
        ...

    def refused(self) -> str:
        """Return why the peer, which refused the login, may have done so."""
        ...


class Outbound(NamedTuple):
    """The words of a connector of the configuration to the peer that it connects to.

    `container` is the broker's own id for peers, and `host` the name that the peer is known by
    (TLS, SASL, hostname of open). `login` is one for a single connection. Links that the peer
    attaches by itself have the rights of `user`, on the virtual host `local_host`; without a user
    it may attach none. `links` returns those that are attached as soon as the connection is open.
    """

    connector: str
    container: str
    host: str
    login: SaslClient
    user: str = ""
    local_host: str = HOST
    links: Callable[[], tuple[AutoLink, ...]] = tuple


INACTIVE: Final = "inactive"
ATTACHING: Final = "attaching"
ACTIVE: Final = "active"
FAILED: Final = "failed"
"""The states of an auto-link on a connection: not asked for, no answer yet, attached, refused."""
LINK_STATES: Final = (INACTIVE, ATTACHING, ACTIVE, FAILED)


class AutoLinkRow(NamedTuple):
    """An auto-link on a connection, for administrators: `why` it failed, how many messages went
    through it in all, and how many of these have no outcome yet (`in_flight`). `available` is how
    many wait at the peer for one that comes in, None if the peer does not say that."""

    link: AutoLink
    state: str
    why: str = ""
    total: int = 0
    in_flight: int = 0
    available: int | None = None


# ---- what sessions offer the server


class Body(NamedTuple):
    """The place of a large message's body in the output: `size` bytes of chunks, after `at` bytes.

    `message` is the id of the message, `consumer` that of the consumer that gets it.
    """

    at: int
    chunks: tuple[int, ...]
    size: int
    message: int = 0
    consumer: int = 0


class Taker(Protocol):
    """Where a session wants a piece of a large body."""

    def take(self, piece: bytes, now: int) -> None:
        """Take the piece: the session frames it into its output."""
        ...

    def give_up(self, why: str, now: int) -> None:
        """The body cannot be read: give the delivery back to its queue. It is withheld there."""
        ...


class Pull(NamedTuple):
    """The request of a session for a piece of a large body, for protocols that frame it: the chunk
    after `before` (0 for the first), as soon as the event `gate` is durable.

    `message` and `consumer` are as in `Body`.
    """

    taker: Taker
    chunk: int
    before: int
    gate: int
    message: int
    consumer: int

    @property
    def needs(self) -> int:
        """The LSN that must be durable before the piece may leave."""
        return max(self.gate, self.chunk)


SENDS: Final = "sender"
RECEIVES: Final = "receiver"
COORDINATES: Final = "coordinator"


class LinkRow(NamedTuple):
    """A link of a peer, or a subscription, for administrators.

    The peer SENDS or RECEIVES by it, or declares transactions by it (COORDINATES). `session` is the
    number of its session on the connection, 0 in a protocol without sessions. `consumer` is the
    engine's id of the consumer or the bundle behind one that receives, which knows the rest; of the
    others, `address` is where messages go if all go to one, `credit` how many more may come,
    `in_flight` how many have no outcome yet, and `total` how many came. `waits` for room or for the
    window of the peer; `memory_bytes` is what the session holds for it.
    """

    name: str
    role: str
    session: int = 0
    consumer: int = 0
    address: str | None = None
    credit: int = 0
    in_flight: int = 0
    total: int = 0
    waits: bool = False
    memory_bytes: int = 0


class SessionRow(NamedTuple):
    """A session of a peer on its connection, for administrators, in a protocol that has sessions.

    `number` is that of its links. `incoming_window` transfers may still come, and
    `outgoing_window` may still leave. Deliveries to the peer, and from it, are `unsettled`; frames
    with `waiting_bytes` wait for the window of the peer.
    """

    number: int
    links: int
    incoming_window: int
    outgoing_window: int
    unsettled: int
    unsettled_by_peer: int
    waiting_bytes: int


class LinkCounts(NamedTuple):
    """How many sessions and links a connection has; those of coordinators send."""

    sessions: int
    senders: int
    receivers: int


class Session(Protocol):
    """The interface of every session. Its owner

    - calls `tick` right after creating it and again whenever `next_deadline` (0: none) is reached;
    - sends the bytes of `out` and empties it after each call;
    - reads no more from the peer while `has_more` is set, and calls `proceed` after other sessions
      had their turn: the remaining work would take too long for one call;
    - closes the connection `close_delay_ms` after its output has left when `closing` is set, and
      logs `error`, unless it is empty, as the reason.
    """

    out: list[bytes]
    has_more: bool
    closing: bool
    close_delay_ms: int
    error: str
    next_deadline: int

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer, split anywhere; ignored after the end of the session."""
        ...

    def proceed(self, now: int) -> None:
        """Resume the remaining work."""
        ...

    def tick(self, now: int) -> None:
        """Do what is due at this time."""
        ...

    def clock_stepped(self, step: int, now: int) -> None:
        """The clock was set by `step` microseconds, to `now`; no peer was silent for that time."""
        ...


class MessagingSession(Session, Protocol):
    """The further interface of a session of a Messaging protocol. Its owner also

    - sends output when LSN `gate` is durable, with the bodies of large messages (`bodies`) in their
      places;
    - answers each of `pulls`, in their order, when the transport has room for a piece; others have
      their turns between two of them. A session asks for no more than the windows of its peer
      allow;
    - reduces the room for further deliveries to the connection by `unsent_bytes`;
    - answers a `login_request` with `authenticated`, which only says who the peer is; a step of
      SASL perhaps with a challenge instead, before or after the call returns;
    - answers a `host_request`, the virtual host that the peer asks for, with `admitted`; the
      session then opens the connection in the engine, as soon as the peer has said all that
      belongs to it, and from then on `connection` is the engine's id of it. A session whose peer
      takes too long for that, or for its login, ends itself;
    - records a `refusal` (reason, protocol, login, text), within the limit for peers without login;
    - calls `proceed` after other sessions had their turn, too, while `has_unfinished` is set, but
      continues to read: commands of some links take longer than a turn, the others must not wait;
    - calls `conclude` after it handed over effects other than deliveries, before it takes output;
    - calls `resume_sender` when it is the turn of a sender whose command was BLOCKED
      (`engine.limits.waiting_senders`), and reads no more from the peer while `is_blocked` is set,
      which is for protocols that cannot stop a single sender otherwise;
    - sets `is_unheard` while it reads nothing from the peer, until it calls `listen_again`;
    - sets `awaits_disk` before `tick` if output waits for the disk, and sends the bytes of `urgent`
      before that output, between two of its frames;
    - calls `connection_lost` when the connection ended, for whatever reason.
    """

    bodies: list[Body]
    pulls: list[Pull]
    gate: int
    connection: int
    host_request: str | None
    refusal: tuple[int, str, str, str] | None
    is_blocked: bool
    has_unfinished: bool
    is_unheard: bool
    awaits_disk: bool
    urgent: bytes
    has_stalled: bool

    @property
    def login_request(self) -> Login | SaslStep | None:
        """The login, or the step of one, that waits for its answer."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory that hold input of the peer."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of memory that hold deliveries for which the windows of the peer have no room."""
        ...

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that the session still needs: of the body that the peer is
        sending, or of those that it pulls; 0 if none."""
        ...

    @property
    def link_counts(self) -> LinkCounts:
        """How many sessions and links there are."""
        ...

    @property
    def auto_links(self) -> Sequence[AutoLinkRow]:
        """The auto-links on the connection."""
        ...

    @property
    def peer_product(self) -> str:
        """The product that the peer says it is, with its version; "" if it does not."""
        ...

    def link_rows(self, first: int, count: int) -> list[LinkRow]:
        """Return so many of the links in their order, from one on; all are `link_counts` of
        them."""
        ...

    def session_rows(self, first: int, count: int) -> list[SessionRow]:
        """Return so many of the sessions in their order, from one on; there are none in a protocol
        without sessions."""
        ...

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `login_request`: the user's name, or None and the reason for people."""
        ...

    def admitted(self, text: str, now: int) -> None:
        """The answer to `host_request`: "" or the reason, for people, why the user may not use the
        host. No user may use `UNKNOWN_HOST`."""
        ...

    def listen_again(self, now: int) -> None:
        """The owner reads from the peer again."""
        ...

    def is_sender_waiting(self, link: int) -> bool:
        """Return whether a command of this sender (`Send.link`) waits for room."""
        ...

    def resume_sender(self, link: int, now: int) -> None:
        """Repeat the command of this sender: there may be room."""
        ...

    def attach_link(self, link: AutoLink, now: int) -> None:
        """Attach one more auto-link, where a protocol has some, until it is done or the connection
        ends."""
        ...

    def renew_auto_links(self, now: int) -> None:
        """Ask for the auto-links again: attach those that are new, and end those that are gone,
        when what is on its way over them has its outcome."""
        ...

    def conclude(self, now: int) -> None:
        """Write what effects had for consequences."""
        ...

    def is_taking(self, now: int) -> None:
        """The peer is reading the output."""
        ...

    def is_ahead(self, durable_lsn: int, chunk_count: int) -> bool:
        """Return whether `chunk_count` chunks of the peer's current body are not durable yet."""
        ...

    def dismiss(self, what: str, advice: str, now: int, reason: int) -> None:
        """End the session on behalf of the broker, and send the peer the reason."""
        ...

    def farewell(self, text: str) -> bytes:
        """Return the last bytes for the peer, as the broker stops: nothing is decided any more."""
        ...

    def connection_lost(self, now: int, reason: int = ..., text: str = "") -> None:
        """The connection is gone."""
        ...


class AdminSession(Session, Protocol):
    """The further interface of a session of an Administering protocol. Its owner also

    - answers a `token` (None for none) with `authenticated`;
    - answers a `request` (empty for none) with `answered`;
    - reads no more from the peer while `has_more` is set, and need not call `proceed`.
    """

    token: str | None
    request: bytes

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `token`: the user's name, or None and the reason for people."""
        ...

    def answered(self, answer: bytes, now: int) -> None:
        """The answer to `request`, in JSON without a line feed."""
        ...

    def taking(self, now: int) -> None:
        """The peer still reads its answers: its time begins again."""
        ...

    def dismiss(self, code: str, text: str, now: int) -> None:
        """End the session on behalf of the broker, and send the peer the reason."""
        ...


# ---- figures for Watching protocols


class Family(NamedTuple):
    """A metric and its meaning. `kind` is "gauge", "counter" or "histogram".

    A name ends with its unit (seconds, bytes), that of a counter with `_total`; it is unique.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


class Histogram(NamedTuple):
    """Cumulative counts of observations by upper bound, the last one infinite; and their sum."""

    buckets: tuple[tuple[float, int], ...]
    sum: float


class Reading(NamedTuple):
    """Values of a metric, each with the values of its labels.

    Several readings of one family follow each other.
    """

    family: Family
    values: Sequence[tuple[tuple[str, ...], float | Histogram]]


class MonitoringView(Protocol):
    """The figures that the server shows to Watching protocols; each call and each step is short."""

    def ending(self) -> str:
        """Return why the process is about to end; "" if it is not."""
        ...

    def unready(self) -> str:
        """Return why no messages are accepted, in words for anybody; "" if they are."""
        ...

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        """Yield all metrics, one slice for each turn; None for a slice without values.

        At most `names_max` queues, and as many addresses, have values of their own.
        """
        ...


# ---- how a protocol is registered


class Count(NamedTuple):
    """A whole number within bounds."""

    least: int
    most: int


class Size(NamedTuple):
    """A number of bytes within bounds; 0, written "auto", if the broker may choose it."""

    least: int
    most: int
    may_be_auto: bool = False


class Duration(NamedTuple):
    """A number of milliseconds, at least so many."""

    least_ms: int


class Flag(NamedTuple):
    """True or false."""


class Text(NamedTuple):
    """A string that matches a pattern; `wanted` describes it."""

    wanted: str
    pattern: str


class Texts(NamedTuple):
    """A list of strings, none of them empty."""


Range: TypeAlias = Count | Size | Duration | Flag | Text | Texts
Value: TypeAlias = str | int | bool | tuple[str, ...]


class ProtocolOption(NamedTuple):
    """A key of an [[acceptor]] that belongs to a protocol; `default` is as written in the file."""

    name: str
    range: Range
    default: str | int | bool | list[str]
    doc: str


BUFFER_SIZE: Final = ProtocolOption(
    "buffer-size",
    Size(4 << 10, 1 << 30, may_be_auto=True),
    "1MiB",
    "Deliveries that may be on their way to one connection; a peer that does not read "
    'holds at most this. "auto": from 640KiB down to 20KiB, the more connections there are.',
)
CONNECT_TIMEOUT: Final = ProtocolOption(
    "connect-timeout", Duration(100), 10_000, "How long a peer may take to log in."
)
DIE_DELAY: Final = ProtocolOption(
    "die-delay",
    Duration(0),
    250,
    "How long a connection stays open after an error, so that the client can read it.",
)
"""The options that Messaging protocols share."""


HOST_NAMES: Final = "host-names"
"""Among the values for Watching protocols: the names of the machine, and the host of `listen`."""


class Messaging(Protocol):
    """A protocol that sends and receives messages, with the options of an acceptor.

    `room` is how many bytes of deliveries may be on their way to one connection, at most so many
    if the server tunes it by the number of connections (`tunes_room`).
    """

    room: int
    tunes_room: bool

    def session(self, broker: BrokerPort, caller: Caller, server_name: str) -> MessagingSession:
        """Make the session of a connection."""
        ...


class Dialling(Protocol):
    """A Messaging protocol by which the broker can open connections to others, with the options of
    a connector."""

    room: int
    tunes_room: bool

    def dial(self, broker: BrokerPort, caller: Caller, outbound: Outbound) -> MessagingSession:
        """Make the session of a connection that the broker opens: it speaks first, in `tick`. It
        has no `login_request`: `error` says why the peer did not let it in."""
        ...


class Watching(Protocol):
    """A protocol that only shows figures, with the options of an acceptor."""

    def session(self, view: MonitoringView) -> Session:
        """Make the session of a connection."""
        ...


class Administering(Protocol):
    """A protocol of administrators, with the options of an acceptor."""

    def session(self) -> AdminSession:
        """Make the session of a connection."""
        ...


class Offer(NamedTuple):
    """A protocol in the registry.

    `listen` and `connections` are the defaults of its acceptors. Exactly one of `messaging`,
    `watching` and `administering` is set: it gets the values of `options` by name, and raises
    ValueError if they contradict each other. Modules of the sessions are imported only then.
    `dialling` is for protocols by which the broker opens connections too; `dialled` are the options
    of these.
    `refusal` encodes the reason why a connection is refused. `subprotocols` are its names for
    WebSocket, the best one first; without any, it is not spoken over WebSocket. What its peers send
    first begins with one of `beginnings`, none of which begins one of another protocol; without
    any, it shares no acceptor with other protocols.
    """

    scheme: str
    name: str
    listen: str
    connections: int
    options: tuple[ProtocolOption, ...]
    refusal: Callable[[str], bytes]
    messaging: Callable[[Mapping[str, Value]], Messaging] | None = None
    watching: Callable[[Mapping[str, Value]], Watching] | None = None
    dialling: Callable[[Mapping[str, Value]], Dialling] | None = None
    subprotocols: tuple[str, ...] = ()
    administering: Callable[[Mapping[str, Value]], Administering] | None = None
    beginnings: tuple[bytes, ...] = ()
    dialled: tuple[ProtocolOption, ...] = ()

    def check(self, values: Mapping[str, Value]) -> None:
        """Raise ValueError if the values of the options contradict each other."""
        make = self.messaging or self.watching or self.administering
        assert make is not None
        make(values)
