"""Histories as data directories: the events of a world, on disk as a broker would leave them.

`some_history` has a bit of everything that a broker decides; `write_history` writes any events.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from daybook.engine import commands as c
from daybook.engine.facts import definitions, reasons
from daybook.engine.facts.rows import pack_wide
from daybook.engine.facts.settlements import BY_SETTLEMENT, FAILED, UNMETERED
from daybook.engine.messages.headers import build
from daybook.engine.settings.setting_keys import Matches
from daybook.journal.blocks.batch import Batch
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.paging.tables.layout import LAYOUT
from tests.support.topology import create_queue
from tests.support.world import SECOND, Event, World

HISTORY_ID = b"history of tests"
BLOCK_EVENTS = 200

SETTINGS: Matches = {
    "#": {
        "max-delivery-attempts": 3, "dead-letter-address": "dead", "expiry-address": "late",
        "id-cache-size": 20,
    },
    "mails": {"redelivery-delay": 300},
    "hasty": {"max-delivery-attempts": 1, "dead-letter-address": ""},
}  # fmt: skip
ANYCAST = ("orders", "mails", "größe/kg", "hasty", "a+b")
MULTICAST = ("news", "prices")
STOCKS = ("apples", "pears", "plums")


def batch_of(events: Sequence[Event]) -> Batch:
    """The batch that becomes a block of these events."""
    strings = [(event.detail, event.headers, event.body) for event in events]
    rows = [
        pack_wide(event.row, *map(len, texts)) for event, texts in zip(events, strings, strict=True)
    ]
    heaps = [[text for text in heap if text] for heap in zip(*strings, strict=True)]
    return Batch(events[0].lsn, rows, heaps, events[-1].row[-1])


def write_history(
    directory: Path,
    events: Sequence[Event],
    *,
    cuts: Iterable[int] = (),
    segment_bytes: int = 1 << 16,
    device_block_bytes: int = 0,
    data_id: bytes = b"",
) -> Path:
    """Write events, from the first of a journal on, as a data directory; return the directory.

    Blocks end behind these numbers of events, every BLOCK_EVENTS if none are given. Segments that
    are full are sealed; the last one is not, as if its broker had been killed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    data_id = data_id or HISTORY_ID
    (directory / DATA_ID).write_text(data_id.hex())
    # In memory, for the sync of each block would take most of a test's time.
    disk = MemoryDisk()
    journal = Journal.create(
        disk,
        LAYOUT,
        data_id=data_id,
        segment_bytes=segment_bytes,
        device_block_bytes=device_block_bytes,
    )
    chosen = {cut for cut in cuts if 0 < cut < len(events)}
    ends = sorted(chosen or range(BLOCK_EVENTS, len(events), BLOCK_EVENTS))
    for start, end in zip([0, *ends], [*ends, len(events)], strict=True):
        if start < end:
            journal.append(batch_of(events[start:end]))
    journal.close()
    (directory / JOURNAL).mkdir(exist_ok=True)
    for name, content in disk.files.items():
        (directory / JOURNAL / name).write_bytes(content)
    return directory


def some_history(seed: int, messages: int) -> list[Event]:
    """Return the events of a broker that received so many messages; equal for equal seeds.

    Queues of several addresses, multicast, dead letters, expiry, transactions, redelivery, large
    and non-persistent messages, duplicates, names with anything in them, and restarts.
    """
    return played(seed, messages, World())


def played(seed: int, messages: int, world: World) -> list[Event]:
    """Do as `some_history` in a world."""
    return _Play(seed, world).play(messages)


