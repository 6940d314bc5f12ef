"""The hub with an inline writer, a disk in memory, and transports that only remember."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import ChangeDistributions, CreateAddress, DeleteAddress, Start
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.facts.events import FORWARD_SETTLED, FORWARDED
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.blocks.batch import BatchLike
from daybook.journal.disk import MemoryDisk, MemoryFile
from daybook.journal.errors import JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.writing.writer import InlineWriter
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.port import Caller
from daybook.protocols.stomp import Session, StompOptions
from daybook.recovery.fold import fold
from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Peer
from daybook.server.hub.ports import HubOptions
from daybook.server.users.logins import LoginRequest
from daybook.server.users.sasl import Mechanisms
from daybook.server.users.users import Users

Answer = Callable[[str | None, str], None]


class Transport:
    """The output for the peer; `stuck` bytes of it never reach the kernel."""

    def __init__(self) -> None:
        self.written = b""
        self.stuck = 0
        self.reading = True
        self.is_watched = False
        self.closed_after_ms: int | None = None

    def write(self, data: bytes) -> None:
        self.written += data

    def buffered(self) -> int:
        return self.stuck

    def pause_reading(self) -> None:
        self.reading = False

    def notice_end(self) -> None:
        assert not self.reading
        self.is_watched = True

    def resume_reading(self) -> None:
        self.reading = True
        self.is_watched = False

    def close(self, delay_ms: int) -> None:
        self.closed_after_ms = delay_ms

    def take(self) -> bytes:
        written, self.written = self.written, b""
        return written


class SlowWriter:
    """A writer that writes on request."""

    def __init__(self, writer: InlineWriter) -> None:
        self.writer = writer
        self.waiting: list[BatchLike] = []
        self.marks = 0

    @property
    def pending_bytes(self) -> int:
        return sum(batch.raw_bytes for batch in self.waiting)

    def submit(self, batch: BatchLike) -> None:
        self.waiting.append(batch)

    def mark(self, time: int) -> None:
        self.marks += 1

    def write(self) -> None:
        while self.waiting:
            self.writer.submit(self.waiting.pop(0))


class Bench:
    """A hub with everything around it, driven by hand."""

    def __init__(self, disk: MemoryDisk | None = None, **options: int) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        journal = Journal.create(self.disk, LAYOUT, data_id=bytes(16), segment_bytes=1 << 16)
        self.now = 1_000_000_000
        self.turns = 0
        self.logins: list[tuple[LoginRequest, Answer]] = []
        self.failures: list[Exception] = []
        self.notices: list[str] = []
        inline = InlineWriter(journal, on_durable=self.durable, on_failure=self.failed)
        self.writer = SlowWriter(inline)
        self.hub = Hub(
            Broker(State()),
            self.writer,
            HubOptions(**options),
            clock=lambda: self.now,
            schedule=self.schedule,
            authenticate=lambda request, answer: self.logins.append((request, answer)),
            admit=lambda request: "",
            mechanisms=Mechanisms(Users("")),
        )
        self.hub.on_notice = self.notices.append
        self.hub.chunks = ContentReader(self.disk, LAYOUT)
        self.hub.request(Start(version="test"))
        self.run()

    def schedule(self) -> None:
        self.turns += 1

    def durable(self, lsn: int) -> None:
        self.hub.durable(lsn)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)
        self.hub.failed(error)

    def turn(self) -> None:
        """Run the turns that were asked for, and nothing on the disk."""
        while self.turns:
            self.turns -= 1
            self.hub.turn()

    def run(self) -> None:
        """Until nothing is left to do."""
        while self.turns or self.writer.waiting:
            self.turn()
            self.writer.write()

    def open(self, **options: Any) -> "Client":
        return Client(self, **options)

    def connect(self, user: str = "guest", **options: Any) -> "Client":
        client = self.open(**options)
        client.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        self.logins.pop()[1](user, "")
        self.run()
        assert client.transport.take().startswith(b"CONNECTED")
        return client


class Client:
    """One peer."""

    def __init__(self, bench: Bench, **options: Any) -> None:
        self.bench = bench
        self.transport = Transport()
        stomp = StompOptions(**options)
        session = Session(bench.hub.broker, stomp, Caller("peer"), "server")
        self.peer = Peer(session, self.transport, Caller("peer"), "stomp", stomp.room)
        bench.hub.opened(self.peer)

    def send(self, data: bytes) -> None:
        self.bench.hub.received(self.peer, data)

    def do(self, data: bytes) -> bytes:
        """Send, run everything, and return what came back."""
        self.send(data)
        self.bench.run()
        return self.transport.take()

    def message(self, body: bytes, queue: str = "a", receipt: str = "") -> None:
        head = f"SEND\ndestination:/queue/{queue}\ncontent-length:{len(body)}\n"
        if receipt:
            head += f"receipt:{receipt}\n"
        self.send(head.encode() + b"\n" + body + b"\0")


def test_nothing_is_said_before_it_is_written() -> None:
    bench = Bench()
    client = bench.connect()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    bench.run()
    client.message(b"hello", receipt="r")
    bench.turn()
    assert client.transport.written == b""
    bench.writer.write()
    assert client.transport.written.startswith(b"RECEIPT\nreceipt-id:r\n\n\0MESSAGE\n")


def begin_direct() -> tuple[Bench, Client, Client]:
    """Return a sender and a receiver of a direct address, and their bench."""
    bench = Bench()
    table = (DistributionEntry(prefix="work"),)
    bench.hub.request(ChangeDistributions(table))
    receiver = bench.connect()
    receiver.do(b"SUBSCRIBE\nid:1\ndestination:work\n\n\0")
    return bench, bench.connect(), receiver


def send_direct(sender: Client) -> None:
    sender.send(b"SEND\ndestination:work\n\nhello\0")
    sender.bench.turn()


def test_decisions_about_direct_addresses_wait_for_the_next_tick() -> None:
    bench, sender, receiver = begin_direct()
    for _ in range(3):
        send_direct(sender)
        assert receiver.transport.take().startswith(b"MESSAGE\n")
    assert bench.writer.waiting == []
    bench.hub.tick()
    [block] = bench.writer.waiting
    kinds = [row[0] for row in block.rows]
    assert kinds == [FORWARDED, FORWARD_SETTLED] * 3
    # While a block is on its way to the disk, the next one grows.
    send_direct(sender)
    bench.hub.tick()
    assert len(bench.writer.waiting) == 1


def test_decisions_about_direct_addresses_leave_with_what_somebody_waits_for() -> None:
    bench, sender, _ = begin_direct()
    send_direct(sender)
    sender.message(b"hello", queue="a", receipt="r")
    bench.turn()
    [block] = bench.writer.waiting
    assert [row[0] for row in block.rows][:2] == [FORWARDED, FORWARD_SETTLED]
    bench.writer.write()
    assert sender.transport.take() == b"RECEIPT\nreceipt-id:r\n\n\0"


def test_very_many_decisions_about_direct_addresses_do_not_wait() -> None:
    bench, sender, _ = begin_direct()
    bench.hub.options = HubOptions(block_bytes=1000)
    for _ in range(10):
        send_direct(sender)
    assert bench.writer.waiting


def test_receipts_keep_their_order_over_blocks() -> None:
    bench = Bench()
    client = bench.connect()
    for number in range(20):
        client.message(bytes(100), receipt=str(number))
        bench.turn()
        # An answer that waits for nothing must not overtake those that wait.
        client.send(b"BEGIN\ntransaction:t%d\nreceipt:b%d\n\n\0" % (number, number))
        bench.turn()
        if number % 3 == 0:
            bench.writer.write()
    bench.run()
    receipts = client.transport.take().split(b"\0")[:-1]
    expected = [b"%b%d" % (kind, number) for number in range(20) for kind in (b"", b"b")]
    assert [receipt.partition(b"receipt-id:")[2].strip() for receipt in receipts] == expected


def test_while_a_block_is_written_the_next_one_fills() -> None:
    bench = Bench()
    client = bench.connect()
    client.message(b"1")
    bench.turn()
    assert len(bench.writer.waiting) == 1
    client.message(b"2")
    client.message(b"3")
    bench.turn()
    assert len(bench.writer.waiting) == 1
    bench.writer.write()
    assert not bench.writer.waiting
    assert bench.hub.status()["durable_lsn"] < bench.hub.broker.lsn
    # Input that was ready meanwhile goes into the same block.
    client.message(b"4")
    bench.turn()
    assert len(bench.writer.waiting) == 1
    bench.writer.write()
    assert bench.hub.status()["durable_lsn"] == bench.hub.broker.lsn


def test_a_full_block_is_closed_without_waiting() -> None:
    bench = Bench(block_bytes=1000)
    client = bench.connect()
    for _ in range(3):
        client.message(bytes(2000))
        bench.turn()
    assert len(bench.writer.waiting) == 3


def test_a_producer_faster_than_the_disk_is_paused_and_resumed() -> None:
    bench = Bench(max_pending_bytes=10_000)
    client = bench.connect()
    while client.transport.reading:
        assert bench.writer.pending_bytes < 50_000
        client.message(bytes(1000))
        bench.turn()
    assert bench.hub.status()["peers_paused"] == 1
    bench.run()
    assert bench.hub.status()["peers_paused"] == 0
    assert vars(client.transport)["reading"] is True


def test_a_peer_that_does_not_read_gets_no_more_than_its_room() -> None:
    bench = Bench()
    producer = bench.connect()
    for _ in range(50):
        producer.message(bytes(1000))
    client = bench.connect(room=5000)
    client.transport.stuck = 5000
    other = bench.connect()
    written = len(client.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"))
    assert 4000 < written < 8000
    assert other.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0").count(b"MESSAGE\n") > 40
    client.transport.stuck = 0
    bench.hub.drained(client.peer)
    producer.message(b"x")
    producer.message(b"y")
    bench.run()
    assert b"MESSAGE" in client.transport.take()


def test_room_used_up_by_an_ended_subscription_comes_back() -> None:
    bench = Bench()
    producer = bench.connect()
    for _ in range(50):
        producer.message(bytes(1000))
    bench.run()
    client = bench.connect(room=5000)
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    bench.turn()
    client.send(b"UNSUBSCRIBE\nid:1\n\n\0")
    bench.run()
    assert client.transport.take().count(b"MESSAGE\n") < 10
    assert client.do(b"SUBSCRIBE\nid:2\ndestination:/queue/a\n\n\0").count(b"MESSAGE\n") > 30


def test_a_peer_lost_while_its_login_is_checked_leaves_nothing() -> None:
    bench = Bench()
    client = bench.open()
    client.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0SEND\ndestination:/queue/a\n\nx\0")
    bench.hub.lost(client.peer)
    bench.logins.pop()[1]("guest", "")
    bench.run()
    assert bench.hub.status()["connections"] == 0
    assert bench.hub.status()["queues"] == 0
    assert client.transport.written == b""


def test_a_login_is_asked_for_once() -> None:
    bench = Bench()
    client = bench.open()
    client.send(b"CONNECT\naccept-version:1.2\nhost:h\nlogin:joe\npasscode:p\n\n\0")
    client.send(b"SEND\ndestination:/queue/a\n\nx\0")
    bench.hub.tick()
    assert [(request.login, request.passcode) for request, _ in bench.logins] == [("joe", "p")]
    bench.logins.pop()[1](None, "no")
    bench.run()
    assert client.transport.take().startswith(b"ERROR\nmessage:no; give")
    assert client.transport.closed_after_ms == StompOptions().die_delay_ms
    assert bench.hub.status()["queues"] == 0


def test_an_error_is_written_before_the_connection_is_closed() -> None:
    bench = Bench()
    client = bench.connect()
    client.message(b"x", receipt="1")
    client.send(b"BOGUS\nreceipt:2\n\n\0")
    bench.turn()
    assert client.transport.written == b""
    bench.run()
    assert client.transport.take().startswith(b"RECEIPT\nreceipt-id:1\n\n\0ERROR\n")
    assert client.transport.closed_after_ms is not None
    # What still comes is ignored, also when the connection goes.
    client.message(b"y")
    bench.hub.lost(client.peer)
    bench.run()
    assert bench.hub.status()["connections"] == 0
    assert bench.hub.status()["messages_ready"] == 1


@pytest.mark.parametrize("last", [b"DISCONNECT\nreceipt:2\n\n\0", b"BOGUS\nreceipt:2\n\n\0"])
def test_the_last_word_is_said_though_a_block_becomes_durable_before_it(last: bytes) -> None:
    bench = Bench()
    client = bench.connect()
    client.message(b"x", receipt="1")
    bench.turn()
    client.send(last)
    bench.writer.write()
    assert client.transport.take() == b"RECEIPT\nreceipt-id:1\n\n\0"
    assert client.transport.closed_after_ms is None
    bench.run()
    assert b"receipt-id:2\n" in client.transport.take()
    assert vars(client.transport)["closed_after_ms"] is not None


def test_a_lost_connection_returns_what_it_held_to_others() -> None:
    bench = Bench()
    first = bench.connect()
    first.send(b"SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0")
    first.message(b"x")
    bench.run()
    second = bench.connect()
    second.do(b"SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0")
    bench.hub.lost(first.peer)
    bench.hub.lost(first.peer)
    bench.run()
    assert b"redelivered:true\n" in second.transport.take()


class BrokenFile(MemoryFile):
    """A file whose syncs fail when the disk is broken."""

    def __init__(self, content: bytearray, disk: "BrokenDisk") -> None:
        super().__init__(content)
        self.disk = disk

    def fdatasync(self) -> None:
        if self.disk.is_broken:
            raise OSError(5, "Input/output error")


class BrokenDisk(MemoryDisk):
    """A disk that breaks on request."""

    is_broken = False

    def open_for_writing(self, name: str) -> MemoryFile:
        return BrokenFile(super().open_for_writing(name).content, self)


def test_after_a_failure_nothing_is_said_any_more() -> None:
    disk = BrokenDisk()
    bench = Bench(disk)
    client = bench.connect()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    bench.run()
    disk.is_broken = True
    client.message(b"x", receipt="1")
    answers: list[int | Refusal] = []
    bench.hub.request(CreateAddress("b", ("anycast",)), answers.append)
    bench.run()
    assert [type(failure) for failure in bench.failures] == [JournalFailed]
    client.message(b"y", receipt="2")
    client.send(b"BEGIN\ntransaction:t\nreceipt:3\n\n\0")
    bench.hub.tick()
    bench.hub.drained(client.peer)
    bench.hub.lost(client.peer)
    bench.hub.durable(bench.hub.broker.lsn)
    bench.run()
    assert client.transport.written == b""
    assert answers == []


def test_a_full_disk_blocks_messages_only() -> None:
    bench = Bench()
    client = bench.connect()
    client.send(b"SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0")
    client.message(b"x")
    bench.run()
    assert b"ack:1-" in client.transport.take()
    bench.hub.disk_full("no room")
    message = next(iter(bench.hub.broker.state.queue_by_name["a"].entries))
    assert client.do(b"ACK\nid:1-%d\nreceipt:1\n\n\0" % message).startswith(b"RECEIPT")
    other = bench.connect()
    other.message(b"y", receipt="1")
    bench.run()
    assert (other.transport.take(), other.transport.reading) == (b"", False)
    assert client.transport.reading
    [row] = bench.hub.status()["blocked"]
    assert (row["why"], row["address"]) == ("no room", "a")
    bench.hub.disk_full("")
    bench.run()
    assert other.transport.take().startswith(b"RECEIPT")
    assert other.transport.reading


def test_a_request_is_answered_when_it_is_durable() -> None:
    bench = Bench()
    answers: list[int | Refusal] = []
    bench.hub.request(CreateAddress("a", ("anycast",)), answers.append)
    bench.turn()
    assert answers == []
    bench.run()
    assert answers == [bench.hub.broker.lsn]
    bench.hub.request(DeleteAddress("nowhere"), answers.append)
    assert isinstance(answers[1], Refusal)


def test_a_stop_is_the_last_event_and_what_was_receipted_is_there() -> None:
    bench = Bench()
    client = bench.connect()
    client.message(b"kept", receipt="1")
    stopped: list[int | Refusal] = []
    bench.hub.stop(stopped.append)
    client.message(b"too late", receipt="2")
    bench.run()
    assert stopped == [bench.hub.broker.lsn]
    assert client.transport.written.count(b"RECEIPT") == 1
    state = State()
    assert fold(read_blocks(bench.disk, LAYOUT), state) == bench.hub.broker.lsn
    assert [e.message.body for e in state.queue_by_name["a"].entries.values()] == [b"kept"]
    assert not state.connections


def test_an_idle_broker_marks_its_journal_once() -> None:
    bench = Bench(idle_mark_us=1000)
    bench.now += 1001
    bench.hub.tick()
    bench.hub.tick()
    assert bench.writer.marks == 1
    bench.connect()
    bench.now += 1001
    bench.hub.tick()
    assert bench.writer.marks == 2


def test_heart_beats_are_sent_and_missed_ones_end_the_connection() -> None:
    bench = Bench()
    client = bench.open(heart_beat_send_ms=1000, heart_beat_receive_ms=1000)
    client.send(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:1000,1000\n\n\0")
    bench.logins.pop()[1]("guest", "")
    bench.run()
    client.transport.take()
    for _ in range(15):
        bench.now += 100_000
        bench.hub.tick()
        bench.run()
    assert client.transport.take() == b"\n"
    bench.now += 1_000_000
    bench.hub.tick()
    bench.run()
    assert b"nothing was heard" in client.transport.take()
    assert bench.hub.status()["connections"] == 0


@pytest.mark.parametrize("step", [30 * 86_400_000_000, -86_400_000_000])
@pytest.mark.parametrize("heard_since", [False, True])
def test_a_clock_that_was_set_ends_no_connection(step: int, heard_since: bool) -> None:
    bench = Bench()
    bench.now += 40 * 86_400_000_000
    client = bench.open(heart_beat_send_ms=1000, heart_beat_receive_ms=1000)
    client.send(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:1000,1000\n\n\0")
    bench.logins.pop()[1]("guest", "")
    bench.run()
    client.transport.take()
    bench.now += step
    if heard_since:
        client.send(b"\n")
    bench.hub.clock_stepped(step)
    bench.run()
    silent_ms = 0
    while not (said := client.transport.take()).startswith(b"ERROR"):
        assert said in (b"", b"\n"), said
        assert bench.hub.status()["connections"] == 1
        bench.now += 100_000
        silent_ms += 100
        bench.hub.tick()
        bench.run()
    assert 2000 <= silent_ms <= 2200, "the silence that was agreed on, twice"


def test_the_time_to_log_in_begins_anew_when_the_clock_was_set() -> None:
    bench = Bench()
    client = bench.open()
    bench.now += 86_400_000_000
    bench.hub.clock_stepped(86_400_000_000)
    bench.hub.tick()
    bench.run()
    assert client.transport.take() == b""
    bench.now += 10_000_000
    bench.hub.tick()
    bench.run()
    assert b"not connected within" in client.transport.take()


def test_who_is_not_read_may_log_in_later() -> None:
    """A peer is not blamed for input that a broker with a slow disk left unread."""
    bench = Bench(max_pending_bytes=10_000)
    bench.connect().message(bytes(20_000))
    bench.turn()
    late = bench.open()
    late.send(b"CONN")
    assert not late.transport.reading
    for _ in range(3):
        bench.now += 10_000_000
        bench.hub.tick()
        bench.turn()
    bench.run()
    assert late.transport.reading
    bench.hub.tick()
    late.send(b"ECT\nlogin:u\n\n\0")
    bench.logins.pop()[1]("u", "")
    bench.run()
    assert late.transport.take().startswith(b"CONNECTED")


def test_messages_expire_by_the_scan() -> None:
    bench = Bench(expiry_scan_us=1_000_000)
    client = bench.connect()
    client.send(b"SEND\ndestination:/queue/a\nexpires:%d\n\nx\0" % (bench.now // 1000 + 10))
    bench.run()
    assert bench.hub.status()["messages_ready"] == 1
    bench.now += 2_000_000
    bench.hub.tick()
    bench.run()
    assert bench.hub.status()["messages_ready"] == 0


@pytest.mark.parametrize("size", [1, 7, 64])
def test_any_cut_of_the_input_gives_the_same_output(size: int) -> None:
    bench = Bench()
    client = bench.connect()
    data = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:s\n\n\0" + b"".join(
        b"SEND\ndestination:/queue/a\nreceipt:%d\n\nbody\0\n" % number for number in range(10)
    )
    for start in range(0, len(data), size):
        client.send(data[start : start + size])
        bench.run()
    output = client.transport.take()
    assert output.count(b"RECEIPT\n") == 11
    assert output.count(b"MESSAGE\n") == 10
