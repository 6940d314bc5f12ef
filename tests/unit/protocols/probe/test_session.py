"""Requests of a supervisor and what they are answered, in any pieces."""

import http.client
import io
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.probe.exposition import OPEN_METRICS, TEXT
from daybook.protocols.probe.session import ERROR_DELAY_MS, REQUESTS_AT_ONCE, Probe
from tests.unit.protocols.probe.streams import (
    BROKEN,
    NOW,
    OPTIONS,
    REQUESTS,
    FakeSight,
    Talk,
    cut,
    get,
    run,
)


class Socket:
    """A socket from which http.client reads an answer."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return io.BytesIO(self.data)


def parsed(data: bytes, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    """An answer as the standard library reads it."""
    response = http.client.HTTPResponse(Socket(data), method=method)  # type: ignore[arg-type]
    response.begin()
    return response, response.read()


def test_a_broker_that_is_well_is_live_and_ready() -> None:
    talk = Talk()
    for path, said in (("/live", b"live\n"), ("/ready", b"ready\n")):
        response, body = parsed(talk.send(get(path)))
        assert (response.status, body) == (200, said)
        assert response.getheader("content-type") == "text/plain; charset=utf-8"
        assert response.getheader("cache-control") == "no-store"
        assert response.getheader("date") == "Wed, 17 Dec 2025 19:33:20 GMT"
    assert not talk.session.closing


def test_a_broker_that_is_not_says_why() -> None:
    talk = Talk()
    talk.monitoring.why_unready = "the disk is full"
    response, body = parsed(talk.send(get("/ready")))
    assert (response.status, body) == (503, b"not ready: the disk is full\n")
    assert parsed(talk.send(get("/live")))[0].status == 200
    talk.monitoring.why_ending = "stopping"
    response, body = parsed(talk.send(get("/live")))
    assert (response.status, body) == (503, b"not live: stopping\n")


def test_head_has_the_headers_and_no_body() -> None:
    for path in ("/live", "/ready", "/metrics", "/nowhere"):
        whole, body = parsed(Talk().send(get(path)))
        said = Talk().send(get(path, method="HEAD"))
        assert said.endswith(b"\r\n\r\n")
        response, nothing = parsed(said, "HEAD")
        assert nothing == b""
        assert response.status == whole.status
        assert response.getheader("content-length") == str(len(body))


def test_other_paths_and_methods_are_refused_and_the_connection_goes_on() -> None:
    talk = Talk()
    response, body = parsed(talk.send(get("/metric")))
    assert (response.status, body) == (404, b"there are /live, /ready, /metrics\n")
    response, _ = parsed(talk.send(get("/live", method="DELETE")))
    assert (response.status, response.getheader("allow")) == (405, "GET, HEAD")
    assert parsed(talk.send(get("/metric", method="POST")))[0].status == 404
    assert parsed(talk.send(get("/ready?verbose")))[0].status == 200
    assert parsed(talk.send(get("http://broker:1/ready")))[0].status == 200
    assert not talk.session.closing


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (BROKEN[0], 400),
        (BROKEN[1], 400),
        (BROKEN[3], 400),
        (BROKEN[4], 400),
        (BROKEN[5], 400),
        (BROKEN[6], 400),
        (BROKEN[7], 431),
        (BROKEN[8], 431),
        (get("/live", "Content-Length: 5") + b"hello", 413),
        (get("/live", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n", 413),
        (get("/live", "Transfer-Encoding: gzip"), 501),
        (get("/live", "a: " + 9000 * "b"), 431),
    ],
)
def test_what_is_no_request_ends_the_connection(data: bytes, status: int) -> None:
    talk = Talk()
    talk.send(get("/live"))
    response, body = parsed(talk.send(data))
    assert (response.status, response.getheader("connection")) == (status, "close")
    assert body
    assert talk.session.closing
    assert talk.session.close_delay_ms == ERROR_DELAY_MS
    assert talk.send(get("/live")) == b""


@pytest.mark.parametrize("target", ["/live", "/ready", "/metrics", "/nowhere"])
def test_a_name_that_is_not_listed_is_refused(target: str) -> None:
    talk = Talk()
    talk.send(get("/live"))
    response, body = parsed(talk.send(get(target).replace(b"broker", b"evil.example:8161")))
    assert (response.status, response.getheader("connection")) == (421, "close")
    why = "'evil.example:8161' is not listed in allowed-hosts of this acceptor"
    assert body.decode() == f"{why}\n"
    assert (talk.session.error, talk.session.closing) == (why, True)


def test_the_host_of_a_whole_url_counts_as_well() -> None:
    assert parsed(Talk().send(get("http://evil.example/metrics")))[0].status == 421
    assert parsed(Talk().send(get("http://broker@evil.example/metrics")))[0].status == 421
    assert parsed(Talk().send(get("HTTPS://evil.example")))[0].status == 421
    evil = get("http://broker/metrics").replace(b"Host: broker", b"Host: evil.example")
    assert parsed(Talk().send(evil))[0].status == 421


def test_old_clients_and_those_that_ask_for_it_are_closed_after_the_answer() -> None:
    for request in (get("/live", version="1.0"), get("/live", "Connection: close")):
        talk = Talk()
        response, body = parsed(talk.send(request))
        assert (response.status, body) == (200, b"live\n")
        assert talk.session.closing
        assert talk.session.close_delay_ms == 0


def test_requests_in_a_row_are_answered_in_order_a_few_at_a_time() -> None:
    talk = Talk()
    count = 5 * REQUESTS_AT_ONCE
    said = talk.send(b"".join(get("/live" if number % 2 else "/ready") for number in range(count)))
    bodies = [part[:4] for part in said.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"live" if number % 2 else b"read" for number in range(count)]
    assert talk.turns >= count / REQUESTS_AT_ONCE


def test_figures_come_in_the_format_that_is_asked_for() -> None:
    talk = Talk()
    response, body = parsed(talk.send(get("/metrics")))
    assert response.getheader("content-type") == TEXT
    assert b'daybook_a{queue="q"} 1.0\ndaybook_a{queue="r"} 2.0\n' in body
    response, body = parsed(talk.send(get("/metrics", "Accept: application/openmetrics-text")))
    assert response.getheader("content-type") == OPEN_METRICS
    assert body.endswith(b"# EOF\n")


def test_all_sessions_of_an_acceptor_share_what_is_rendered() -> None:
    monitoring, probe = FakeSight(), Probe(OPTIONS)
    for _ in range(20):
        talk = Talk(monitoring, probe)
        talk.send(get("/metrics") * 3)
    assert monitoring.renderings == 1
    talk.now += 1_000_000
    talk.send(get("/metrics"))
    assert monitoring.renderings == 2


def test_a_slice_of_figures_is_rendered_at_a_time() -> None:
    talk = Talk()
    talk.session.receive(get("/metrics"), NOW)
    for _ in range(5):
        talk.session.proceed(NOW)
        assert (talk.take(), talk.session.has_more) == (b"", True)
    talk.session.proceed(NOW)
    assert talk.take().startswith(b"HTTP/1.1 200 OK\r\n")
    assert not talk.session.has_more


def test_what_is_long_is_said_before_the_next_request_is_looked_at() -> None:
    talk = Talk()
    talk.session.receive(get("/metrics") * 2, NOW)
    while not talk.session.out:
        talk.session.proceed(NOW)
    assert b"".join(talk.session.out).count(b"HTTP/1.1 200") == 1
    assert talk.session.has_more


def test_silence_and_slowness_end_a_connection() -> None:
    silent, slow, idle = Talk(), Talk(), Talk()
    assert silent.session.next_deadline == NOW + 10_000_000
    silent.session.tick(silent.session.next_deadline)
    assert (silent.session.closing, silent.session.out) == (True, [])
    for number in range(10):
        slow.now = NOW + 1_000_000 + number * 900_000
        slow.send(b"G" if number == 0 else b"E")
    assert slow.session.next_deadline == NOW + 1_000_000 + 10_000_000
    slow.session.tick(slow.session.next_deadline)
    assert parsed(slow.take())[0].status == 408
    assert slow.session.closing
    idle.send(get("/live"))
    assert idle.session.next_deadline == NOW + 90_000_000
    idle.session.tick(NOW + 89_999_999)
    assert not idle.session.closing
    idle.session.tick(NOW + 90_000_000)
    assert (idle.session.closing, idle.session.out) == (True, [])


def test_a_clock_that_was_set_ends_no_connection() -> None:
    talk = Talk()
    talk.session.clock_stepped(86_400_000_000, NOW + 86_400_000_000)
    talk.session.tick(NOW + 86_400_000_000)
    assert not talk.session.closing


def test_a_time_without_a_date_is_no_problem() -> None:
    for moment in (-1, 1 << 62):
        talk = Talk()
        talk.now = moment
        assert b"\r\ndate:" not in talk.send(get("/live"))


pieces = st.lists(
    st.sampled_from(REQUESTS) | st.sampled_from(BROKEN) | st.binary(max_size=40), max_size=6
)


@given(pieces, st.lists(st.integers(0, 3000), max_size=30))
def test_however_bytes_are_cut_the_answers_are_the_same(
    parts: list[bytes], places: list[int]
) -> None:
    stream = b"".join(parts)
    assert run(cut(stream, places)) == run([stream])


@given(st.binary(max_size=300))
def test_garbage_is_refused_once_or_waits(data: bytes) -> None:
    said = Talk().send(data)
    assert said.count(b"HTTP/1.1 4") <= 1
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    client.send(h11.EndOfMessage())
    if said:
        client.receive_data(said)
        assert isinstance(client.next_event(), h11.Response)