class _Play:
    """Clients with random actions."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed)
        self.world = world
        self.sent = 0
        self.deeds = (
            [self.send] * 30 + [self.acknowledge] * 26 + [self.reject] * 4 + [self.detach]
            + [self.attach] * 2 + [self.send_large] + [self.transact] * 2 + [self.expire]
            + [self.close] + [self.purge]
        )  # fmt: skip

    def play(self, messages: int) -> list[Event]:
        world = self.world
        world.ok(c.ChangeSettings(SETTINGS))
        for address in MULTICAST:
            world.ok(c.CreateAddress(address, (definitions.MULTICAST,)))
        world.ok(create_queue("cheap", "prices", definitions.MULTICAST, filter="kind=small"))
        for name in ("archive", "press"):
            world.ok(create_queue(name, "news", definitions.MULTICAST))
        restarts = [messages // 3, 2 * messages // 3, messages + 1]
        self.connect()
        while self.sent < messages:
            if self.sent > restarts[0]:
                del restarts[0]
                self.restart()
            world.now += self.random.randrange(5_000)
            self.random.choice(self.deeds)()
            world.deliveries.clear()
        world.turn()
        return world.journal

    def connect(self) -> None:
        for number in range(2):
            connection = self.world.ok(
                c.OpenConnection("stomp", f"10.0.0.{number}:61613", f"user{number}")
            )
            for address in self.random.sample(ANYCAST, 3):
                self.world.ok(c.Attach(connection, address, credit_messages=40))
            self.world.ok(
                c.Attach(connection, "news", durable_name=f"n{number}", credit_messages=40)
            )

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.world.ok(c.Stop())
        self.world.restart()
        self.connect()

    def attempt(self, command: c.Command) -> None:
        """Send a command that may be refused."""
        self.world.handle(command)
        self.world.turn()

    def connection(self) -> int:
        return self.random.choice(sorted(self.world.state.connections))

    def message(self, connection: int) -> c.Send:
        self.sent += 1
        pick = self.random
        stock = pick.choice(STOCKS)
        headers = [("kind", pick.choice(("big", "small"))), ("stock", stock)]
        if pick.random() < 0.1:
            headers += [("path:to\\it", "a:b\nc\r\\"), ("kind", "twice"), ("ü", "ß")]
        name = pick.choice(ANYCAST * 3 + MULTICAST)
        in_time = pick.random() < 0.9
        return c.Send(
            connection, name, build(headers if pick.random() < 0.9 else []),
            b'{"stock":"%s","number":%d}' % (stock.encode(), self.sent) * pick.randrange(4),
            priority=4 if in_time else pick.randrange(10),
            persistent=pick.random() < 0.8,
            expires=0 if in_time else self.world.now // 1000 + pick.randrange(200),
            duplicate_id=str(pick.randrange(40)) if pick.random() < 0.1 else "",
        )  # fmt: skip

    def send(self) -> None:
        self.attempt(self.message(self.connection()))

    def send_large(self) -> None:
        command = self.message(self.connection())
        lsn = 0
        for _ in range(self.random.randrange(1, 4)):
            answer = self.world.handle(c.Chunk(command, piece := self.random.randbytes(900), lsn))
            if not isinstance(answer, int):
                return
            lsn = answer
            command.chunks += (lsn,)
            command.body_bytes += len(piece)
        command.body = b""
        self.attempt(command)

    def settling(self) -> tuple[int, int] | None:
        """Return a consumer and a message in flight to it, if there is any."""
        state = self.world.state
        busy = [number for number, consumer in state.consumers.items() if consumer.unacked]
        if not busy:
            return None
        consumer = self.random.choice(sorted(busy))
        unacked = list(state.consumers[consumer].unacked)
        return consumer, unacked[min(len(unacked) - 1, self.random.randrange(8))]

    def acknowledge(self) -> None:
        if (found := self.settling()) is not None:
            cumulative = self.random.random() < 0.05
            self.attempt(c.Settle(*found, cumulative))

    def reject(self) -> None:
        if (found := self.settling()) is not None:
            self.attempt(c.Settle(*found, outcome=FAILED))

    def transact(self) -> None:
        connection = self.connection()
        self.attempt(c.Begin(connection, "t"))
        for _ in range(self.random.randrange(1, 4)):
            command = self.message(connection)
            command.transaction = "t"
            self.attempt(command)
        found = self.settling()
        if found is not None:
            self.attempt(c.Settle(*found, False, "t"))
        end = c.Commit if self.random.random() < 0.7 else c.Rollback
        self.attempt(end(connection, "t"))

    def attach(self) -> None:
        address = self.random.choice(ANYCAST + MULTICAST)
        self.attempt(
            c.Attach(
                self.connection(), address, credit_messages=self.random.randrange(1, 40),
                acknowledges=(acknowledges := self.random.random() < 0.7),
                credit_policy=BY_SETTLEMENT if acknowledges else UNMETERED,
                filter="kind=big" if self.random.random() < 0.2 else "",
            )
        )  # fmt: skip

    def detach(self) -> None:
        consumers = sorted(self.world.state.consumers)
        if len(consumers) > 8:
            self.attempt(c.Detach(self.random.choice(consumers)))

    def close(self) -> None:
        if self.random.random() < 0.2:
            reason = self.random.choice((reasons.CLOSED, reasons.DISCONNECTED))
            self.attempt(c.CloseConnection(self.connection(), reason))
            self.connect()

    def expire(self) -> None:
        self.world.now += SECOND // 5
        self.attempt(c.ExpireDue())
        self.attempt(c.DeliverDue())

    def purge(self) -> None:
        if self.random.random() < 0.1:
            self.attempt(c.PurgeQueue(self.random.choice(("archive", "orders", "late"))))


def twice_delivered(data: Path) -> tuple[Path, int]:
    """Write a history of a message that was delivered twice, where the first delivery did not
    count; return it with the message."""
    world = World()
    world.ok(create_queue("orders", "orders"))
    world.send("orders", b"x")
    [message] = world.queue("orders").entries
    for _ in range(2):
        connection = world.connect()
        world.attach(connection, "orders")
        world.dispatch()
        world.close(connection)
    return write_history(data, world.journal), message
