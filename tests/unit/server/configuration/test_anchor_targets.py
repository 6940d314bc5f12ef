"""Anchors are kept elsewhere, or it is said why not; nothing waits for that."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue

import pytest

from daybook.recovery.signing.statements import Statement, read_anchors
from daybook.server.configuration import anchor_targets
from daybook.server.configuration.anchor_targets import WAITING_MAX, Place, keep, shown, wrong_with
from tests.support.stored.full_disk import no_file_above

STATEMENT = Statement("ab" * 16, 7, "cd" * 16, signature="ef")


class Peer(HTTPServer):
    """A peer that takes anchors, or refuses them with `status`; `hung` keeps it from answering."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.got: Queue[tuple[str, str | None, bytes]] = Queue()
        self.answers = threading.Event()
        self.answers.set()

    @property
    def url(self) -> str:
        return f"http://user:secret@127.0.0.1:{self.server_port}/anchors?of=us"


class Handler(BaseHTTPRequestHandler):
    server: Peer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answers.wait(60)
        self.server.got.put((self.path, self.headers["Authorization"], body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def peer() -> Iterator[Peer]:
    server = Peer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.answers.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor_targets, "RETRY_SECONDS", 0.01)


def test_an_anchor_is_posted_as_json(peer: Peer) -> None:
    keep(peer.url, STATEMENT)
    path, login, body = peer.got.get(timeout=30)
    assert path == "/anchors?of=us"
    assert login == "Basic dXNlcjpzZWNyZXQ="
    assert json.loads(body)["lsn"] == 7
    assert "secret" not in shown(peer.url)


def test_what_a_peer_refuses_is_tried_again(peer: Peer) -> None:
    kept: Queue[tuple[str, int, str]] = Queue()
    peer.status = 503
    place = Place(peer.url, lambda *what: kept.put(what))
    place.put(STATEMENT)
    _, lsn, why = kept.get(timeout=30)
    assert (lsn, "503" in why, "secret" in why) == (7, True, False)
    peer.status = 200
    while kept.get(timeout=30)[2]:
        pass
    assert place.is_done()
    place.end()


def test_a_peer_that_hangs_costs_the_oldest_anchors_only(peer: Peer) -> None:
    kept: Queue[tuple[str, int, str]] = Queue()
    peer.answers.clear()
    place = Place(peer.url, lambda *what: kept.put(what))
    for lsn in range(1, 3 * WAITING_MAX):
        place.put(Statement("ab" * 16, lsn, ""))
    peer.answers.set()
    lsns = []
    while not lsns or lsns[-1] < 3 * WAITING_MAX - 1:
        _, lsn, why = kept.get(timeout=30)
        assert not why
        lsns.append(lsn)
    assert len(lsns) <= WAITING_MAX + 1
    place.end()


def test_a_line_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    keep(f"file:{path}", STATEMENT)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    keep(f"file:{path}", STATEMENT)
    assert path.read_bytes() == whole + whole[:20] + b"\n" + whole
    (first, torn, second) = read_anchors(path)
    assert first == second == STATEMENT
    assert "line 2" in str(torn)
    path.write_bytes(whole + whole)
    assert list(read_anchors(path)) == [STATEMENT, STATEMENT]


def test_a_full_disk_leaves_no_half_of_an_anchor(tmp_path: Path) -> None:
    path = tmp_path / "anchors"
    keep(f"file:{path}", STATEMENT)
    whole = path.read_bytes()
    with no_file_above(len(whole) + 20), pytest.raises(OSError, match="anchors"):
        keep(f"file:{path}", STATEMENT)
    assert path.read_bytes() == whole
    keep(f"file:{path}", STATEMENT)
    assert path.read_bytes() == whole + whole


@pytest.mark.parametrize(
    ("place", "is_right"),
    [
        ("log", True), ("file:/a", True), ("https://h/p", True), ("http://h:80", True),
        ("file:a", False), ("ftp://h", False), ("https://", False), ("https://h:x/", False),
        ("", False), ("/a", False),
    ],
)  # fmt: skip
def test_places_are_checked(place: str, is_right: bool) -> None:
    assert (wrong_with(place) == "") == is_right
