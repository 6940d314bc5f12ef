"""A campaign: rounds of work that each end in a crash, on scratch data, with a ledger of clients.

At the end all queues are drained, the broker is stopped cleanly, and ledger, journal and broker
must agree. A `Hardship` defines the end of the broker and the damage to its disk.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.engine.facts.events import KIND, RELATED, ROUTED
from daybook.engine.state.invariants import check
from daybook.errors import DaybookError
from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.verification import verify_data
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.data_directory import BASE, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.readonly import newest_state
from daybook.tools.drills.campaigns.derived_files import SAID, Wounds
from daybook.tools.drills.clients.amqp_client import AmqpDrillClient
from daybook.tools.drills.clients.client import Connect, Gone, StompClient
from daybook.tools.drills.clients.drain import drain
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.clients.workload import DRILL_STAFF, begin_work, end_work
from daybook.tools.drills.scratch.broker import BrokerTrouble, DrillBroker
from daybook.tools.drills.scratch.server import AMQP, STOMP, Serving

WORK_SECONDS: Final = (0.05, 1.5)
START_SECONDS: Final = (0.05, 0.8)
STARTS_TO_KILL: Final = 0.15
FIRST_SECONDS: Final = 30.0
SAYS_WITHIN_S: Final = 10.0
SAMPLE_SECONDS: Final = 0.25


class Hardship:
    """The fate of a broker at the end of a round: by default it is killed."""

    name = "kill -9 of the broker and its processes"

    def before_start(self, data: Path) -> None:
        """Prepare a start; no broker runs."""

    def endure(self, broker: DrillBroker, ledger: Ledger) -> None:
        """Strain the broker further before it is struck, while clients work. Raises
        Wrong."""

    def strike(self, broker: DrillBroker) -> None:
        """End the broker."""
        broker.kill()

    def after_strike(self, data: Path) -> None:
        """Called when the broker is dead."""

    def aftermath(self, broker: DrillBroker, ledger: Ledger) -> None:
        """Act on the dead broker of a round; it is dead afterwards. Raises
        Wrong."""


class Campaign:
    """One campaign on one data directory. `starts` are seconds from launch to `ready`, `kills` when
    they were and when a broker served again, `throughput` deliveries and receipts a second, all by
    the clock of the campaign."""

    def __init__(
        self,
        serving: Serving,
        log: Path,
        hardship: Hardship,
        seed: int,
        tell: Callable[[int], None],
        wounds: Wounds | None = None,
        protocols: tuple[str, ...] = (STOMP,),
    ) -> None:
        """`log` is the file of the broker's output, which has room where the data may have none.
        `wounds` damages derived files before every other start, and before the last one.
        Clients speak the `protocols` in turn."""
        self.data: Final = Path(serving.data)
        self.broker: Final = DrillBroker(serving, log)
        self.makers: Final = tuple([self._maker(each) for each in protocols])
        self.hardship: Final = hardship
        self.ledger: Final = Ledger()
        self.chance: Final = random.Random(seed)
        self.rounds = 0
        self.starts: Final[list[float]] = []
        self.kills: Final[list[tuple[float, float]]] = []
        self.throughput: Final[list[tuple[float, float]]] = []
        self.last_lsn = 0
        self.wounds: Final = wounds
        self._wound = ""
        self._tell: Final = tell
        self._begun = time.monotonic()
        self._counted = 0, 0.0

    def _maker(self, protocol: str) -> Connect:
        """Return the function that connects clients of a protocol."""
        if protocol == AMQP:
            return lambda port: AmqpDrillClient(self.broker.amqp_port)
        return StompClient

    @property
    def now(self) -> float:
        """Seconds since the campaign began."""
        return time.monotonic() - self._begun

    def round(self) -> None:
        """Work until the broker is struck, and check the disk. Raises Wrong."""
        self.rounds += 1
        if self.rounds % 2 == 0:
            self._damage_derived()
        if self.rounds > 1 and self.chance.random() < STARTS_TO_KILL:
            self._kill_in_start()
        self.hardship.before_start(self.data)
        self._start()
        workers = begin_work(
            self.ledger, StompClient, self.broker.port, f"r{self.rounds}", DRILL_STAFF,
            self.makers,
        )  # fmt: skip
        struck = 0.0
        self.ledger.must_serve = True
        try:
            self._let_work()
            if self.broker.is_running:
                self.hardship.endure(self.broker, self.ledger)
            if not self.broker.is_running:
                raise Wrong("P1", f"the broker ended by itself: {self.broker.last_words()}")
        finally:
            self.ledger.must_serve = False
            self.ledger.disk_hangs(hangs=False)
            struck = self.now
            self.hardship.strike(self.broker)
            end_work(workers)
        self.hardship.after_strike(self.data)
        self.hardship.aftermath(self.broker, self.ledger)
        self.kills.append((struck, self.now))
        self.throughput.append((round(struck, 3), 0.0))
        self._check_ledger()
        self._look_at_disk()
        if self.wounds is not None:
            self.wounds.healed()
        self._tell(self.rounds)

    def _start(self) -> None:
        try:
            self.starts.append(self.broker.start())
        except BrokerTrouble as error:
            raise self._trouble(str(error)) from error
        self._hear_of_rebuilding()
        if self.kills:
            self.kills[-1] = self.kills[-1][0], self.now
        self._counted = self._done, self.now
        self.throughput.append((round(self.now, 3), 0.0))

    def _damage_derived(self) -> None:
        """Damage derived files, as the crash may have."""
        if self.wounds is not None:
            self._wound = self.wounds.inflict(self.data)

    def _hear_of_rebuilding(self) -> None:
        """A broker that serves without the index that it had must say so."""
        how, self._wound = self._wound, ""
        by = self.now + SAYS_WITHIN_S
        while how and SAID.encode() not in self.broker.said():
            # On a busy machine it serves before its log is written.
            if self.now > by:
                raise Wrong("P8", f"the broker does not say that it rebuilds the index ({how})")
            time.sleep(0.05)

    @property
    def _done(self) -> int:
        return len(self.ledger.receipted) + len(self.ledger.counts)

    def _kill_in_start(self) -> None:
        self.hardship.before_start(self.data)
        # The start that is killed may have rebuilt the index.
        self._wound = ""
        self.broker.launch()
        self.broker.wait_a_moment(self.chance.uniform(*START_SECONDS))
        ended = not self.broker.is_running
        words = self.broker.last_words() if ended else ""
        self.hardship.strike(self.broker)
        self.hardship.after_strike(self.data)
        if ended:
            raise self._trouble(f"the broker ended in its start: {words}")

    def _let_work(self) -> None:
        """Let clients work, and note how much they get done."""
        end = self.now + self.chance.uniform(*WORK_SECONDS)
        if self.rounds == 1:
            end += 1.0
        first = self.now + FIRST_SECONDS
        while self.broker.is_running:
            waits = not self.ledger.receipted and self.now < first
            if self.now >= end and not waits:
                return
            self.broker.wait_a_moment(SAMPLE_SECONDS)
            self._sample()

    def _sample(self) -> None:
        """Record the work since the last sample, for each second."""
        done, at = self._done, self.now
        before, since = self._counted
        if at > since:
            self.throughput.append((round(at, 3), max(0, done - before) / (at - since)))
        self._counted = done, at

    def _check_ledger(self) -> None:
        if self.ledger.violations:
            raise Wrong(self.ledger.broken, "; ".join(self.ledger.violations[:5]))

    def _trouble(self, text: str) -> Wrong:
        """Return the fault: messages are lost, or else the broker breaks another promise."""
        missing = missing_messages(self.data / JOURNAL, len(self.ledger.receipted))
        return Wrong("P1", f"{missing}; {text}") if missing else Wrong("P8", text)

    def _look_at_disk(self) -> None:
        """Check that the journal folds to a consistent state without missing messages."""
        if not (self.data / JOURNAL).is_dir():
            return
        try:
            with newest_state(self.data) as (state, last_lsn):
                wrong = check(state)
        except DaybookError as error:
            raise self._trouble(f"the journal cannot be read after the crash: {error}") from error
        if wrong:
            raise Wrong("P2", f"the state after the crash contradicts itself: {wrong[0]}")
        self.last_lsn = last_lsn

    def finish(self) -> None:
        """Drain all queues, stop cleanly, and hold everything together. Raises Wrong."""
        self._damage_derived()
        self.hardship.before_start(self.data)
        self._start()
        try:
            drain(self.ledger, self.makers[-1], StompClient, self.broker.port)
        except Gone as gone:
            raise Wrong(
                "P1", f"the broker was gone while it was drained: {self.broker.last_words()}"
            ) from gone
        code = self.broker.stop()
        if code:
            raise Wrong("P8", f"a clean stop ended with {code}: {self.broker.last_words()}")
        self.ledger.check_drained()
        self._check_ledger()
        if not self.ledger.receipted:
            raise Wrong("drill", "the clients completed no work, so nothing was proved")
        self._verify()

    def _verify(self) -> None:
        """Check that the journal is whole, its digests agree, and the queues are empty."""
        verdict = verify_data(
            RealDisk(self.data / JOURNAL), lambda done: None, base=self.data / BASE
        )
        if not verdict.report.ok:
            raise Wrong("P7", f"the journal is damaged: {verdict.faults[0].what}")
        if verdict.wrong:
            raise Wrong("P2", verdict.wrong[0])
        with newest_state(self.data) as (state, self.last_lsn):
            left = sum(queue.message_count for queue in state.queues.values())
        if left:
            raise Wrong("P2", f"{left} messages are left in the journal's queues, and none came")
        if error := self.broker.traceback():
            raise Wrong("bug", f"the broker logged a traceback ({error}): {self.broker.log}")
        with copied_index(self.data) as index:
            if index.wrong:
                raise Wrong("P2", f"after the clean stop the index is wrong: {index.wrong}")
        if self.wounds is not None:
            self.wounds.healed()

    def end(self) -> None:
        """Leave no process behind."""
        self.broker.kill()


def missing_messages(journal: Path, receipted: int) -> str:
    """Return a sentence if the sound part of a journal has fewer messages than so many; "" if it
    has them, or does not have its beginning.

    A start that is refused after a crash may be right, because the journal is damaged. The question
    is then whether messages are lost.
    """
    found = 0
    disk = RealDisk(journal)
    with suppress(DaybookError, OSError):
        if segment_names(disk) and first_lsn_of(disk) > FIRST_LSN:
            return ""
        for block in read_blocks(disk, LAYOUT, heaps=False):
            if block.count:
                columns = block.columns()
                kinds, related = columns[KIND], columns[RELATED]
                # A copy, of a dead letter for example, names its original.
                found += sum(
                    kind == ROUTED and not original
                    for kind, original in zip(kinds, related, strict=True)
                )
    if found >= receipted:
        return ""
    return (
        f"{receipted - found} of {receipted} messages with a receipt are not in the journal, as "
        "far as it can be read"
    )
