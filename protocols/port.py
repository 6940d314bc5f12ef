"""The port between the server and its protocols: what each offers the other, and no more.

A protocol is registered by an `Offer`: the scheme of its acceptors, their options, and how its
sessions are made. There are two kinds of sessions. Those of `Messaging` protocols take part: they
give the engine commands, and what they say waits for the disk. Those of `Watching` protocols look
on: they see what `Sight` shows, decide nothing, and leave nothing in the journal.

Sessions do no I/O. They get bytes and the time (microseconds since 1970) with each call; output,
deadlines and the end of the connection are attributes that their owner reads afterwards. Whatever
the peer sends, no call of a session raises an exception. Must never know a protocol.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from daybook.engine.budget import Budget
from daybook.engine.commands import Command
from daybook.engine.outcomes import Outcome
from daybook.engine.refusals import Refusal

# ---- what messaging sessions need of the engine


class BrokerPort(Protocol):
    """Takes commands: the answer is a Refusal or the LSN to wait for, 0 for none.

    `budget` says how much may be done before others have their turn.
    """

    budget: Budget

    def handle(self, command: Command, now: int) -> int | Refusal:
        """Carry out a command at this time in microseconds."""
        ...

    def holders(self, connection: int, message: int) -> Sequence[int]:
        """Ids of the consumers of a connection, opened to be asked this, that have a message."""
        ...

    @property
    def lsn(self) -> int:
        """LSN of the last event decided."""
        ...

    def outcome(self, since: int) -> Outcome | None:
        """Say what became of the message that was just sent; `since` is the LSN before it."""
        ...


class DeliveredMessage(Protocol):
    """What a delivery needs of a message.

    `flags` name the format of its headers. A session writes headers of formats that it takes as
    they are, and makes its own of the view of all others (`engine.content`). A message that has
    `chunks` is large: it has no body but these, of so many bytes together.
    """

    id: int
    flags: int
    priority: int
    expires: int
    headers: bytes
    body: bytes
    chunks: tuple[int, ...]

    @property
    def body_bytes(self) -> int:
        """Length of the body."""
        ...


# ---- what sessions offer the server


class Body(NamedTuple):
    """The body of a large message in the output: after `at` bytes of it, `size` bytes of chunks.

    `message` is whose body it is, and `consumer` who gets it.
    """

    at: int
    chunks: tuple[int, ...]
    size: int
    message: int = 0
    consumer: int = 0


class Session(Protocol):
    """What every session offers. Its owner

    - calls `tick` right after making it and again whenever `next_deadline` (0: none) has come;
    - sends the bytes of `out` and empties it after each call;
    - reads no more of the peer while `has_more` is set, and calls `proceed` when others had their
      turn: there is work left for which one call would take too long;
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
        """Take bytes of the peer, cut anywhere; after the end of the session they are ignored."""
        ...

    def proceed(self, now: int) -> None:
        """Go on where it was stopped."""
        ...

    def tick(self, now: int) -> None:
        """Do what time asks for."""
        ...

    def clock_stepped(self, step: int, now: int) -> None:
        """The clock was set by `step` microseconds, to `now`: no peer is given up for that."""
        ...


class MessagingSession(Session, Protocol):
    """What a session that takes part offers as well. Its owner also

    - lets output leave when LSN `gate` is durable, with the bodies of large messages (`bodies`) in
      their places;
    - answers a `login_request` (login, passcode, client id) by `authenticated`; then `connection`
      is the id that the engine gave;
    - records a `refusal` (reason, protocol, login, text) as far as strangers may be recorded;
    - reads no more of the peer while `is_blocked` is set, and calls `proceed` when the turn of the
      connection has come (`engine.line`);
    - sets `is_unheard` when it reads nothing of the peer, until it calls `listen_again`;
    - calls `connection_lost` when the connection ended, for whatever reason.
    """

    bodies: list[Body]
    gate: int
    connection: int
    login_request: tuple[str, str, str] | None
    refusal: tuple[int, str, str, str] | None
    is_blocked: bool
    is_unheard: bool
    has_stalled: bool

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that are kept of what the peer sent."""
        ...

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk of the body that the peer is sending, 0 if there is none."""
        ...

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `login_request`: the user's name, or None and the reason for people."""
        ...

    def listen_again(self, now: int) -> None:
        """What the peer says is read again."""
        ...

    def is_taking(self, now: int) -> None:
        """The peer takes what it is sent."""
        ...

    def is_ahead(self, durable_lsn: int, chunk_count: int) -> bool:
        """Whether so many chunks of the body that the peer is sending are not durable yet."""
        ...

    def dismiss(self, what: str, advice: str, now: int, reason: int) -> None:
        """End the conversation because the broker does, and tell the peer why."""
        ...

    def connection_lost(self, now: int, reason: int = ..., text: str = "") -> None:
        """The connection is gone."""
        ...


# ---- what the server shows to those who look on


class Family(NamedTuple):
    """A figure and its meaning. `kind` is "gauge", "counter" or "histogram".

    A name ends with its unit (seconds, bytes), that of a counter with `_total`; it is unique.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


class Histogram(NamedTuple):
    """How many observations were at most each bound, the last one infinite; and their sum."""

    buckets: tuple[tuple[float, int], ...]
    sum: float


class Reading(NamedTuple):
    """Values of a figure, each with the values of its labels.

    Several readings of one family follow each other.
    """

    family: Family
    values: Sequence[tuple[tuple[str, ...], float | Histogram]]


class Sight(Protocol):
    """What the server shows those who look on; each call and each step takes little time."""

    def ending(self) -> str:
        """Why the process is about to end; empty if it is not."""
        ...

    def unready(self) -> str:
        """Why no messages are taken, in a few words that strangers may read; empty: they are."""
        ...

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        """All figures, in slices between which others may have their turn; None: one without any.

        At most so many queues, and so many addresses, have values of their own.
        """
        ...


# ---- how a protocol is registered


class Count(NamedTuple):
    """A whole number within bounds."""

    least: int
    most: int


class Size(NamedTuple):
    """A number of bytes within bounds."""

    least: int
    most: int


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
    """A key of an [[acceptor]] that belongs to a protocol; `default` is as the file has it."""

    name: str
    range: Range
    default: str | int | bool | list[str]
    doc: str


class Messaging(Protocol):
    """A protocol whose sessions take part, with the options of an acceptor.

    `room` is how many bytes of deliveries may be on their way to one connection.
    """

    room: int

    def session(self, broker: BrokerPort, peer: str, server_name: str) -> MessagingSession:
        """Make the session of a connection."""
        ...


class Watching(Protocol):
    """A protocol whose sessions look on, with the options of an acceptor."""

    def session(self, sight: Sight) -> Session:
        """Make the session of a connection."""
        ...


class Offer(NamedTuple):
    """A protocol, as the registry has it.

    `listen` and `connections` are the defaults of its acceptors. Of `messaging` and `watching` one
    is set: it takes the values of `options` by name, and raises ValueError if they do not go
    together. What sessions import is imported then, not before. `refusal` says why a connection is
    not taken, in bytes of the protocol.
    """

    scheme: str
    name: str
    listen: str
    connections: int
    options: tuple[ProtocolOption, ...]
    refusal: Callable[[str], bytes]
    messaging: Callable[[Mapping[str, Value]], Messaging] | None = None
    watching: Callable[[Mapping[str, Value]], Watching] | None = None

    def check(self, values: Mapping[str, Value]) -> None:
        """Raise ValueError if the values of the options do not go together."""
        make = self.messaging or self.watching
        assert make is not None
        make(values)
