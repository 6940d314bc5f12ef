"""A session of an administrator: lines in, one token and then requests out, answers back.

Sans-IO. One request is carried out at a time, and nothing else is read meanwhile, so a peer holds a
bounded amount of memory whatever it sends. Must never know users, nor what a request means.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from daybook.protocols.port import Value

TOKEN_LINE_MAX: Final = 1024
"""The longest first line: a peer without a token holds no more."""
REQUEST_LINE_MAX: Final = 64 * 1024
CLOSE_DELAY_MS: Final = 250
_US_PER_MS: Final = 1000


class _First(msgspec.Struct, forbid_unknown_fields=True):
    """The first line."""

    token: str


_decoder: Final = msgspec.json.Decoder(_First)


def error_line(code: str, text: str) -> bytes:
    """Encode an error as a line."""
    return msgspec.json.encode({"error": {"code": code, "text": text}}) + b"\n"


class ControlSession:
    """One connection's session. Its owner also

    - answers a `token` with `authenticated`, and a `request` with `answered`; both are None or
      empty as long as there is none;
    - reads no more from the peer while `has_more` is set.
    """

    __slots__ = (
        "_deadline", "_idle_us", "_is_known", "_rest", "_token_us", "close_delay_ms", "closing",
        "error", "has_more", "next_deadline", "out", "request", "token",
    )  # fmt: skip

    def __init__(self, token_timeout_ms: int, idle_timeout_ms: int) -> None:
        self.out: list[bytes] = []
        self.has_more = False
        self.closing = False
        self.close_delay_ms = 0
        self.error = ""
        self.next_deadline = 0
        self.token: str | None = None
        self.request = b""
        self._rest = bytearray()
        self._is_known = False
        self._token_us: Final = token_timeout_ms * _US_PER_MS
        self._idle_us: Final = idle_timeout_ms * _US_PER_MS

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer, split anywhere; ignored after the end of the session."""
        if not self.closing:
            self._rest += data
            self._next(now)

    def proceed(self, now: int) -> None:
        """Continue with the next line, if the one before was answered."""
        self._next(now)

    def tick(self, now: int) -> None:
        """End a session whose time is over. The first call starts the time for the token."""
        if self.closing:
            return
        if not self.next_deadline:
            self._wait(now)
        elif now >= self.next_deadline:
            if self.has_more:
                # The broker causes the delay, not the peer.
                self._wait(now)
            else:
                self._fail("timeout", "nothing was heard for too long", now)

    def clock_stepped(self, step: int, now: int) -> None:
        """The clock was set by `step` microseconds, to `now`; no peer was silent for that time."""
        if not self.closing and self.next_deadline:
            self._wait(now)

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The answer to `token`: the user's name, or None and the reason for people."""
        if self.closing or self.token is None:
            return
        self.token = None
        self.has_more = False
        if user is None:
            self._fail("not-allowed", text, now)
            return
        self._is_known = True
        self.out.append(msgspec.json.encode({"result": {"user": user}}) + b"\n")
        self._wait(now)
        self._next(now)

    def answered(self, answer: bytes, now: int) -> None:
        """The answer to `request`, without a line feed."""
        if self.closing or not self.request:
            return
        self.request = b""
        self.has_more = False
        self.out.append(answer + b"\n")
        self._wait(now)
        self._next(now)

    def dismiss(self, code: str, text: str, now: int) -> None:
        """End the session on behalf of the broker, and send the peer the reason."""
        if not self.closing:
            self._fail(code, text, now)

    def taking(self, now: int) -> None:
        """The peer still reads its answers: its time begins again."""
        if not self.closing:
            self._wait(now)

    def _wait(self, now: int) -> None:
        self.next_deadline = now + (self._idle_us if self._is_known else self._token_us)

    def _next(self, now: int) -> None:
        """Take the next line, if none is being answered."""
        if self.has_more or self.closing:
            return
        if self._is_known and self._rest[:1].isspace():
            self._rest = self._rest.lstrip()
        longest = REQUEST_LINE_MAX if self._is_known else TOKEN_LINE_MAX
        end = self._rest.find(b"\n", 0, longest + 1)
        if end < 0:
            if len(self._rest) > longest:
                self._fail("limit", f"a line has at most {longest} bytes here", now)
            return
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        if self._is_known:
            self.request = line
            self.has_more = True
        else:
            self._take_token(line, now)

    def _take_token(self, line: bytes, now: int) -> None:
        try:
            self.token = _decoder.decode(line).token
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._fail("invalid", 'the first line must be {"token": "..."}', now)
            return
        self.has_more = True

    def _fail(self, code: str, text: str, now: int) -> None:
        """Send an error and end the session."""
        self.out.append(error_line(code, text))
        self.error = text
        self.closing = True
        self.close_delay_ms = CLOSE_DELAY_MS
        self.next_deadline = 0
        self.has_more = False
        self.token = None
        self.request = b""
        self._rest.clear()


class Control:
    """The sessions of an acceptor."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._token_timeout_ms: Final = int(str(values["token-timeout"]))
        self._idle_timeout_ms: Final = int(str(values["idle-timeout"]))

    def session(self) -> ControlSession:
        """Make the session of a connection."""
        return ControlSession(self._token_timeout_ms, self._idle_timeout_ms)
