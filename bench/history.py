"""Long histories for measuring their readers: the real engine and journal, without sockets.

Fault model: an unfinished history is written again. Files are not synced: after a power cut a
history can be written again.
"""

import os
import random
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from bench.load.frames import LoadError, make_body
from daybook.engine import commands as c
from daybook.engine.broker import Broker
from daybook.engine.facts.settlements import FAILED
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk, RealFile
from daybook.journal.journal import SEGMENT_BYTES, Journal
from daybook.paging.tables.layout import LAYOUT

HISTORY_ID: Final = b"bench of history"
QUEUES: Final = 200
BODY_BYTES: Final = 256
BODIES: Final = 20_000
"""Different bodies; no two blocks that are near each other have the same one."""
TURN_MESSAGES: Final = 500
"""Sent between two blocks, which then have about as many events as those of a busy broker."""
IN_FLIGHT: Final = 1000
REJECTED: Final = 0.02
"""Share of deliveries that fail once."""
POISONOUS: Final = 500
"""One in so many messages is rejected until it is a dead letter."""
ATTEMPTS: Final = 5
TURN_MICROSECONDS: Final = 5000
MANY: Final = 1 << 40
DONE: Final = "events"


class UnsyncedFile(RealFile):
    """A file whose content is durable when the system finds time."""

    def fdatasync(self) -> None:
        """Nothing."""


class UnsyncedDisk(RealDisk):
    """A directory of such files."""

    def open_for_writing(self, name: str) -> UnsyncedFile:
        """Open a file for reading and writing."""
        return UnsyncedFile(os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))

    def sync_directory(self) -> None:
        """Nothing."""


class Turning(Protocol):
    """A writer of its own decisions to a journal, by turns."""

    def turn(self) -> None:
        """Decide something, and write it down."""


class Traffic:
    """Producers, and a consumer for each queue, whose broker writes a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal: Final = journal
        self._broker: Final = Broker(State())
        self._chance: Final = random.Random(1)
        self._now = 1_700_000_000_000_000
        self._flying: Final[deque[tuple[int, int]]] = deque()
        self._bodies: Final = [
            make_body(number % 4, number, BODY_BYTES, self._chance) for number in range(BODIES)
        ]
        self._sent = 0
        self._queues: Final = [f"queue.{number}" for number in range(QUEUES)]
        self._weights: Final = [1 / number for number in range(1, QUEUES + 1)]
        settings: dict[str, str | int | bool | float] = {
            "max-delivery-attempts": ATTEMPTS, "dead-letter-address": "dead",
        }  # fmt: skip
        self._do(c.ChangeSettings({"#": settings}))
        self._peers: Final = [
            self._do(c.OpenConnection("stomp", f"10.0.0.{number}:61613", "bench", room=MANY))
            for number in range(5)
        ]
        for queue in self._queues:
            self._do(c.Attach(self._peers[4], queue, credit_messages=MANY, credit_bytes=MANY))

    def turn(self) -> None:
        """Send some, settle old deliveries, and write the decisions."""
        for queue in self._chance.choices(self._queues, self._weights, k=TURN_MESSAGES):
            body = self._bodies[self._sent % BODIES]
            self._do(c.Send(self._peers[self._sent % 4], queue, b"", body))
            self._sent += 1
        while len(self._flying) > IN_FLIGHT:
            consumer, message = self._flying.popleft()
            if message % POISONOUS == 0 or self._chance.random() < REJECTED:
                self._do(c.Settle(consumer, message, outcome=FAILED))
            else:
                self._do(c.Settle(consumer, message))
        self._now += TURN_MICROSECONDS
        self._broker.dispatch(self._now)
        self._flying.extend(
            (effect[0].id, effect[1].id)
            for effect in self._broker.effects
            if isinstance(effect, tuple)
        )
        self._broker.effects.clear()
        batch = self._broker.take()
        assert batch is not None
        self._journal.append(batch)

    def _do(self, command: c.Command) -> int:
        answer = self._broker.handle(command, self._now)
        if isinstance(answer, Refusal):
            raise LoadError(f"the engine refused a command of the benchmark: {answer.text}")
        return answer


def make_history(directory: Path, events: int) -> Path:
    """A data directory with at least so many events; one that is there is used again."""
    done = directory / DONE
    if done.exists() and int(done.read_text()) >= events:
        return directory
    done.write_text(str(write_history(directory, events, Traffic)))
    return directory


def write_history(
    directory: Path,
    events: int,
    made_by: Callable[[Journal], Turning],
    segment_bytes: int = SEGMENT_BYTES,
) -> int:
    """Make a data directory with at least so many events in place of what is there; return how
    many there are."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / DATA_ID).write_text(HISTORY_ID.hex())
    disk = UnsyncedDisk(directory / JOURNAL)
    disk.create()
    journal = Journal.create(disk, LAYOUT, data_id=HISTORY_ID, segment_bytes=segment_bytes)
    writer = made_by(journal)
    while journal.durable_lsn < events:
        writer.turn()
    journal.close()
    return journal.durable_lsn
