"""A session of the probe: requests of HTTP/1.1 in, answers out.

Sans-IO: it must never know sockets, clocks, tasks or disks. `receive` only stores bytes; `proceed`
answers a few requests or renders a slice of metrics at a time, so that a peer with many requests
waits for the others. Any input leads to answers or a refusal, never to an exception. The memory for
a peer is limited to a request head of `max-request-head` and one read.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

import h11

from daybook.protocols.port import HOST_NAMES, MonitoringView, Value
from daybook.protocols.probe import hosts
from daybook.protocols.probe.exposition import Exposition, content_type
from daybook.protocols.probe.hosts import AllowedHosts

REQUESTS_AT_ONCE: Final = 4
"""How many requests are answered before others have their turn."""
ERROR_DELAY_MS: Final = 250
"""How long a connection stays open after a refusal, so that the client can read it."""
US_PER_MS: Final = 1000

PLAIN: Final = "text/plain; charset=utf-8"
PATHS: Final = ("/live", "/ready", "/metrics")
_METHODS: Final = (b"GET", b"HEAD")
_REASONS: Final = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    421: b"Misdirected Request",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    503: b"Service Unavailable",
}
_DATE_MAX_US: Final = 253_402_300_799_000_000
"""The end of the year 9999."""


class Probe:
    """The sessions of an acceptor with these options."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._names_max: Final = _number(values, "max-queues")
        self.head_max: Final = _number(values, "max-request-head")
        self.request_us: Final = _number(values, "request-timeout") * US_PER_MS
        self.idle_us: Final = _number(values, "idle-timeout") * US_PER_MS
        self.hosts: Final = AllowedHosts(_texts(values, hosts.KEY), _texts(values, HOST_NAMES))
        self._exposition: Exposition | None = None

    def session(self, view: MonitoringView) -> "Session":
        """Make the session of a connection; all sessions share the rendered metrics."""
        if self._exposition is None:
            self._exposition = Exposition(view, self._names_max)
        return Session(self, view, self._exposition)


def _number(values: Mapping[str, Value], key: str) -> int:
    value = values[key]
    assert isinstance(value, int)
    return value


def _texts(values: Mapping[str, Value], key: str) -> tuple[str, ...]:
    value = values.get(key, ())
    assert isinstance(value, tuple)
    return value


