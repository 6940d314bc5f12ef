"""Sessions of administrators: a token, then one request at a time, and nothing without bounds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.control.offer import OFFER
from daybook.protocols.control.session import (
    REQUEST_LINE_MAX,
    TOKEN_LINE_MAX,
    Control,
    ControlSession,
)

TOKEN = b'{"token": "secret"}\n'
SECOND = 1_000_000


def made() -> ControlSession:
    session = Control({"token-timeout": 1000, "idle-timeout": 2000}).session()
    session.tick(SECOND)
    return session


def known() -> ControlSession:
    """A session with a user."""
    session = made()
    session.receive(TOKEN, SECOND)
    session.authenticated("alice", "", SECOND)
    assert said(session) == {"result": {"user": "alice"}}
    return session


def said(session: ControlSession) -> Any:
    """The one line of output."""
    (line,) = session.out
    session.out = []
    assert line.endswith(b"\n")
    return json.loads(line)


def test_a_token_then_requests_one_at_a_time() -> None:
    session = made()
    session.receive(TOKEN + b'{"do": "status"}\n\n  \n{"do": "queues"}\n{"do"', SECOND)
    assert (session.token, session.request, session.has_more) == ("secret", b"", True)
    session.authenticated("alice", "", SECOND)
    assert said(session) == {"result": {"user": "alice"}}
    assert session.request == b'{"do": "status"}'
    session.answered(b'{"result": 1}', SECOND)
    assert said(session) == {"result": 1}
    assert session.request == b'{"do": "queues"}'
    session.answered(b'{"result": 2}', SECOND)
    assert (session.request, session.has_more) == (b"", False)


def test_a_wrong_token_ends_the_session() -> None:
    session = made()
    session.receive(TOKEN + b'{"do": "status"}\n', SECOND)
    session.authenticated(None, "the token is wrong", SECOND)
    assert said(session)["error"] == {"code": "not-allowed", "text": "the token is wrong"}
    assert (session.closing, session.request, session.token) == (True, b"", None)
    session.receive(b'{"do": "status"}\n', SECOND)
    assert (session.request, session.out) == (b"", [])


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"{}", b'{"token": 1}', b'{"token": "a", "x": 1}', b"GET / HTTP/1.1", b"\xff"],
)
def test_a_first_line_that_is_no_token(line: bytes) -> None:
    session = made()
    session.receive(line + b"\n", SECOND)
    assert said(session)["error"]["code"] == "invalid"
    assert session.closing


def test_lines_are_bounded() -> None:
    session = made()
    session.receive(b"x" * TOKEN_LINE_MAX, SECOND)
    assert not session.closing
    session.receive(b"x", SECOND)
    assert said(session)["error"]["code"] == "limit"
    session = known()
    session.receive(b"x" * REQUEST_LINE_MAX, SECOND)
    assert not session.closing
    session.receive(b"x\n", SECOND)
    assert said(session)["error"]["code"] == "limit"
    session = known()
    session.receive(b"\n" * 1_000_000, SECOND)
    assert not session.closing


def test_times() -> None:
    session = made()
    session.tick(2 * SECOND - 1)
    assert not session.closing
    session.tick(2 * SECOND)
    assert said(session)["error"]["code"] == "timeout"
    session = known()
    assert session.next_deadline == 3 * SECOND
    session.receive(b'{"do": "purge"}\n', SECOND)
    session.tick(10 * SECOND)
    # The broker takes its time.
    assert (session.closing, session.next_deadline) == (False, 12 * SECOND)
    session.answered(b"{}", 11 * SECOND)
    session.taking(12 * SECOND)
    assert session.next_deadline == 14 * SECOND
    session.clock_stepped(-SECOND, 5 * SECOND)
    assert session.next_deadline == 7 * SECOND
    session.tick(7 * SECOND)
    assert session.closing


def test_the_broker_ends_it() -> None:
    session = known()
    session.dismiss("unavailable", "stopping", SECOND)
    assert said(session)["error"]["text"] == "stopping"
    session.dismiss("unavailable", "again", SECOND)
    session.answered(b"{}", SECOND)
    session.authenticated("x", "", SECOND)
    session.tick(99 * SECOND)
    session.taking(SECOND)
    session.clock_stepped(1, SECOND)
    assert session.out == []


@given(st.lists(st.binary(max_size=40), max_size=20), st.booleans())
def test_any_bytes_in_any_pieces_end_in_an_error_or_wait(
    parts: list[bytes], is_known: bool
) -> None:
    session = known() if is_known else made()
    for part in parts:
        session.receive(part, SECOND)
        if session.token is not None:
            session.authenticated("alice", "", SECOND)
        while session.request:
            session.answered(b"{}", SECOND)
        for line in session.out:
            assert json.loads(line).keys() <= {"error", "result"}


def test_what_a_refused_peer_reads() -> None:
    answer = json.loads(OFFER.refusal("too many"))
    assert answer == {"error": {"code": "limit", "text": "too many; try again later"}}
