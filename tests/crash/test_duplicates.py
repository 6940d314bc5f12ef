"""Exactly once on the real process: SIGKILL behind any answer, and whoever does not know resends.

A producer whose connection broke sends again whatever it has no answer for, with the ids that it
had: plain messages by themselves, transactions whole. In the end every body is there once, in the
order of its producer, whatever was killed when.
"""

import random
import threading
from collections import deque
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import BASE, JOURNAL
from daybook.journal.disk import RealDisk
from tests.crash.campaign import CONFIG, SETTINGS
from tests.interop.wire import Closed, Frame, Wire, frame
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.crash

QUEUE: Final = "/queue/jobs"
WINDOW: Final = 20
ANSWERS: Final = (0, 0, WINDOW, 10 * WINDOW, 50 * WINDOW)
"""About how many answers come between a start and the kill: none, before all that is sent again has
one, and in the middle of new jobs."""


def send(serial: int, number: int = 0, *, transaction: str = "", receipt: str = "") -> bytes:
    """A SEND of part `number` of job `serial`; the first part has its id."""
    headers = {"destination": QUEUE}
    if transaction:
        headers["transaction"] = transaction
    if receipt:
        headers["receipt"] = receipt
    made = frame("SEND", b"%d %d" % (serial, number), **headers)
    return made if number else made.replace(b"SEND\n", b"SEND\n_AMQ_DUPL_ID:job-%d\n" % serial, 1)


class Producer:
    """Sends jobs, each a message or a transaction, until the broker is gone, and then continues."""

    def __init__(self, seed: int) -> None:
        self.random: Final = random.Random(seed)
        # Parts without an answer, in order: by job how many parts, 0 for a plain message.
        self.unanswered: Final[deque[tuple[int, int]]] = deque()
        self.expected: Final[list[bytes]] = []
        self.serial = 0
        self.duplicates = 0
        self.answers = 0
        self.wrong = ""
        self.is_done = False

    def run(self, port: int) -> None:
        """Work until the broker is gone, or until everything is answered when `is_done`."""
        try:
            while not self._is_finished():
                with Wire(port) as wire:
                    wire.connect()
                    self._work(wire)
        except (Closed, OSError):
            return

    def has_heard(self, answers: int) -> bool:
        """Whether so many answers came, or a wrong one."""
        return self.answers >= answers or self.wrong != ""

    def _is_finished(self) -> bool:
        return self.is_done and not self.unanswered

    def _work(self, wire: Wire) -> None:
        """Send again what has no answer, one after the other, then new jobs; an ERROR is the end.

        So a job that is refused takes no other with it.
        """
        while self.unanswered:
            wire.write(self._frames(*self.unanswered[0]))
            if self._hear(wire).command == "ERROR":
                return
        while not self._is_finished():
            self._fill(wire)
            self._hear(wire)

    def _fill(self, wire: Wire) -> None:
        while len(self.unanswered) < WINDOW and not self.is_done:
            self.serial += 1
            parts = self.random.choice((0, 0, 0, 1, 3))
            self.expected.extend(b"%d %d" % (self.serial, n) for n in range(max(1, parts)))
            self.unanswered.append((self.serial, parts))
            wire.write(self._frames(self.serial, parts))

    def _frames(self, serial: int, parts: int) -> bytes:
        if not parts:
            return send(serial, receipt=str(serial))
        name = f"t{serial}"
        return b"".join(
            (
                frame("BEGIN", transaction=name),
                *(send(serial, number, transaction=name) for number in range(parts)),
                frame("COMMIT", transaction=name, receipt=serial),
            )
        )

    def _hear(self, wire: Wire) -> Frame:
        """Take the answer to the oldest job."""
        answer = wire.read()
        self.answers += 1
        serial, parts = self.unanswered[0]
        if answer.command == "ERROR":
            self.duplicates += 1
            if answer.headers.get("code") != "duplicate-id" or not parts:
                self.wrong = f"job {serial} was answered by {answer}"
        if answer.headers.get("receipt-id") != str(serial):
            self.wrong = f"{answer} came instead of what job {serial} waits for"
        self.unanswered.popleft()
        return answer


def test_every_message_is_there_once(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    producer = Producer(seed)
    with BrokerProcess(tmp_path / "data", settings=SETTINGS, config=CONFIG) as broker:
        for _ in range(kills):
            broker.start()
            thread = threading.Thread(target=producer.run, args=(broker.port,), daemon=True)
            thread.start()
            # So many answers, not so many seconds: a slow machine is killed in the middle as well.
            # None means before anything was sent again, perhaps before anybody logged in.
            wanted = producer.answers + chance.choice(ANSWERS) + chance.randrange(WINDOW)
            wait_for(partial(producer.has_heard, wanted), f"{wanted} answers")
            assert broker.is_running, broker.log_text()
            broker.kill()
            thread.join(60)
            assert not thread.is_alive()
            assert not producer.wrong, producer.wrong
        broker.start()
        # Whatever was killed when, there is a job to look for.
        thread = threading.Thread(target=producer.run, args=(broker.port,), daemon=True)
        thread.start()
        wait_for(lambda: producer.serial, "a job")
        producer.is_done = True
        thread.join(60)
        assert not thread.is_alive()
        assert not producer.wrong, producer.wrong
        assert not producer.unanswered
        check_all_is_known(broker, producer.serial)
        assert drained(broker, len(producer.expected)) == producer.expected
        assert broker.stop() == 0, broker.log_text()
        print(f"{producer.serial} jobs, {producer.duplicates} refused as duplicates")
        disk = RealDisk(broker.directory / JOURNAL)
        verdict = verify_data(disk, lambda done: None, base=broker.directory / BASE)
        assert verdict.ok, (verdict.faults, verdict.wrong)
        assert verdict.digests_compared


def check_all_is_known(broker: BrokerProcess, last: int) -> None:
    """Sent once more, nothing of what the address remembers is taken."""
    with Wire(broker.port) as wire:
        wire.connect()
        serials = range(max(1, last - 500), last + 1)
        wire.write(b"".join(send(serial, receipt=str(serial)) for serial in serials))
        for serial in serials:
            assert wire.expect("RECEIPT").headers["receipt-id"] == str(serial)
        wire.send("BEGIN", transaction="again")
        wire.write(send(last, transaction="again"))
        wire.send("COMMIT", transaction="again")
        assert wire.expect("ERROR").headers["code"] == "duplicate-id"


def drained(broker: BrokerProcess, count: int) -> list[bytes]:
    """All bodies in the queue, which must be so many and no more."""
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", destination=QUEUE, id=1, ack="client")
        messages = [wire.expect("MESSAGE") for _ in range(count)]
        wire.send("ACK", id=messages[-1].headers["ack"], receipt="all")
        assert wire.read().headers.get("receipt-id") == "all", "there were more"
    return [message.body for message in messages]
