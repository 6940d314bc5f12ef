"""Reading the content of messages: the registry of formats, and a typed view of headers.

All code that reads headers asks a `View`; only the codec of a format parses its bytes. To add a
format, write a codec and add a line here. Headers pass through the broker as they arrived. A
session that does not speak the format of a message writes what the view returns. Must never know a
protocol.
"""

from typing import Final, Protocol

from daybook.engine.facts.events import FORMAT, PERSISTENT
from daybook.engine.facts.formats import LINES, Codec, Standard, Typed, number_of
from daybook.engine.facts.values import Value
from daybook.engine.messages.amqp.content_codec import SectionsCodec
from daybook.engine.messages.conversions import bytes_of, text_of
from daybook.engine.messages.headers import LinesCodec, build, standard_pairs
from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.errors import DaybookError

CODECS: Final[dict[int, Codec]] = {codec.flags: codec for codec in (LinesCodec(), SectionsCodec())}
"""The codecs by the flags that name their formats."""


class UnknownFormat(DaybookError):
    """Headers are in a format that this version does not know."""


def is_known(flags: int) -> bool:
    """Whether this version can read headers of the format that flags name."""
    return flags & FORMAT in CODECS


def codec_of(flags: int) -> Codec:
    """Return the codec of the format that flags name; raises UnknownFormat."""
    codec = CODECS.get(flags & FORMAT)
    if codec is None:
        raise UnknownFormat(
            f"its headers are in content format {number_of(flags)}, which this version does not "
            "know: use the version of Daybook that wrote the journal, or a newer one"
        )
    return codec


class Described(Protocol):
    """The parts of a message that a view needs; its headers are resident."""

    id: int
    flags: int
    priority: int
    expires: int
    headers: bytes
    body: bytes

    @property
    def body_bytes(self) -> int:
        """Length of the body."""
        ...


class View:
    """The headers and facts of a message, typed. Headers are parsed at the first question, and only
    once.

    `message_id` is the broker's id. Priority, persistence and expiry (milliseconds since 1970, 0
    for never) are those that the broker uses. `body_bytes` is the length of the body, as it is
    stored; a large one is not in memory, and has no type.
    """

    __slots__ = (
        "_body", "_codec", "_headers", "_properties", "_standard", "body_bytes", "expires",
        "message_id", "persistent", "priority",
    )  # fmt: skip

    def __init__(
        self,
        flags: int,
        headers: bytes,
        *,
        message_id: int = 0,
        priority: int = DEFAULT_PRIORITY,
        expires: int = 0,
        body_bytes: int = 0,
        body: bytes = b"",
    ) -> None:
        """Look at headers in the format that the flags name; raises UnknownFormat."""
        self._body: Final = body
        self._codec: Final = codec_of(flags)
        self._headers: Final = headers
        self._standard: Standard | None = None
        self._properties: dict[str, Value] | None = None
        self.message_id: Final = message_id
        self.priority: Final = priority
        self.persistent: Final = flags & PERSISTENT > 0
        self.expires: Final = expires
        self.body_bytes: Final = body_bytes

    @property
    def standard(self) -> Standard:
        """The properties that every format has."""
        if self._standard is None:
            self._standard = self._codec.standard(self._headers)
        return self._standard

    @property
    def properties(self) -> dict[str, Value]:
        """The properties that the application set, by name; must not be changed."""
        if self._properties is None:
            self._properties = self._codec.properties(self._headers)
        return self._properties

    def get(self, name: str) -> Value | None:
        """Return one property of the application, None if there is none."""
        if self._properties is not None:
            return self._properties.get(name)
        return self._codec.first(self._headers, name)

    def typed(self) -> Typed:
        """Return all that the headers say, with types."""
        return self._codec.typed(self._headers)

    @property
    def body(self) -> Value:
        """The body with its type; bytes, unless the sender gave it another one."""
        return self._codec.body(self._headers, self._body)

    @property
    def plain_body(self) -> bytes:
        """The body for those who do not know the format."""
        return self._body if self._codec.flags == LINES else bytes_of(self.body)

    def lines(self) -> bytes:
        """Return the headers as header lines: as they are, or translated.

        A property without a name cannot be translated, and is left out.
        """
        if self._codec.flags == LINES:
            return self._headers
        properties = self.properties.items()
        texts = [(name, text_of(value)) for name, value in properties if name]
        return build([*standard_pairs(self.standard), *texts])


def view_of(message: Described) -> View:
    """Return the view of a message; raises UnknownFormat."""
    return View(
        message.flags, message.headers,
        message_id=message.id, priority=message.priority, expires=message.expires,
        body_bytes=message.body_bytes, body=message.body,
    )  # fmt: skip
