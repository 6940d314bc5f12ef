"""Those who look on, with sessions that do what a test wants."""

from typing import Any

from daybook.server.network.onlookers import ROOM_BYTES, Onlooker, Onlookers


class Transport:
    """The output for a peer; `stuck` bytes of it never reach the kernel."""

    def __init__(self) -> None:
        self.written = b""
        self.stuck = 0
        self.reading = True
        self.closed_after_ms: int | None = None

    def write(self, data: bytes) -> None:
        self.written += data

    def buffered(self) -> int:
        return self.stuck

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def notice_end(self) -> None:
        assert not self.reading

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self, delay_ms: int) -> None:
        assert self.closed_after_ms is None
        self.closed_after_ms = delay_ms


class Session:
    """Echoes a byte at each step."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.has_more = False
        self.closing = False
        self.close_delay_ms = 7
        self.error = ""
        self.next_deadline = 0
        self.rest = b""

    def receive(self, data: bytes, now: int) -> None:
        self.rest += data
        self.has_more = True

    def proceed(self, now: int) -> None:
        self.out.append(self.rest[:1])
        self.rest = self.rest[1:]
        self.has_more = bool(self.rest)
        self.closing = self.out == [b"!"]

    def tick(self, now: int) -> None:
        if not self.next_deadline:
            self.next_deadline = now + 10
        elif now >= self.next_deadline:
            self.closing = True

    def clock_stepped(self, step: int, now: int) -> None:
        self.next_deadline += step


class Bench:
    """Onlookers whose steps and time are given by hand."""

    def __init__(self) -> None:
        self.now = 1000
        self.asked = 0
        monitoring: Any = None
        self.onlookers = Onlookers(monitoring, clock=lambda: self.now, schedule=self.ask)

    def ask(self) -> None:
        self.asked += 1

    def open(self) -> tuple[Onlooker, Transport]:
        transport = Transport()
        peer = Onlooker(Session(), transport, "peer")
        self.onlookers.opened(peer)
        return peer, transport

    def step(self) -> None:
        assert self.asked == 1
        self.asked = 0
        self.onlookers.step()


def test_work_is_done_a_step_at_a_time_in_turn() -> None:
    bench = Bench()
    (first, one), (second, other) = bench.open(), bench.open()
    bench.onlookers.received(first, b"abc")
    bench.onlookers.received(second, b"x")
    assert (one.reading, other.reading) == (False, False)
    told = []
    while bench.asked:
        bench.step()
        told.append((one.written, other.written))
    # The requester comes before those that need many steps.
    assert told == [(b"a", b""), (b"ab", b"x"), (b"abc", b"x")]
    assert (one.reading, other.reading) == (True, True)


def test_a_newcomer_waits_for_one_step_of_each_other_at_most() -> None:
    bench = Bench()
    others = [bench.open()[0] for _ in range(8)]
    for each in others[:4]:
        bench.onlookers.received(each, 110 * b"x")
    for _ in range(6):
        bench.step()
    for each in others[4:]:
        bench.onlookers.received(each, 110 * b"x")
    newcomer, answer = bench.open()
    bench.onlookers.received(newcomer, b"r")
    steps = 0
    while not answer.written:
        bench.step()
        steps += 1
        for each in others:
            # More requests of one that waits do not go before.
            bench.onlookers.received(each, b"x")
    assert steps == 1 + len(others[4:])


def test_a_peer_that_takes_nothing_gets_nothing_more_and_is_not_read() -> None:
    bench = Bench()
    peer, transport = bench.open()
    bench.onlookers.received(peer, b"abc")
    transport.stuck = ROOM_BYTES + 1
    bench.step()
    assert (transport.written, transport.reading, bench.asked) == (b"a", False, 0)
    transport.stuck = ROOM_BYTES
    bench.onlookers.drained(peer)
    bench.step()
    bench.step()
    assert (transport.written, transport.reading) == (b"abc", True)
    transport.stuck = ROOM_BYTES + 1
    bench.onlookers.received(peer, b"d")
    assert (transport.reading, bench.asked) == (False, 0)


def test_an_end_is_said_once_and_then_nothing_is_heard() -> None:
    bench = Bench()
    peer, transport = bench.open()
    bench.onlookers.received(peer, b"!more")
    bench.step()
    assert (transport.written, transport.closed_after_ms) == (b"!", 7)
    bench.onlookers.received(peer, b"x")
    bench.onlookers.drained(peer)
    bench.now += 100
    bench.onlookers.tick()
    assert (transport.written, bench.asked) == (b"!", 0)
    bench.onlookers.lost(peer)
    assert not bench.onlookers.peers


def test_deadlines_are_kept_and_move_with_the_clock() -> None:
    bench = Bench()
    (_, one), (gone, other) = bench.open(), bench.open()
    bench.onlookers.lost(gone)
    bench.now += 1000
    bench.onlookers.clock_stepped(1000)
    bench.onlookers.tick()
    assert one.closed_after_ms is None
    bench.now += 10
    bench.onlookers.tick()
    assert (one.closed_after_ms, other.closed_after_ms) == (7, None)


def test_a_peer_that_is_gone_has_no_turn() -> None:
    bench = Bench()
    peer, transport = bench.open()
    bench.onlookers.received(peer, b"a")
    bench.onlookers.lost(peer)
    bench.step()
    bench.onlookers.received(peer, b"a")
    bench.onlookers.drained(peer)
    assert (transport.written, bench.asked) == (b"", 0)
