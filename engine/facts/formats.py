"""Formats of content: how the flags of a message name one, and what every codec must offer.

A message is bytes: headers and a body. They stay as they arrived, and the flags say in which format
the headers are. Format numbers are permanent, because journals contain them; a number without a
codec belongs to a later version (`engine.messages.content`). Must never know a protocol or a single
format.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from daybook.engine.facts.values import Id, Value

FORMAT_SHIFT: Final = 4
"""The position of the format number in the flags; `events.FORMAT` has its bits."""

LINES: Final = 0 << FORMAT_SHIFT
"""Header lines of STOMP 1.2 (`engine.messages.headers`). Also the format of everything journaled
before formats existed."""


def number_of(flags: int) -> int:
    """Return the number of the format that flags name, from 0 to 7."""
    return flags >> FORMAT_SHIFT & 7


class Standard(NamedTuple):
    """What headers may say in every format: empty, or 0, where a message does not say it.

    `timestamp` is when the sender made the message, in milliseconds since 1970. `type` is the
    sender's name for messages of this kind (the subject of AMQP). `message_id` is the sender's own
    id of the message, `user_id` the user on whose behalf it says that it sends.
    """

    destination: str = ""
    content_type: str = ""
    reply_to: str = ""
    correlation_id: Id = ""
    group_id: str = ""
    type: str = ""
    timestamp: int = 0
    message_id: Id = ""
    user_id: bytes = b""
    content_encoding: str = ""
    group_sequence: int = 0
    reply_to_group_id: str = ""


class Property(NamedTuple):
    """A property of the application: the name that AMQP 1.0 has for its type, and its value."""

    type: str
    value: Value


class Typed(NamedTuple):
    """All that headers say, with types: the standard properties, by the names of AMQP 1.0 with `_`
    for `-`, that a message has, and those of the application, by name."""

    standard: dict[str, Value]
    properties: dict[str, Property]


class Codec(Protocol):
    """Reads content of one format: headers, and the body where that has a type of its own.

    Priority, expiry and persistence are facts of the broker, whatever the headers say about them;
    no codec is asked for them.
    """

    @property
    def flags(self) -> int:
        """The flags that name the format."""
        ...

    @property
    def name(self) -> str:
        """What people call the format."""
        ...

    @property
    def is_typed(self) -> bool:
        """Whether properties can be other than strings; if not, filters read them as numbers."""
        ...

    def standard(self, headers: bytes) -> Standard:
        """Return what the headers say in every format."""
        ...

    def said(self, headers: bytes, field: str) -> Id:
        """Return one field of `Standard`; the other headers are not parsed."""
        ...

    def properties(self, headers: bytes) -> dict[str, Value]:
        """Return the properties that the application set, by name, in the order of the sender."""
        ...

    def typed(self, headers: bytes) -> Typed:
        """Return all of it with types, times in milliseconds since 1970."""
        ...

    def first(self, headers: bytes, name: str) -> Value | None:
        """Return one such property, None if there is none; the others are not parsed."""
        ...

    def unread(self, headers: bytes) -> int:
        """Return how many bytes the next question for a property has to decode; 0 if none, or if
        they are known from the last question."""
        ...

    def body(self, headers: bytes, body: bytes) -> Value:
        """Return the body: bytes, unless its sections give it another type."""
        ...

    def copied(self, headers: bytes, left_out: Iterable[str], added: Mapping[str, Value]) -> bytes:
        """Return the headers of a copy that never expires, without some properties and with others.

        A property in `added` replaces those of its name.
        """
        ...

    def marked(self, headers: bytes, name: str) -> bytes:
        """Return the headers with a property that is true, instead of others of its name."""
        ...
