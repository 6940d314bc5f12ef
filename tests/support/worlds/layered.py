"""A connection without a socket: what layers need of one, and what they did to it."""

from collections.abc import Callable
from typing import Any

from daybook.protocols.port import Certificate


class FakeTransport:
    """Remembers what was written; nothing leaves while `is_stuck`."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.is_stuck = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.is_stuck else 0

    def take(self) -> bytes:
        """Return and forget what was written."""
        data = bytes(self.written)
        self.written.clear()
        return data


class FakeOwner:
    """A connection with a session that remembers its input."""

    def __init__(self) -> None:
        self.fake = FakeTransport()
        self.transport: Any = self.fake
        self.input = bytearray()
        self.passed = 0
        self.failure = ""
        self.certificate: Certificate | None = None
        self.bindings: dict[str, bytes] = {}
        self.charged = self.charged_input = 0
        self.is_busy = False
        self.is_finished = False
        self.is_paused = False
        self.has_logged_in = False
        self.scheduled: list[Callable[[], None]] = []

    def hold(self, is_busy: bool) -> None:
        self.is_busy = is_busy

    def finish(self) -> None:
        self.is_finished = self.fake.is_closed = True

    def pass_on(self, data: bytes) -> None:
        self.passed += 1
        self.input += data

    def fail(self, why: str, last: bytes) -> None:
        assert not self.failure
        self.fake.write(last)
        self.failure = why
        self.fake.is_closed = True

    def identify(self, certificate: Certificate | None, bindings: dict[str, bytes]) -> None:
        self.certificate, self.bindings = certificate, bindings

    def charge(self, count: int) -> None:
        self.charged += count

    def charge_input(self, buffered_bytes: int) -> None:
        self.charged_input = buffered_bytes

    def call_soon(self, call: Callable[[], None]) -> None:
        self.scheduled.append(call)

    def turn(self) -> None:
        """Run what was scheduled, and what that schedules."""
        while self.scheduled:
            self.scheduled.pop(0)()
