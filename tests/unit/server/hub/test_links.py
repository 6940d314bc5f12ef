"""A session of links in the hub: it pulls durable pieces of bodies, and its links wait alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from daybook.engine.commands import ChangeSettings, CreateQueue, DropUnlisted, PurgeQueue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.queues.queue import StoreError
from daybook.protocols.port import Caller
from daybook.server.hub.peer import WRITE_HIGH_BYTES, Peer
from tests.support.links.session import OPEN_US, LinksSession
from tests.support.links.wire import Cutter, frame
from tests.support.worlds.second_format import installed
from tests.unit.server.hub.test_hub import Bench, Transport

PIECES = [bytes([number]) * 20_000 for number in range(4)]


@pytest.fixture(autouse=True)
def _codec() -> Iterator[None]:
    with installed():
        yield


class Links:
    """A peer that speaks the made-up protocol."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.transport = Transport()
        caller = Caller("peer:1")
        self.session = LinksSession(bench.hub.broker, caller, 1 << 20)
        self.peer = Peer(self.session, self.transport, caller, "links", 1 << 20)
        bench.hub.opened(self.peer)

    def say(self, name: str, *parts: Any) -> None:
        self.bench.hub.received(self.peer, frame(name, *parts))

    def heard(self) -> list[list[Any]]:
        cutter = Cutter()
        cutter.put(self.transport.take())
        found = []
        while (each := cutter.next()) is not None:
            found.append(each)
        assert not cutter.rest
        return found

    def log_in(self) -> None:
        self.say("init", "PLAIN", b"\0joe\0p")
        self.bench.logins.pop()[1]("joe", "")

    def connect(self, window: int = 1000) -> "Links":
        self.log_in()
        self.say("open", "c")
        self.say("window", window)
        self.bench.run()
        assert [name for name, *_ in self.heard()] == ["outcome", "opened"]
        return self

    def send_large(self) -> None:
        for number, piece in enumerate(PIECES):
            self.say("transfer", 1, "t", {}, piece, number < len(PIECES) - 1)


def pair(bench: Bench) -> tuple[Links, Links]:
    sender, receiver = Links(bench).connect(), Links(bench).connect()
    sender.say("attach", 1, "sender", "a")
    receiver.say("attach", 1, "receiver", "a")
    receiver.say("flow", 1, 9)
    bench.run()
    sender.heard()
    receiver.heard()
    return sender, receiver


def body(frames: list[list[Any]]) -> bytes:
    assert all(each[:2] == ["transfer", 1] for each in frames)
    return b"".join(each[4] for each in frames)


def test_a_user_without_a_connection_is_no_stranger_and_no_connection() -> None:
    bench = Bench()
    links = Links(bench)
    assert links.peer.is_stranger
    links.log_in()
    bench.run()
    assert (links.peer.user, links.peer.connection) == ("joe", 0)
    assert not links.peer.is_stranger
    assert not bench.hub.broker.state.connections
    bench.now += OPEN_US
    bench.hub.tick()
    bench.hub.tick()
    bench.run()
    assert links.heard()[-1] == ["closed", "not opened in time"]
    assert links.transport.closed_after_ms is not None


def test_the_connection_is_known_as_soon_as_it_is_open() -> None:
    bench = Bench()
    links = Links(bench).connect()
    assert bench.hub.close_connection(links.peer.connection, "go", "away")
    bench.run()
    assert links.heard() == [["closed", "go"]]


def test_no_piece_leaves_before_its_delivery_is_durable() -> None:
    bench = Bench()
    sender, receiver = pair(bench)
    sender.send_large()
    bench.turn()
    assert receiver.heard() == []
    assert bench.hub.first_chunk() > 0
    bench.run()
    assert body(receiver.heard()) == b"".join(PIECES)
    assert bench.hub.first_chunk() == 0


def test_a_full_transport_gets_no_more_pieces_until_it_has_drained() -> None:
    bench = Bench()
    sender, receiver = pair(bench)
    receiver.transport.stuck = WRITE_HIGH_BYTES + 1
    sender.send_large()
    bench.run()
    assert receiver.heard() == []
    receiver.transport.stuck = 0
    bench.hub.drained(receiver.peer)
    bench.run()
    assert body(receiver.heard()) == b"".join(PIECES)


