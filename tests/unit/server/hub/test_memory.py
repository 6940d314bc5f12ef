"""The account of memory: use, countermeasures, and their end."""

from typing import Any

import pytest

from daybook.engine.commands import DeleteAddress, DeleteQueue
from daybook.engine.queues.queue import Address
from daybook.engine.routing.duplicates import remembered
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.frames import AMQP, SASL, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import SENDER
from daybook.protocols.amqp.wire.performatives import Attach, Begin, Open, SaslInit, Transfer
from daybook.protocols.amqp.wire.termini import Source, Target
from daybook.protocols.port import Caller
from daybook.server.hub import memory
from daybook.server.hub.memory import (
    FULL_US,
    HOLDER_BYTES,
    INPUT_BYTES,
    KINDS,
    PRESSED_ROOM,
    PRESSED_UNACKED,
    QUEUE_BYTES,
    MemoryOptions,
    tuned,
)
from daybook.server.hub.peer import Peer
from daybook.server.process.heap import Heap
from tests.support.topology import create_queue
from tests.unit.server.hub.test_hub import Bench, Client, Transport

MIB = 1 << 20
SECOND = 1_000_000


def bench_with(limit: int, **options: int) -> Bench:
    memory: Any = MemoryOptions(limit=limit, **options)
    return Bench(memory=memory)


def tick(bench: Bench, seconds: float = 0) -> None:
    bench.now += int(seconds * SECOND)
    bench.hub.tick()
    bench.run()


def said(client: Client) -> str:
    return client.transport.take().decode()


