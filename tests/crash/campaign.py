"""A campaign of crashes on one data directory: work, kill, restart, and in the end the proof."""

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.engine.state.invariants import check
from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import BASE, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.recovery.readonly import newest_state
from daybook.tools.drills.clients.client import Connect, Delivery, Receipt
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.workload import (
    INPUT,
    ORDERS,
    OUTPUT,
    STAFF,
    Staff,
    Worker,
    begin_work,
    end_work,
)
from tests.support.process import BrokerProcess, wait_for

CONFIG: Final = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
"""
SETTINGS: Final = ("journal.segment-bytes=256KiB", "journal.idle-mark-delay=100")
"""Small segments, so that crashes meet the change from one to the next."""

KILL_AFTER_SECONDS: Final = (0.02, 0.9)
KILL_IN_START_SECONDS: Final = (0.05, 0.6)


class Campaign:
    """Rounds of work that each end in a crash; `finish` drains and checks everything."""

    settings: tuple[str, ...] = SETTINGS
    config = CONFIG
    listen: tuple[str, ...] = ("stomp://127.0.0.1:0",)

    def __init__(self, directory: Path, connect: Connect, seed: int, *, processes: int = 3) -> None:
        self.broker: Final = BrokerProcess(
            directory,
            settings=self.settings,
            config=self.config,
            listen=self.listen,
            processes=processes,
        )
        self.connect: Final = connect
        self.ledger: Final = Ledger()
        self.random: Final = random.Random(seed)
        self.seed: Final = seed
        self.rounds = 0
        self.starts_to_kill = 0.2
        self.last_lsn = 0

    def round(self) -> None:
        """Start, let clients work for a random while, kill -9, and look at what is on disk."""
        self.rounds += 1
        if self.random.random() < self.starts_to_kill:
            self.kill_in_start()
        self.broker.start()
        name = f"r{self.rounds}"
        workers = begin_work(self.ledger, self.connect, self.broker.port, name, self.staff())
        try:
            self.let_work(workers)
            assert self.broker.is_running, self.broker.log_text()
        finally:
            self.strike()
            end_work(workers)
        self.after_crash()
        assert not self.ledger.violations, self.report()

    def staff(self) -> Staff:
        """The clients of the next round."""
        return STAFF

    def let_work(self, workers: list[Worker]) -> None:
        """Wait until it is time to strike."""
        if self.rounds == 1:
            self.await_receipts()
        # The moment of the kill is what is random here; nothing depends on how long it is.
        workers[0].thread.join(self.random.uniform(*KILL_AFTER_SECONDS))

    def await_receipts(self) -> None:
        """On a busy machine clients may need longer than until the first kill."""
        wait_for(lambda: self.ledger.receipted, "the first receipt")

    def kill_in_start(self) -> None:
        """A start that does not get far."""
        self.broker.launch()
        with suppress(subprocess.TimeoutExpired):
            self.broker.process.wait(self.random.uniform(*KILL_IN_START_SECONDS))
        assert self.broker.is_running, self.broker.log_text()
        self.strike()
        self.after_crash()

    def strike(self) -> None:
        """End the broker."""
        self.broker.kill()

    def after_crash(self) -> None:
        """Between the crash and the next start."""
        self.check_journal(self.broker.directory)

    def check_journal(self, directory: Path) -> int:
        """The journal on disk folds, and to a state that can be; return how many messages wait."""
        if not (directory / JOURNAL).is_dir() or not segment_names(RealDisk(directory / JOURNAL)):
            assert not self.last_lsn, "the journal is gone"
            return 0
        with newest_state(directory) as (state, self.last_lsn):
            assert check(state) == []
            return sum(queue.message_count for queue in state.queues.values())

    def finish(self) -> None:
        """Drain every queue with a client, stop cleanly, and hold ledger and journal together."""
        left = self.check_journal(self.broker.directory)
        self.broker.start()
        client = self.connect(self.broker.port)
        for number, destination in enumerate((ORDERS, INPUT, OUTPUT)):
            client.subscribe(destination, str(number), 1000)
        open_acks: dict[str, str] = {}
        drained: set[str] = set()
        newest: dict[tuple[str, str], int] = {}
        while len(drained) < left or open_acks:
            heard = client.receive(30)
            assert heard is not None, (
                f"drained {len(drained)} of {left}, then nothing came any more"
            )
            if isinstance(heard, Receipt):
                self.ledger.ack_receipted(open_acks.pop(heard.id))
            else:
                assert isinstance(heard, Delivery), heard
                self.ledger.delivered(heard.body, heard.delivery_count, heard.is_flagged)
                line = heard.destination, heard.producer
                assert heard.id > newest.get(line, 0), (newest, heard)
                newest[line] = heard.id
                drained.add(heard.body)
                open_acks[heard.body] = heard.body
                client.ack(heard, heard.body)
        client.cut()
        assert self.broker.stop() == 0, self.broker.log_text()
        self.ledger.drained = drained
        self.ledger.check_drained()
        torn = sum("cut a torn tail" in line["event"] for line in self.broker.lines())
        print(f"torn tails cut: {torn}", file=sys.stderr)
        print(f"\nseed {self.seed}, {self.rounds} rounds: {self.ledger.summary()}", file=sys.stderr)
        assert not self.ledger.violations, self.report()
        assert self.ledger.receipted, "the clients got nothing done"
        assert not self.check_journal(self.broker.directory)
        directory = self.broker.directory
        verdict = verify_data(
            RealDisk(directory / JOURNAL), lambda done: None, base=directory / BASE
        )
        assert verdict.ok, (verdict.faults, verdict.wrong)
        assert verdict.digests_compared

    def report(self) -> str:
        """The failure, and the command that repeats it."""
        shown = "\n".join(self.ledger.violations[:20])
        return f"DAYBOOK_SEED={self.seed}, round {self.rounds}: {self.ledger.summary()}\n{shown}"