def test_a_link_whose_queue_goes_ends_alone_and_when_that_is_durable() -> None:
    bench = Bench()
    bench.hub.request(ChangeSettings({"#": {"config-delete-queues": "FORCE"}}))
    bench.hub.request(CreateQueue("a", QueueDefinition(name="a"), configured=True))
    sender, receiver = pair(bench)
    receiver.say("attach", 2, "receiver", "b")
    receiver.say("flow", 2, 9)
    sender.say("attach", 2, "sender", "b")
    bench.run()
    receiver.heard()
    nothing: frozenset[str] = frozenset()
    bench.hub.request(DropUnlisted(nothing, nothing, nothing))
    bench.turn()
    assert receiver.heard() == []
    bench.run()
    (ended,) = receiver.heard()
    assert ended[:3] == ["detached", 1, "queue-removed"]
    assert "queue 'a' was deleted" in ended[3]
    sender.say("transfer", 2, "t", {}, b"x", False)
    bench.run()
    assert [each[:2] for each in receiver.heard()] == [["transfer", 2]]


def test_a_drain_is_answered_behind_what_it_delivered() -> None:
    bench = Bench()
    sender, receiver = pair(bench)
    sender.say("transfer", 1, "t", {}, b"x", False)
    receiver.say("flow", 1, 9, True)
    bench.run()
    frames = receiver.heard()
    assert [each[0] for each in frames] == ["transfer", "drained"]
    assert frames[1][1:] == [1, 8, 9]
    sender.say("transfer", 1, "t", {}, b"y", False)
    bench.run()
    assert receiver.heard() == []
    receiver.say("flow", 1, 10)
    bench.run()
    assert [each[0] for each in receiver.heard()] == ["transfer"]


def test_a_connection_that_ends_forgets_what_it_pulls() -> None:
    bench = Bench()
    sender, receiver = pair(bench)
    sender.send_large()
    bench.turn()
    bench.hub.lost(receiver.peer)
    bench.run()
    assert bench.hub.first_chunk() == 0
    assert bench.hub.broker.state.queue_by_name["a"].ready_count == 1


def test_a_body_that_cannot_be_read_ends_its_link_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    sender, receiver = pair(bench)
    receiver.say("attach", 2, "receiver", "b")
    receiver.say("flow", 2, 9)
    sender.say("attach", 2, "sender", "b")
    bench.run()
    receiver.heard()

    class Broken:
        def chunks(self, lsns: Any, before: int) -> list[bytes]:
            raise StoreError("the disk is bad")

    monkeypatch.setattr(bench.hub, "chunks", Broken())
    sender.send_large()
    sender.say("transfer", 2, "t", {}, b"small", False)
    bench.run()
    frames = receiver.heard()
    [ended] = [each for each in frames if each[0] == "detached"]
    assert ended[1:3] == [1, "unreadable"]
    assert "the disk is bad" in ended[3]
    assert [each[4] for each in frames if each[0] == "transfer"] == [b"small"]
    [notice] = bench.notices
    assert notice.endswith("it stays in queue 'a' and is not delivered")


def test_a_link_that_waits_shows_and_the_socket_is_read() -> None:
    bench = Bench()
    bench.hub.request(
        ChangeSettings({"a": {"max-size-messages": 1, "address-full-policy": "BLOCK"}})
    )
    links = Links(bench).connect()
    links.say("attach", 1, "sender", "a")
    links.say("attach", 2, "sender", "b")
    for link in (1, 1, 2):
        links.say("transfer", link, "t", {}, b"x", False)
    bench.run()
    accepted = [each[1] for each in links.heard() if each[0] == "accepted"]
    assert accepted == [1, 2]
    assert links.transport.reading
    [row] = bench.hub.status()["blocked"]
    assert (row["address"], row["peer"]) == ("a", "peer:1")
    bench.hub.request(PurgeQueue("a"))
    bench.run()
    assert [each[1] for each in links.heard() if each[0] == "accepted"] == [1]
    assert bench.hub.status()["producers_blocked"] == 0