class Session:
    """The session of one connection; see `protocols.port` for what its owner does."""

    def __init__(self, options: Probe, view: MonitoringView, exposition: Exposition) -> None:
        self.out: list[bytes] = []
        self.has_more = False
        self.closing = False
        self.close_delay_ms = 0
        self.error = ""
        self.next_deadline = 0
        self._options: Final = options
        self._view: Final = view
        self._exposition: Final = exposition
        self._http: Final = h11.Connection(h11.SERVER, max_incomplete_event_size=options.head_max)
        self._request: h11.Request | None = None
        # The format of the metrics that are being rendered for this peer, "" for none.
        self._form = ""
        self._has_begun = False

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer, split anywhere; ignored after the end of the session."""
        if self.closing or not data:
            return
        self._http.receive_data(data)
        self.has_more = True
        if not self._has_begun:
            self._begin(now)

    def _begin(self, now: int) -> None:
        """Start the time limit of a request."""
        self._has_begun = True
        self.next_deadline = now + self._options.request_us

    def proceed(self, now: int) -> None:
        """Answer a few requests, or render a slice of metrics for one."""
        self.has_more = False
        if self.closing:
            return
        try:
            self._answer_some(now)
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "this is not a valid request", now)

    def _answer_some(self, now: int) -> None:
        answered = 0
        while not self.closing:
            if self._form:
                text = self._exposition.text(self._form, now)
                if text is None:
                    self.has_more = True
                    return
                form, self._form = self._form, ""
                self._send(200, text, now, form)
                # The peer must read a long answer before its next request is processed.
                answered = REQUESTS_AT_ONCE
                continue
            if answered >= REQUESTS_AT_ONCE:
                self.has_more = bool(self._http.trailing_data[0])
                self._rest(now)
                return
            before = len(self._http.trailing_data[0])
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event
                # h11 limits only the length of incomplete requests.
                if before - len(self._http.trailing_data[0]) > self._options.head_max:
                    self._refuse(431, "the request is too long", now)
                elif _has_body(event):
                    self._refuse(413, "requests have no body here", now)
                else:
                    self._check_hosts(event, now)
            elif isinstance(event, h11.EndOfMessage):
                self._answer(now)
                answered += 1
            elif isinstance(event, h11.ConnectionClosed):
                self._end(0)
            elif event is h11.NEED_DATA:
                self._rest(now)
                return

    def _check_hosts(self, request: h11.Request, now: int) -> None:
        """Refuse a request for a host that is not this one; the reason is for the log, too."""
        asked = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
        asked.append(_split(request.target)[0])
        for authority in asked:
            if not self._options.hosts.allow(authority):
                self.error = hosts.refusal(authority)
                self._refuse(421, self.error, now)
                return

    def _rest(self, now: int) -> None:
        """Set the deadline: that of a begun request stays, else the idle timeout begins."""
        if self._request is None and not self._http.trailing_data[0]:
            self._has_begun = False
            self.next_deadline = now + self._options.idle_us

    def _answer(self, now: int) -> None:
        request = self._request
        assert request is not None
        _, path = _split(request.target)
        if path not in PATHS:
            self._send(404, f"there are {', '.join(PATHS)}\n".encode(), now)
        elif request.method not in _METHODS:
            self._send(405, b"only GET and HEAD are possible\n", now, more=[("allow", "GET, HEAD")])
        elif path == "/metrics":
            accept = [value for name, value in request.headers if name == b"accept"]
            self._form = content_type(b",".join(accept).decode("latin-1"))
        elif path == "/live":
            self._say("live", self._view.ending(), now)
        else:
            self._say("ready", self._view.unready(), now)

    def _say(self, what: str, why_not: str, now: int) -> None:
        if why_not:
            self._send(503, f"not {what}: {why_not}\n".encode(), now)
        else:
            self._send(200, f"{what}\n".encode(), now)

    def _send(
        self,
        status: int,
        body: bytes,
        now: int,
        form: str = PLAIN,
        more: list[tuple[str, str]] | None = None,
    ) -> None:
        """Answer the request; prepare for the next one, unless the connection ends."""
        http = self._http
        headers = [
            ("content-type", form),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
            *_date(now),
            *(more or ()),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, b""))
        self._say_event(head)
        if self._request is None or self._request.method != b"HEAD":
            self._say_event(h11.Data(data=body))
        self._say_event(h11.EndOfMessage())
        self._request = None
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self._begin(now)
        else:
            self._end(0)

    def _say_event(self, event: h11.Event) -> None:
        said = self._http.send(event)
        if said:
            self.out.append(said)

    def _refuse(self, status: int, why: str, now: int) -> None:
        """Send a refusal, if that is still possible, and end the session."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(status, f"{why}\n".encode(), now, more=[("connection", "close")])
        self._end(ERROR_DELAY_MS)

    def _end(self, delay_ms: int) -> None:
        self.closing = True
        self.has_more = False
        self.close_delay_ms = max(self.close_delay_ms, delay_ms)
        self.next_deadline = 0

    def tick(self, now: int) -> None:
        """End the session of a peer that takes too long."""
        if self.closing:
            return
        if not self.next_deadline:
            self._begin(now)
            self._has_begun = False
        elif now >= self.next_deadline:
            if self._has_begun and not self._form:
                self._refuse(408, "the request took too long", now)
            self._end(0)

    def clock_stepped(self, step: int, now: int) -> None:
        """Move the deadline with the clock, so that the peer's remaining time stays the same."""
        if self.next_deadline:
            self.next_deadline += step


def _has_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
        for name, value in request.headers
    )


def _split(target: bytes) -> tuple[str, str]:
    """Return host and path of a request's target without its query; "" for no host.

    The target may be a whole URL.
    """
    path = target.partition(b"?")[0].decode("latin-1")
    scheme, mark, rest = path.partition("://")
    if not mark or scheme.lower() not in ("http", "https"):
        return "", path
    authority, _, path = rest.partition("/")
    return authority.rpartition("@")[2], f"/{path}"


def _date(now: int) -> list[tuple[str, str]]:
    """Return the header Date, if the time can be written as one."""
    if not 0 <= now <= _DATE_MAX_US:
        return []
    moment = datetime.fromtimestamp(now // 1_000_000, UTC)
    return [("date", format_datetime(moment, usegmt=True))]
