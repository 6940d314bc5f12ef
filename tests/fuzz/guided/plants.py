"""Mistakes to plant, one at a time, for the fuzzers to find.

Each replaces a function of the product by one that is nearly right. `search --plant NAME` begins
without the corpus and must find it; a test plants each and plays the corpus.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.messages import headers
from daybook.engine.messages.amqp import content_codec
from daybook.protocols.amqp import output
from daybook.protocols.amqp import sessions as amqp_sessions
from daybook.protocols.amqp.wire import frames as amqp_frames
from daybook.protocols.amqp.wire import hot
from daybook.protocols.stomp import sending, session
from daybook.protocols.stomp.wire import frames, versions
from daybook.server.hub import hub, outbox, turns
from tests.fuzz.guided import amqp

Patch = Callable[[object, str, object], None]
"""Replaces an attribute, as `setattr` does."""


class Plant(NamedTuple):
    """A mistake: the target that finds it, what it is, and how it is planted."""

    target: str
    what: str
    plant: Callable[[Patch], None]


def _short_body(patch: Patch) -> None:
    right = sending.content_length

    def wrong(*given: Any) -> int:
        length = right(*given)
        return length - 1 if length > 600 else length

    patch(sending, "content_length", wrong)


def _kept_escape(patch: Patch) -> None:
    right = headers.unescape

    def wrong(text: bytes) -> bytes:
        return text if text.endswith(b"\\c") else right(text)

    patch(headers, "unescape", wrong)
    patch(versions.headers, "unescape", wrong)


def _lost_boundary(patch: Patch) -> None:
    right = session.Session._with_rest

    def wrong(self: session.Session, data: bytes) -> bytes:
        joined = right(self, data)
        return joined.replace(b"\r\n\r\n", b"\r\n", 1) if data == b"\n" else joined

    patch(session.Session, "_with_rest", wrong)


def _no_limit(patch: Patch) -> None:
    patch(frames, "check_line_length", lambda *_: None)


def _odd_header(patch: Patch) -> None:
    right = sending.truth

    def wrong(head: Any, name: str, default: bool) -> bool:
        value = head.values.get(name)
        if value is not None and value != "true" and value[0] == "t":
            raise KeyError(value)
        return right(head, name, default)

    patch(sending, "truth", wrong)


def _endless_slice(patch: Patch) -> None:
    patch(turns.Turns, "allow_input", lambda self: self.allow(NO_LIMIT))


def _turned_output(patch: Patch) -> None:
    right = outbox.Outbox.put

    def wrong(self: Any, outlet: Any, parts: list[bytes], gate: int) -> None:
        if len(parts) == 2 and outlet.generation is None:
            parts = parts[::-1]
        right(self, outlet, parts, gate)

    patch(outbox.Outbox, "put", wrong)


def _kept_connection(patch: Patch) -> None:
    right = hub.Hub.lost

    def wrong(self: Any, peer: Any) -> None:
        if peer.session.by_key:
            peer.session.connection = 0
        right(self, peer)

    patch(hub.Hub, "lost", wrong)


def _lost_number(patch: Patch) -> None:
    patch(hot, "_optional", lambda number: number if number > 0 else None)


def _lost_footer(patch: Patch) -> None:
    right = content_codec.leaving

    def wrong(headers: bytes, body: bytes, front: bytes) -> list[bytes]:
        return right(headers, body, front)[:3]

    patch(content_codec, "leaving", wrong)
    patch(amqp, "leaving", wrong)


def _lost_chunk(patch: Patch) -> None:
    right = amqp_frames.FrameReader._has

    def wrong(self: amqp_frames.FrameReader, size: int) -> bool:
        there = right(self, size)
        if not there and size > 4:
            self._more = self._more[:2]
        return there

    patch(amqp_frames.FrameReader, "_has", wrong)


def _kept_input(patch: Patch) -> None:
    right = output.Output.forget_all

    def wrong(self: output.Output) -> None:
        held = self.input_bytes
        right(self)
        self.input_bytes = held

    patch(output.Output, "forget_all", wrong)


def _two_numbers(patch: Patch) -> None:
    right = amqp_sessions.AmqpSession.hold

    def wrong(self: amqp_sessions.AmqpSession, *given: Any) -> None:
        self.number_delivery()
        right(self, *given)

    patch(amqp_sessions.AmqpSession, "hold", wrong)


PLANTS: Final[dict[str, Plant]] = {
    "short-body": Plant("frames", "a content-length above 600 counts one byte less", _short_body),
    "kept-escape": Plant("frames", "an escape at the end of a value is not undone", _kept_escape),
    "lost-boundary": Plant(
        "frames", "a blank line is lost if a chunk is its last line feed", _lost_boundary
    ),
    "no-limit": Plant("frames", "header lines have no limit", _no_limit),
    "odd-header": Plant(
        "frames", "a true or false that is neither raises KeyError", _odd_header
    ),
    "endless-slice": Plant("sessions", "input of a connection has no budget", _endless_slice),
    "turned-output": Plant("sessions", "two parts of the output change places", _turned_output),
    "lost-number": Plant("amqp", "the number 0 is read as null by hand", _lost_number),
    "lost-footer": Plant("amqp", "a message leaves without its footer", _lost_footer),
    "lost-chunk": Plant("amqp", "the third chunk of a frame is lost", _lost_chunk),
    "kept-input": Plant(
        "links", "a connection that is gone holds the beginning of a message", _kept_input
    ),
    "two-numbers": Plant(
        "links", "a delivery that waits for the window gets two numbers", _two_numbers
    ),
    "kept-connection": Plant(
        "sessions", "a subscribed connection that is lost stays open", _kept_connection
    ),
}  # fmt: skip
