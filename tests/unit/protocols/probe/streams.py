"""A session of the probe without a server: its view, and its answers to bytes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from daybook.protocols.port import Family, Histogram, Reading, Value
from daybook.protocols.probe.offer import OFFER
from daybook.protocols.probe.session import Probe, Session

NOW = 1_766_000_000_000_000
OPTIONS: dict[str, Value] = {
    "max-queues": 10, "max-request-head": 8192, "request-timeout": 10_000, "idle-timeout": 90_000,
    "allowed-hosts": ("broker",),
}  # fmt: skip
assert OPTIONS.keys() == {option.name for option in OFFER.options}

GAUGE = Family("daybook_a", "gauge", "A figure.", ("queue",))
COUNTER = Family("daybook_b_total", "counter", "Another.")
HISTOGRAM = Family("daybook_c_seconds", "histogram", "Times.")


class FakeSight:
    """The view of a session; `slices` counts its requests for figures."""

    def __init__(self) -> None:
        self.why_ending = ""
        self.why_unready = ""
        self.renderings = 0
        self.values: list[tuple[tuple[str, ...], float | Histogram]] = [(("q",), 1.0)]

    def ending(self) -> str:
        return self.why_ending

    def unready(self) -> str:
        return self.why_unready

    def readings(self, names_max: int) -> Iterator[Reading | None]:
        self.renderings += 1
        yield Reading(GAUGE, self.values)
        yield None
        yield Reading(GAUGE, [(("r",), 2.0)])
        yield Reading(COUNTER, [((), 3.0)])
        yield Reading(HISTOGRAM, [((), Histogram(((0.1, 1), (float("inf"), 2)), 5.5))])


class Talk:
    """A session, and all that it said."""

    def __init__(self, monitoring: FakeSight | None = None, probe: Probe | None = None) -> None:
        self.monitoring = monitoring if monitoring is not None else FakeSight()
        self.session: Session = (probe or Probe(OPTIONS)).session(self.monitoring)
        self.now = NOW
        self.said = b""
        self.turns = 0
        self.session.tick(self.now)

    def send(self, data: bytes) -> bytes:
        """Send bytes, run the session as long as it can, and return its output."""
        self.session.receive(data, self.now)
        while self.session.has_more and not self.session.closing:
            self.turns += 1
            self.session.proceed(self.now)
        return self.take()

    def take(self) -> bytes:
        out, self.session.out = self.session.out, []
        said = b"".join(out)
        self.said += said
        return said


def get(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    """A request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: broker", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


REQUESTS = (
    get("/live"),
    get("/ready"),
    get("/metrics"),
    get("/metrics", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
    get("/"),
    get("http://broker/live?x=1"),
    get("/live", method="HEAD"),
    get("/metrics", method="HEAD"),
    get("/ready", method="DELETE"),
    get("*", method="OPTIONS"),
    get("/live", "Connection: close"),
    get("/live", version="1.0"),
    get("/live", "Content-Length: 0"),
    get("/live", "Content-Length: 5", method="POST") + b"hello",
    get("/live", "Transfer-Encoding: chunked", method="PUT") + b"0\r\n\r\n",
    get("/live", "Expect: 100-continue", "Content-Length: 9"),
    get("/live", "Upgrade: h2c", "Connection: upgrade"),
    b"\r\n\r\n" + get("/live"),
)
BROKEN = (
    b"GET /live\r\n\r\n",
    b"GET /live HTTP/1.1\r\n\r\n",
    b"GET /live HTTP/2.0\r\nHost: a\r\n\r\n",
    b"CONNECT\naccept-version:1.2\n\n\0",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /live HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    b"GET /live HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 3000,
    b"GET /" + b"a" * 20_000,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def cut(stream: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut a stream at places."""
    marks = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    return [stream[a:b] for a, b in pairwise(marks)]


def run(chunks: Sequence[bytes]) -> tuple[bytes, bool, int]:
    """The answers of a session to chunks, and its end.

    Which of two things is wrong with a request that is too long depends on what is seen first.
    """
    talk = Talk()
    for chunk in chunks:
        talk.send(chunk)
    session = talk.session
    assert not (session.closing and (session.has_more or session.next_deadline))
    *answers, last = talk.said.split(b"HTTP/1.1 ")
    if last.startswith((b"400", b"413", b"431", b"501")):
        last = b"refused"
    return b"HTTP/1.1 ".join([*answers, last]), session.closing, session.close_delay_ms
