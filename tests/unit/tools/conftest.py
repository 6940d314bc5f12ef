"""A data directory with a history of everything the tools tell about, made without a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.engine import commands
from daybook.engine.broker import Broker
from daybook.engine.facts.settlements import FAILED
from daybook.engine.messages.headers import build
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.paging.tables.layout import LAYOUT
from tests.support.topology import create_queue

SECOND = 1_000_000
BEGIN = 1_763_640_000 * SECOND  # 2025-11-20T12:00:00Z
SETTINGS: dict[str, dict[str, str | int | bool | float]] = {
    "#": {"dead-letter-address": "DLQ", "expiry-address": "ExpiryQueue"},
    "orders": {"max-delivery-attempts": 2},
}


class Pen:
    """Writes a history: a broker whose clock goes a second ahead with every command."""

    def __init__(self, data: Path, segment_bytes: int = 8192) -> None:
        self.data = data
        self.disk = RealDisk(data / "journal")
        self.disk.create()
        self.journal = Journal.create(
            self.disk, LAYOUT, data_id=bytes(range(16)), segment_bytes=segment_bytes
        )
        self.broker = Broker(State())
        self.now = BEGIN

    def do(self, command: commands.Command) -> int:
        """Carry out a command that must not be refused, dispatch, and write the block."""
        self.now += SECOND
        answer = self.broker.handle(command, self.now)
        assert not isinstance(answer, Refusal), answer
        self.broker.dispatch(self.now)
        self.write()
        return answer

    def write(self) -> None:
        """Write what was decided as a block."""
        batch = self.broker.take()
        if batch is not None:
            self.journal.append(batch)

    def connect(self, user: str) -> int:
        return self.do(commands.OpenConnection("STOMP 1.2", f"peer-of-{user}", user))

    def send(self, connection: int, address: str, body: bytes, **options: object) -> int:
        """Send a message; returns its id."""
        headers = build([("destination", f"/queue/{address}"), ("n", body.decode("latin-1"))])
        self.do(
            commands.Send(connection, address, headers, body, **options)  # type: ignore[arg-type]
        )
        return max(id for queue in self.broker.state.queues.values() for id in queue.entries)

    def close(self) -> None:
        self.journal.mark(self.now)
        self.journal.close()


class History(dict[str, int]):
    """Ids of what the history is about, by what happens to it, and where it lies."""

    data: Path
    last_lsn: int


def write_history(data: Path) -> History:
    """Write a history: see the keys for what it has."""
    pen = Pen(data)
    ids = History()
    ids.data = data
    pen.do(commands.Start(version="1"))
    pen.do(commands.ChangeSettings(SETTINGS))
    pen.do(create_queue("audit", "orders.copy", "multicast"))
    pen.do(create_queue("ledger", "orders.copy", "multicast"))
    alice, bob = pen.connect("alice"), pen.connect("bob")
    ids["alice"], ids["bob"] = alice, bob
    ids["acknowledged"] = pen.send(alice, "orders", b"one")
    ids["consumer"] = pen.do(commands.Attach(bob, "orders", subscription="sub-1"))
    pen.do(commands.Settle(ids["consumer"], ids["acknowledged"]))
    ids["dead"] = pen.send(alice, "orders", b"two")
    for _ in range(2):
        pen.do(commands.Settle(ids["consumer"], ids["dead"], outcome=FAILED))
    ids["copy"] = max(id for queue in pen.broker.state.queues.values() for id in queue.entries)
    ids["several"] = pen.send(alice, "orders.copy", b"three", routing_type="multicast")
    pen.do(commands.Begin(alice, "tx-1"))
    pen.do(commands.Send(alice, "stock", b"", b"four", transaction="tx-1"))
    ids["committed"] = pen.do(commands.Commit(alice, "tx-1")) - 1
    ids["transient"] = pen.send(alice, "stock", b"five", persistent=False)
    ids["in_flight"] = pen.send(alice, "orders", b"six")
    for number in range(60):
        # Enough to fill several segments, so that footers take part.
        last = pen.send(alice, "bulk", bytes(f"{number:04}", "ascii") * 200)
    ids["bulk"] = last
    pen.do(commands.Start(version="2"))
    carol = pen.connect("carol")
    ids["expired"] = pen.send(carol, "orders", b"seven", expires=pen.now // 1000 + 1)
    pen.now += 60 * SECOND
    pen.do(commands.ExpireDue())
    pen.do(commands.PurgeQueue("bulk"))
    pen.do(commands.Stop())
    ids["stopped"] = pen.broker.lsn
    pen.do(commands.Start(version="3"))
    ids.last_lsn = pen.broker.lsn
    pen.close()
    return ids


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """The history, to be read only."""
    return write_history(tmp_path_factory.mktemp("history") / "data")


@pytest.fixture
def pen(tmp_path: Path) -> Iterator[Pen]:
    """To write a history of one's own."""
    made = Pen(tmp_path / "data")
    yield made
    made.journal.close()