class Speaker:
    """A peer that speaks AMQP 1.0, with a link to send by."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.transport = Transport()
        caller = Caller("peer", lambda _: ("PLAIN",))
        session = AmqpConnection(bench.hub.broker, AmqpOptions(), caller, "server")
        self.peer = Peer(session, self.transport, caller, "amqp", 1 << 20)
        bench.hub.opened(self.peer)
        self.say(protocol_header(SASL) + frame(0, SaslInit("PLAIN", b"\0guest\0guest")))
        bench.logins.pop()[1]("guest", "")
        window = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
        link = Attach("s", 0, SENDER, source=Source(), target=Target("a"), initial_delivery_count=0)
        self.say(protocol_header(AMQP) + b"".join(frame(0, each) for each in (Open("c"), window)))
        self.say(frame(0, link))
        bench.run()

    def say(self, data: bytes) -> None:
        self.bench.hub.received(self.peer, data)

    def begin(self, size: int) -> None:
        """Send so many bytes of a message, and no more of it."""
        for at in range(0, size, 60_000):
            said = Transfer(0, None if at else 0, b"t", 0, more=True)
            self.say(frame(0, said, b"\0" * min(60_000, size - at)))


def test_memory_is_counted_by_kind() -> None:
    bench = Bench()
    client = bench.connect()
    for _ in range(10):
        client.message(bytes(1000))
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    client.send(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/a\ntransaction:t\n\n1234\0")
    bench.run()
    client.send(b"SEND\ndestination:/queue/half\nx:" + bytes(5000).replace(b"\0", b"y"))
    client.transport.stuck = 7000
    tick(bench)
    used = bench.hub.memory.by_kind()
    assert tuple(used) == KINDS
    assert 10_000 < used["unacknowledged"] < 20_000
    assert used["messages"] == used["journal"] == 0
    assert 1000 < used["transactions"] < 2000
    assert used["output"] == 7000
    assert 5000 < used["input"] < 8000
    status = bench.hub.status()
    assert status["memory"] == used
    assert status["memory_held"] == sum(used.values())
    assert status["memory_short_of"] == ""
    assert status["memory_holders"][0]["output"] == 7000
    bench.hub.lost(client.peer)
    bench.run()
    used = bench.hub.memory.by_kind()
    assert used["output"] == used["input"] == used["transactions"] == used["unacknowledged"] == 0
    assert used["messages"] > 10_000


def test_when_output_is_short_rooms_are_small_until_it_is_less() -> None:
    bench = bench_with(4 * MIB)
    deaf, quick = bench.connect(), bench.connect()
    deaf.transport.stuck = 2 * MIB
    tick(bench)
    memory = bench.hub.memory
    assert memory.is_output_short
    assert memory.room_of(quick.peer) == PRESSED_ROOM
    assert bench.hub.status()["memory_short_of"] == "output"
    rooms = bench.hub.broker.state.connections
    quick.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    quick.message(b"x")
    bench.run()
    assert rooms[quick.peer.connection].room == PRESSED_ROOM
    # Not before an eighth is free.
    deaf.transport.stuck = MIB - 1000
    tick(bench)
    assert memory.is_output_short
    # Of all there is enough now, and this user has still more than its half.
    deaf.transport.stuck = MIB // 2
    tick(bench)
    assert not memory.is_output_short
    assert memory.room_of(quick.peer) == PRESSED_ROOM
    deaf.transport.stuck = MIB // 2 * 7 // 8 - 1000
    tick(bench)
    assert memory.room_of(quick.peer) == quick.peer.room
    assert rooms[quick.peer.connection].room == quick.peer.room


def test_who_takes_nothing_while_output_is_short_is_disconnected() -> None:
    bench = bench_with(4 * MIB, stalled_us=10 * SECOND)
    deaf, slow = bench.connect(), bench.connect()
    deaf.transport.stuck = slow.transport.stuck = MIB
    for _ in range(12):
        tick(bench, 1)
        slow.transport.stuck -= 1000
    assert "stalled-timeout" in said(deaf)
    assert deaf.transport.closed_after_ms is not None
    assert slow.transport.closed_after_ms is None
    assert bench.hub.status()["connections_dismissed"] == 1
    [notice] = [each for each in bench.notices if "is closed" in each]
    assert "stalled-timeout" in notice
    assert "user 'guest'" in notice


def test_nobody_is_disconnected_for_being_slow_while_there_is_memory() -> None:
    bench = bench_with(400 * MIB, stalled_us=SECOND)
    deaf = bench.connect()
    deaf.transport.stuck = 2 * MIB
    for _ in range(10):
        tick(bench, 1)
    assert deaf.transport.closed_after_ms is None


def test_when_deliveries_are_short_each_gets_few() -> None:
    bench = bench_with(4 * MIB, unacked_max=10 * MIB, stalled_us=5 * SECOND)
    takers, other = [bench.connect() for _ in range(5)], bench.connect()
    for _ in range(30):
        takers[0].message(bytes(60_000))
        bench.run()
    for taker in takers:
        taker.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\ncredit:1000\n\n\0")
    tick(bench)
    assert bench.hub.memory.is_unacked_short
    assert bench.hub.broker.unacked_max == PRESSED_UNACKED
    other.do(b"SUBSCRIBE\nid:1\ndestination:/queue/b\nack:client\ncredit:1000\n\n\0")
    for _ in range(5):
        other.message(bytes(60_000), "b")
    bench.run()
    assert said(other).count("MESSAGE\n") == 2
    for _ in range(8):
        tick(bench, 1)
    for taker in takers:
        assert "stalled-timeout" in said(taker)
        bench.hub.lost(taker.peer)
    tick(bench)
    assert not bench.hub.memory.is_unacked_short
    assert said(other).count("MESSAGE\n") == 3


def test_frames_that_do_not_end_are_given_up_when_they_are_too_much() -> None:
    bench = bench_with(2 * MIB)
    clients = [bench.connect(max_header_length=MIB) for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(b"SEND\nx:" + b"y" * (INPUT_BYTES + number * 1000))
    bench.run()
    [ended] = [client for client in clients if client.transport.closed_after_ms is not None]
    assert "did not finish" in said(ended)
    assert bench.hub.memory.input <= MIB


def test_the_user_with_the_most_input_is_the_first_to_lose_some() -> None:
    bench = bench_with(4 * MIB)
    many = [bench.connect(max_header_length=MIB) for _ in range(4)]
    honest = bench.connect("other", max_header_length=MIB)
    honest.send(b"SEND\nx:" + b"y" * (INPUT_BYTES * 2))
    for client in many:
        client.send(b"SEND\nx:" + b"y" * INPUT_BYTES)
    bench.run()
    closed = [each for each in many if each.transport.closed_after_ms is not None]
    assert len(closed) == 2
    assert "did not finish" in said(closed[0])
    assert honest.transport.closed_after_ms is None
    assert bench.hub.memory.input <= MIB


def test_messages_of_several_frames_are_input_of_their_user() -> None:
    """A guard of one connection would not do: one user has many."""
    bench = bench_with(4 * MIB)
    peers = [Speaker(bench) for _ in range(4)]
    for each in peers:
        each.begin(INPUT_BYTES)
    bench.run()
    tick(bench)
    assert bench.hub.memory.shares.is_short("guest", "input")
    closed = [each for each in peers if each.transport.closed_after_ms is not None]
    assert 0 < len(closed) < len(peers)
    assert bench.hub.memory.input <= MIB // 2


def test_producers_are_blocked_when_all_is_full_and_the_largest_goes() -> None:
    bench = bench_with(1 << 20, stalled_us=0)
    greedy, small = bench.connect(), bench.connect()
    greedy.send(b"BEGIN\ntransaction:t\n\n\0")
    for _ in range(20):
        greedy.send(b"SEND\ndestination:/queue/a\ntransaction:t\n\n" + b"x" * 60_000 + b"\0")
    tick(bench)
    assert bench.hub.status()["memory_short_of"] == "all"
    small.message(b"x", receipt="1")
    bench.run()
    assert said(small) == ""
    assert "max-memory" in bench.hub.status()["blocked"][0]["why"]
    bench.run()
    for _ in range(FULL_US // SECOND + 2):
        tick(bench, 1)
    assert "holds the most" in said(greedy)
    assert "RECEIPT" in said(small)
    assert small.transport.closed_after_ms is None
    assert bench.hub.status()["memory_short_of"] == ""


def test_who_holds_little_is_never_disconnected() -> None:
    bench = bench_with(300 * 1024)
    clients = [bench.connect() for _ in range(20)]
    for client in clients:
        client.transport.stuck = HOLDER_BYTES - 1000
    for _ in range(60):
        tick(bench, 1)
    assert bench.hub.status()["memory_short_of"] == "output, objects, all"
    assert all(client.transport.closed_after_ms is None for client in clients)


def test_queues_that_take_too_much_are_the_last() -> None:
    bench = bench_with(4 * 40 * QUEUE_BYTES)
    client = bench.connect()
    for number in range(45):
        bench.hub.request(create_queue(f"q{number}", f"q{number}"))
    bench.run()
    tick(bench)
    client.message(b"x", "another", receipt="1")
    bench.run()
    assert "max-memory" in said(client)


def test_other_limits_hold_at_once() -> None:
    bench = Bench()
    client = bench.connect()
    options = bench.hub.options
    options.memory = MemoryOptions(unacked_max=1000)
    bench.hub.configure(options)
    [connection] = bench.hub.broker.state.connections.values()
    assert connection.unacked_max == 1000
    for _ in range(5):
        client.message(bytes(300))
    assert client.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0").count(b"ACK") == 0
    assert len(next(iter(bench.hub.broker.state.consumers.values())).unacked) == 2


def test_without_a_limit_what_was_short_is_free_again() -> None:
    bench = bench_with(1 << 20, stalled_us=0)
    greedy, small = bench.connect(), bench.connect()
    greedy.transport.stuck = 4 * MIB
    tick(bench)
    assert bench.hub.status()["memory_short_of"] == "output, all"
    small.message(b"x", receipt="1")
    bench.run()
    assert said(small) == ""
    options = bench.hub.options
    options.memory = MemoryOptions(limit=0)
    bench.hub.configure(options)
    tick(bench)
    assert "RECEIPT" in said(small)
    assert bench.hub.status()["memory_short_of"] == ""


def test_a_step_of_the_clock_disconnects_nobody() -> None:
    bench = bench_with(4 * MIB, stalled_us=10 * SECOND)
    deaf = bench.connect()
    deaf.send(b"BEGIN\ntransaction:t\n\n\0")
    deaf.transport.stuck = 2 * MIB
    tick(bench, 1)
    bench.now += 3600 * SECOND
    bench.hub.clock_stepped(3600 * SECOND)
    tick(bench)
    assert deaf.transport.closed_after_ms is None
    assert bench.hub.broker.transactions.count == 1


def test_transactions_that_stay_open_are_looked_for() -> None:
    bench = bench_with(0, transaction_timeout_us=5 * SECOND)
    client = bench.connect()
    client.send(b"BEGIN\ntransaction:t\n\n\0")
    for _ in range(7):
        tick(bench, 1)
    assert bench.hub.broker.transactions.count == 0
    client.send(b"COMMIT\ntransaction:t\n\n\0")
    bench.run()
    assert "transaction-timeout" in said(client)


def test_long_names_count() -> None:
    bench = Bench()
    before = bench.hub.memory.by_kind()["objects"]
    name = "n" * 4000
    bench.hub.request(create_queue(name, name))
    bench.run()
    assert bench.hub.memory.by_kind()["objects"] - before > QUEUE_BYTES + 16_000
    bench.hub.request(DeleteQueue(name))
    bench.hub.request(DeleteAddress(name))
    bench.run()
    assert bench.hub.memory.by_kind()["objects"] == before


def test_rooms_that_are_tuned_are_smaller_the_more_connections_there_are() -> None:
    bench = Bench()
    peer = bench.connect().peer
    memory = bench.hub.memory
    peer.room, peer.is_tuned = 640 << 20, True
    assert memory.room_of(peer) == 64 << 20
    bench.connect()
    assert memory.room_of(peer) == 32 << 20
    peer.is_tuned = False
    assert memory.room_of(peer) == 640 << 20
    rooms = [tuned(640 << 10, count) for count in (0, 1, 102, 256, 3_000, 4_000, 1_000_000)]
    assert [room >> 10 for room in rooms] == [640, 640, 640, 256, 21, 20, 20]


def test_a_user_that_has_more_than_its_part_of_everything_loses_its_largest() -> None:
    bench = bench_with(64 * MIB, of_user=2 * MIB, stalled_us=0)
    greedy, modest, other = bench.connect(), bench.connect(), bench.connect("other")
    greedy.transport.stuck = 3 * MIB
    other.transport.stuck = MIB
    tick(bench)
    memory = bench.hub.memory
    assert memory.shares.short == {"guest": frozenset({"all"})}
    assert memory.room_of(modest.peer) == PRESSED_ROOM
    assert memory.room_of(other.peer) == other.peer.room
    [user, *_] = bench.hub.status()["memory_users"]
    assert (user["user"], user["short_of"]) == ("guest", "all")
    assert user["bytes"] > 3 * MIB
    for _ in range(int(FULL_US / SECOND) + 1):
        tick(bench, 1)
    assert "max-memory-per-user" in said(greedy)
    assert modest.transport.closed_after_ms is None
    assert other.transport.closed_after_ms is None
    bench.hub.lost(greedy.peer)
    tick(bench, 1)
    assert memory.shares.short == {}
    assert memory.room_of(modest.peer) == modest.peer.room
    notices = [each for each in bench.notices if "max-memory-per-user" in each or "again" in each]
    assert "more than its share of all" in notices[0]
    assert "less than its share again" in notices[-1]


def test_what_was_freed_is_given_back_to_the_system() -> None:
    bench = bench_with(4096 * MIB)
    calls: list[int] = []
    bench.hub.memory.heap = Heap(lambda: not calls.append(1))
    client = bench.connect()
    client.transport.stuck = 100 * MIB
    tick(bench)
    client.transport.stuck = 0
    assert not calls
    tick(bench, 0.1)
    tick(bench, 0.1)
    assert calls == [1]
    assert bench.hub.status()["memory_given_back_times"] == 1


def test_ids_of_many_addresses_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over a hundred thousand addresses would make everybody else wait each second."""
    looked = []

    def counting(address: Address) -> int:
        looked.append(address.name)
        return remembered(address)

    monkeypatch.setattr(memory, "COUNTED_AT_A_TIME", 3)
    monkeypatch.setattr(memory, "remembered", counting)
    bench = bench_with(100 * MIB)
    client = bench.connect()
    frame = b"SEND\ndestination:/queue/q%d\n_AMQ_DUPL_ID:%d\n\n\0"
    client.send(b"".join(frame % (each % 10, each) for each in range(20)))
    bench.run()
    account = bench.hub.memory
    names = sorted(address.name for address in bench.hub.broker.state.addresses.values())
    while not account._ids:
        before = len(looked)
        tick(bench, 0.1)
        assert len(looked) <= before + 3
    assert account._ids == 20
    assert sorted(looked) == names
    tick(bench)
    assert sorted(looked) == names, "the next round begins a second after this one"