def filtered(bench: Bench, count: int = 60) -> Links:
    """Subscribe to `many` with filters that take several turns to ask."""
    subscriber = Links(bench).connect()
    for number in range(1, count + 1):
        long = " OR ".join(f"n = {number}{each}" for each in range(20))
        subscriber.say("attach", number, "receiver", "many", {"topic": True, "filter": long})
        bench.run()
    return subscriber


def accepted(frames: list[list[Any]]) -> list[int]:
    return [each[1] for each in frames if each[0] == "accepted"]


def test_a_send_that_takes_many_turns_keeps_its_link_alone() -> None:
    bench = Bench()
    filtered(bench)
    sender = Links(bench).connect()
    sender.say("attach", 1, "sender", "many")
    sender.say("attach", 2, "sender", "free")
    bench.run()
    sender.heard()
    lengths = bench.hub.turns.lengths
    lengths.slice = lengths.turn = lengths.least = 4
    sender.say("transfer", 1, "slow", {}, b"x", False)
    sender.say("transfer", 1, "behind", {}, b"y", False)
    assert sender.session.has_unfinished
    turns = 0
    order: list[int] = []
    while len(order) < 7:
        bench.hub.turn()
        bench.writer.write()
        turns += 1
        if turns in (3, 6, 9, 12, 15):
            # Input that comes meanwhile is read, and passes.
            assert sender.transport.reading
            sender.say("transfer", 2, "quick", {}, b"z", False)
        order += accepted(sender.heard())
        assert turns < 500
    assert order[:2] == [2, 2]
    assert order.count(1) == 2
    assert not sender.session.has_unfinished
    assert not bench.hub.turns.waiting


def test_a_link_may_end_before_its_send_is_finished() -> None:
    bench = Bench()
    filtered(bench)
    sender = Links(bench).connect()
    sender.say("attach", 1, "sender", "many")
    lengths = bench.hub.turns.lengths
    lengths.slice = lengths.turn = lengths.least = 4
    bench.hub.turn()
    sender.say("transfer", 1, "slow", {}, b"x", False)
    while not sender.session.has_unfinished:
        bench.hub.turn()
    sender.say("detach", 1)
    for _ in range(20):
        bench.hub.turn()
        bench.writer.write()
    assert not sender.session.has_unfinished
    assert not accepted(sender.heard())


def test_between_two_steps_of_a_login_a_peer_is_a_stranger() -> None:
    bench = Bench()
    links = Links(bench)
    links.say("init", "PLAIN", None)
    bench.run()
    assert links.heard() == [["challenge", b""]]
    assert links.peer.is_stranger
    assert links.transport.reading
    links.say("response", b"\0joe\0p")
    # Nothing more is read while the passcode is checked.
    assert not links.peer.is_stranger
    assert not links.transport.reading
    [(request, answer)] = bench.logins
    assert (request.login, request.passcode, request.peer) == ("joe", "p", "peer:1")
    answer("joe", "")
    bench.run()
    assert links.heard() == [["outcome", "joe", b""]]
    assert links.transport.reading
    assert links.peer.sasl is None


def test_a_login_that_stops_in_the_middle_ends_in_time() -> None:
    bench = Bench()
    links = Links(bench)
    links.say("init", "PLAIN", None)
    bench.now += OPEN_US
    bench.hub.tick()
    bench.run()
    assert links.heard()[-1] == ["closed", "not opened in time"]
    assert not bench.logins


def test_steps_in_one_read_follow_each_other() -> None:
    bench = Bench()
    links = Links(bench)
    both = frame("init", "PLAIN", None) + frame("response", b"\0joe\0p")
    bench.hub.received(links.peer, both)
    [(request, answer)] = bench.logins
    assert request.login == "joe"
    answer(None, "login or passcode of 'joe' is wrong")
    bench.run()
    assert [name for name, *_ in links.heard()] == ["challenge", "closed"]
    assert bench.hub.refusals.count == 1
