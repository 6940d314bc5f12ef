"""The checkers: nothing is said before it is written, and the fold is the live state.

`Judge.hear` looks at every byte that leaves the broker at the moment it leaves. What it speaks of
must at that moment be in the durable part of the simulated disk, as the platter reader finds it.
Durable events go to two referees: the audit's rules judge the decisions, and the facts of the
clients' ledger what clients asked for and may be told.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from daybook.engine.broker import Broker
from daybook.engine.core.core import Options
from daybook.engine.facts import events
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.engine.state.state import State
from daybook.history.audit import judge as audits
from daybook.history.audit.accounts import accounts_of
from daybook.history.audit.context import Folded
from daybook.history.audit.rules import REQUESTED
from daybook.journal.blocks.block import Block
from tests.simulation.judges.amqp_ear import AmqpEar
from tests.simulation.judges.direct_oracle import DirectOracle
from tests.simulation.judges.ears import StompEar, Told
from tests.simulation.judges.facts import Facts, tag_of_id
from tests.simulation.judges.platter import PlatterReader
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.disk import FaultyDisk
from tests.simulation.machine.network import Link
from tests.simulation.peers.kinds import is_mixed, is_mixed_place
from tests.simulation.peers.ledger import Expectation, Ledger, Said, Sent
from tests.support.models.promises import Promises
from tests.support.models.rest import Rest
from tests.support.world import Event
from tests.support.worlds.auditing import LATER

FIRST_OF_GROUP = b"\xa1\x05first"
"""A property that queues of the simulation add to the first message of a group."""
UNREAD = "it is not the first one of the ring"
"""The breach that the audit finds where a broker could not read a message for a while: the next one
leaves its ring, and no event says why."""
Doubt = tuple[tuple[str, int], Said, Said]
"""Queue and message of two attempts with the same number."""


class Judge:
    """Knows what the clients know and what is on the platter, and compares."""

    def __init__(self, ledger: Ledger, options: Options, *, counts_are_durable: bool) -> None:
        """`options` are those of the broker that its journal does not have."""
        self.ledger = ledger
        self.facts = Facts(ledger)
        self.folded = State()
        # Clocks are set back and forth here.
        self.audit = audits.Judge(self.folded, 0, options, audits.Clock(LATER, LATER))
        self.direct = DirectOracle(self.facts, lambda: self.reads_failed())
        self.facts.may_take = self.direct.taken
        self.rest = Rest()
        self.promises = Promises({})
        self.counts_are_durable = counts_are_durable
        self.reads_failed: Callable[[], bool] = bool
        self._platter = PlatterReader()
        self._ears: dict[int, AmqpEar | StompEar] = {}
        self._links: dict[int, Link] = {}
        self._digests: dict[int, str] = {}
        # Numbers that were said once more, and by when the events must be durable that excuse it.
        self._doubts: list[Doubt] = []
        self._doubtful: dict[int, list[Doubt]] = {}
        self._drops_promised: dict[int, int] = {}
        self._named: dict[int, int] = {}
        self.digests_compared = 0
        self.duplicates = 0
        # For who follows the journal.
        self.blocks: list[Block] = []

    # ---- the platter

    def look(self, disk: FaultyDisk) -> None:
        """Take in what became durable."""
        for block in self._platter.new_blocks(disk):
            self.blocks.append(block)
            self._take(list(block.events()))
            for doubt in self._doubtful.pop(self.facts.lsn, ()):
                self._judge_number(*doubt)
            expected = self._digests.pop(self.facts.lsn, "")
            if expected:
                self.digests_compared += 1
                if digest(self.folded) != expected:
                    raise Violation("P2", f"the fold up to {self.facts.lsn} is not the live state")

    def _take(self, found: list[Folded]) -> None:
        """Let both referees judge the events of a block, and fold it."""
        for breach in self.audit.judge(found):
            # Administrators of the simulation leave no record of what they ask for.
            is_excused = self.reads_failed() and breach.text.endswith(UNREAD)
            if breach.rule != REQUESTED.name and not is_excused:
                raise Violation(breach.rule, breach.text)
        for event in found:
            self.facts.take(*event)
            self.rest.take(event)
            self._check_promise(event)
            if event[1][events.KIND] == events.SEGMENTS_REMOVED:
                self._check_removed(event[1])
        if found[-1][1][events.KIND] == events.BROKER_STOPPED:
            self._check_stop(found[-1][0], found[-1][2])

    def _check_promise(self, event: Folded) -> None:
        try:
            self.promises.take(Event(*event))
        except AssertionError as error:
            raise Violation("promises", str(error)) from error

    def _check_removed(self, row: events.Row) -> None:
        """Check that what is queued has its content behind the segments that left."""
        for queue in self.folded.queues.values():
            for message in queue.entries:
                if self.facts.needs.get(message, self.facts.lsn) <= row[events.RELATED]:
                    raise Violation("P1", f"event {self.facts.lsn}: {row} took {message}")

    def _check_stop(self, lsn: int, detail: bytes) -> None:
        decoded = events.decode_detail(events.BROKER_STOPPED, detail)
        if getattr(decoded, "hurried", False):
            return
        if getattr(decoded, "digest", "") != digest(self.folded):
            raise Violation("P2", f"BrokerStopped {lsn} has another digest than the fold before it")

    def note_live(self, broker: Broker) -> None:
        """A block was closed: its last event is the last that the live state contains."""
        self._digests[broker.lsn] = digest(broker.state)
        self._doubtful[broker.lsn], self._doubts = self._doubts, []

    def check_recovered(self, state: State, last_lsn: int) -> None:
        """After a restart: nothing durable is lost, and the fold is what it was before."""
        self._digests.clear()
        self._doubts.clear()
        self._doubtful.clear()
        if last_lsn != self.facts.lsn:
            raise Violation("P1", f"recovered {last_lsn} events, {self.facts.lsn} were durable")
        try:
            self.check_state(state)
        except ContentError as error:
            # The next event drops it: it has no content in the journal, and its events may leave.
            if not self._is_transient(str(error)):
                raise

    def _is_transient(self, text: str) -> bool:
        """Whether a text names the event of a message that does not outlive the broker."""
        found = re.search(r"\bevent (\d+)\b", text)
        message = int(found[1]) if found else 0
        entries = [queue.entries.get(message) for queue in self.folded.queues.values()]
        return any(entry is not None and not entry.message.persistent for entry in entries)

    def check_state(self, state: State) -> None:
        """A state must be what the durable events make of it, by both opinions."""
        wrong = check_invariants(state)
        if wrong:
            raise Violation("invariants", "; ".join(wrong))
        self.digests_compared += 1
        if digest(state) != digest(self.folded):
            raise Violation("P2", f"the state at {self.facts.lsn} is not the fold of the platter")
        for queue_id, queue in self.folded.queues.items():
            found, expected = _told_of(state.queues[queue_id]), _told_of(queue)
            if found != expected:
                raise Violation("P1", f"queue {queue.name}: {_difference(found, expected)}")
        accounts, _ = accounts_of([self.audit.ledger.counted(self.facts.lsn)])
        wrong = [f"{each.queue}: {each.difference}" for each in accounts if each.difference]
        if wrong:
            raise Violation("conserved", "; ".join(wrong))

    def check_rest(self, broker: Broker) -> None:
        """Judge what queues of all kinds have when nothing is left to decide."""
        if not (broker.later or broker.work.purging) and broker.lsn == self.facts.lsn:
            try:
                self.rest.check(self.folded)
                self.promises.check(self.folded)
            except AssertionError as error:
                raise Violation("rest", str(error)) from error

    def check_drained(self, last_tag: int) -> None:
        """At the end, from what clients were told: whatever was promised was heard of.

        What a consumer in mode auto was to get is acknowledged before it leaves, so it may be lost
        with the broker. After a purge nothing can be said.
        """
        if self.ledger.purges:
            return
        for sent in self.ledger.sent.values():
            to_queue = sent.destination.startswith("/queue/") and not _is_mixed(sent)
            promised = sent.promised and sent.persistent and to_queue and not sent.expires_ms
            if not promised or sent.tag > last_tag or sent.tag in self.ledger.said_tags:
                continue
            if self.facts.routed[sent.tag] not in self.facts.automatic:
                raise Violation("P1", f"{sent.tag} was receipted and never delivered")

    # ---- what leaves the broker

    def hear(self, link: Link, data: bytes) -> None:
        """Bytes leave the broker."""
        if link.is_direct:
            return
        ear = self._ears.get(link.serial)
        if ear is None:
            self._links[link.serial] = link
            ear = self._ears[link.serial] = (AmqpEar if link.is_amqp else StompEar)(self)
        ear.hear(link, data)

    def declined(self, link: Link, key: str, duplicate: str) -> None:
        """What names a duplicate says that a message is there: it must be durable by then.

        It may have waited behind a large body while the ids of the address were forgotten.
        """
        wanted = self.ledger.expected.pop((link.serial, key), None)
        if duplicate:
            tag = tag_of_id(duplicate)
            if tag not in self.facts.remembered and tag not in self.facts.forgotten:
                raise Violation("P1", f"a duplicate of what is not durable: {duplicate}")
            self.duplicates += 1
        elif wanted is not None and wanted.kind == "SEND":
            sent = self.ledger.sent[wanted.tag]
            sent.refused = not (sent.has_id or wanted.name)
            if sent.refused and wanted.tag in self.facts.routed:
                raise Violation("P1", f"{wanted} was refused, and is there")

    def opened(self, link: Link, connection: int) -> None:
        """A connection is told that it is open."""
        known = [each for each, serial in self.facts.links.items() if serial == link.serial]
        link.connection = connection or (known[-1] if known else 0)
        if link.connection not in known:
            raise Violation("P1", f"{link.serial} is open before ConnectionOpened is durable")

    def begun(self, link: Link, name: str, message: int, count: int, *, durable: bool) -> None:
        """The first bytes of a message leave."""
        self._check_written(link, message, name, count, durable=durable)

    def told(self, link: Link, told: Told) -> None:
        """A message is told."""
        ledger, name, message, count = self.ledger, told.name, told.message, told.attempt
        ledger.messages += 1
        first = told.body.partition(b" ")[0]
        tag = int(first) if first.isdigit() else 0
        sent = ledger.sent.get(tag)
        if sent is None or not sent.has_body(told.body):
            raise Violation("P1", f"a message was invented: {told}")
        self._check_content(told, tag, sent)
        ledger.deeds[
            f"{'AMQP' if sent.bare else 'STOMP'} to {'AMQP' if told.bare else 'STOMP'}"
        ] += 1
        record = ledger.subscriptions[link.serial, name]
        if count > 1 and not told.flagged:
            raise Violation("P5", f"count and flag contradict each other: {told}")
        ledger.said_tags.add(tag)
        key = (record.queue, message)
        self._check_written(link, message, name, count, durable=sent.persistent)
        if (link.serial, name, message) in ledger.not_here:
            raise Violation("P5", f"{told} comes again to a link that does not want it")
        if not sent.persistent:
            ledger.transient.add(key)
        # Everybody may read it again, and may have read it before `Shown` is durable.
        is_early = not (sent.persistent and self.counts_are_durable)
        was_shown = (link.connection, name, message) in self.facts.shown
        if was_shown or record.is_vague or (_is_mixed(sent) and is_early):
            return
        # What was on its way behind a large body when its subscription ended may come late.
        if key in ledger.acks_promised and not record.closed_cleanly and not _is_mixed(sent):
            raise Violation("P1", f"an acknowledged message comes back: {key}, {told}")
        earlier = ledger.said.setdefault(key, [])
        self._check_count(
            key, earlier, Said(record, count, told.flagged), is_durable=sent.persistent
        )

    def _check_content(self, told: Told, tag: int, sent: Sent) -> None:
        """One id is that of one message, and what AMQP lets nobody change is as it was sent."""
        message = told.message
        known = self.facts.tags.get(message) or tag
        if self._named.setdefault(message, tag) != tag or known != tag:
            raise Violation("ids", f"{told} was {self._named[message]} and {known}")
        is_original = self.facts.routed.get(tag) == message and not sent.has_id
        is_marked = FIRST_OF_GROUP in told.bare
        if told.bare and sent.bare and is_original and not is_marked and told.bare != sent.bare:
            raise Violation("P1", f"{told} was sent as {sent.bare!r}")

    def _check_count(
        self, key: tuple[str, int], earlier: list[Said], said: Said, *, is_durable: bool
    ) -> None:
        """Attempts that nobody took back have numbers of their own; all but one are flagged.

        In which order two connections hear of it is left open: they may be in the same block. What
        is not persistent is said before its events are durable, and that includes the one which
        takes an attempt back because a body could not be read. Where counts need not be durable, it
        is judged once all is that the broker had decided by then.
        """
        if not said.flagged and any(not other.flagged for other in earlier):
            raise Violation("P5", f"{key} was said twice without redelivered:true: {earlier}")
        for other in earlier if is_durable else ():
            if other.count == said.count and self.counts_are_durable:
                self._judge_number(key, other, said)
            elif other.count == said.count:
                self._doubts.append((key, other, said))
        earlier.append(said)

    def _judge_number(self, key: tuple[str, int], first: Said, again: Said) -> None:
        """Two attempts have one number: fine if the first was taken back, or may have been."""
        record = first.subscription
        is_uncounted = (record.link, record.name, key[1], first.count) in self.facts.uncounted
        if first.is_spent and again.is_spent and not is_uncounted:
            raise Violation("P5", f"{key} was said as number {again.count} once more: {first}")

    def _check_written(
        self, link: Link, message: int, name: str, count: int, *, durable: bool
    ) -> None:
        if not durable:
            return
        if message not in self.facts.routed_ids:
            raise Violation("P1", f"message {message} for {name} before Routed is durable")
        fact = (link.connection, name, message, count)
        if self.counts_are_durable and fact not in self.facts.delivered:
            raise Violation("P1", f"message {fact} before Delivered is durable")

    def answered(self, link: Link, key: str) -> None:
        """What was asked with a key was done."""
        expectation = self.ledger.expected.pop((link.serial, key), None)
        if expectation is None:
            raise Violation("protocol", f"an answer that nobody waits for: {link.serial}, {key}")
        self.ledger.receipts += 1
        missing = self._missing(link, expectation)
        if missing:
            raise Violation("P1", f"answer to {expectation} before it is durable: {missing}")

    def _missing(self, link: Link, wanted: Expectation) -> str:
        """The part of a receipt's frame that the platter lacks."""
        facts = self.facts
        connection = link.connection
        by_name = (connection, wanted.name)
        match wanted.kind:
            case "SEND":
                return self._promise(link, wanted)
            case "ACK" | "NACK" | "RELEASE" | "REJECT":
                return self._settled(link, wanted)
            case "SUBSCRIBE":
                if by_name not in facts.attached:
                    return "ConsumerAttached"
                return self._resumed(link, wanted)
            case "UNSUBSCRIBE":
                return "" if by_name in facts.detached else "ConsumerDetached"
            case "DISCONNECT":
                return "" if connection in facts.closed else "ConnectionClosed"
            case "ABORT":
                return "" if by_name in facts.rolled_back else "TransactionRolledBack"
            case "COMMIT":
                return self._commit(link, wanted)
        return ""

    def _promise(self, link: Link, wanted: Expectation) -> str:
        tag = wanted.tag
        sent = self.ledger.sent[tag]
        if wanted.name or not sent.persistent:
            return ""
        if tag in self.facts.remembered:
            sent.promised = tag in self.facts.routed
            return ""
        if tag not in self.facts.routed and not self._was_dropped(link, sent):
            return f"Routed of {tag}"
        sent.promised = tag in self.facts.routed
        return ""

    def _was_dropped(self, link: Link, sent: Sent) -> bool:
        """A topic without subscribers, or a queue that takes nothing without consumers.

        `Dropped` has no tag, so they are counted.
        """
        if not (sent.destination.startswith("/topic/") or _is_mixed(sent)):
            return False
        promised = self._drops_promised.get(link.serial, 0) + 1
        self._drops_promised[link.serial] = promised
        return promised <= self.facts.dropped.get(link.connection, 0)

    def _settled(self, link: Link, wanted: Expectation) -> str:
        facts = self.facts.acknowledged if wanted.kind == "ACK" else self.facts.given_back
        for name, message in wanted.settled:
            record = self.ledger.subscriptions[link.serial, name]
            key = (record.queue, message)
            if key in self.ledger.transient:
                continue
            # What others ended it cannot settle any more, and need not know.
            is_over = record.is_vague and (link.connection, name) in self.facts.detached
            if (link.connection, name, message) not in facts and not is_over:
                return f"{wanted.kind} of {name}, {message}"
            if wanted.kind == "ACK":
                self.ledger.acks_promised.add(key)
        return ""

    def _resumed(self, link: Link, wanted: Expectation) -> str:
        """Name a delivery that a link resumed as accepted, and that is not settled although nothing
        has happened to it since.

        Queues of all kinds may refuse to resume for their rules.
        """
        facts = self.facts
        for name, message in wanted.settled:
            record = self.ledger.subscriptions[link.serial, name]
            queue = self.folded.queue_by_name.get(record.queue)
            if (link.connection, name, message) in facts.acknowledged:
                self.ledger.acks_promised.add((record.queue, message))
            elif queue is not None and not is_mixed(record.queue):
                entry = queue.entries.get(message)
                changes = ((queue.id, message), (queue.id, 0), (0, 0))
                changed = max(facts.changed_at.get(each, 0) for each in changes)
                is_ready = entry is not None and entry.level == entry.message.priority
                if entry is None or not is_ready or entry.state != READY or queue.is_paused:
                    continue
                if changed < facts.attached_at[link.connection, name] and not entry.message.expires:
                    return f"Acknowledged of {message}, which {name} had accepted before"
        return ""

    def parted(self, link: Link, name: str, *, is_stolen: bool) -> None:
        """A link is detached: its place was taken if it says so, and it says so then."""
        self.facts.untold.discard((link.serial, name))
        if is_stolen and (link.connection, name) not in self.facts.stolen:
            raise Violation("stolen", f"{name} of {link.serial} hears that it was taken over")

    def kept_out(self, link: Link) -> None:
        """A client is refused for its id: there was another one with it since it asked."""
        ledger, serial = self.ledger, link.serial
        is_asked = serial in ledger.only
        if not (is_asked and any(ledger.may_keep_out(each, serial) for each in ledger.containers)):
            raise Violation("only", f"{serial} is kept out, and nobody else has its id")

    def check_parted(self) -> None:
        """Check that links hear that they were taken over, when nothing is left to be said."""
        for serial, name in self.facts.untold:
            link = self._links[serial]
            if not (link.broker_gone or link.close_at or link.buffered()):
                raise Violation("stolen", f"{name} of {serial} does not hear that it is over")

    def _commit(self, link: Link, wanted: Expectation) -> str:
        if (link.connection, wanted.name) not in self.facts.committed:
            return "TransactionCommitted"
        record = self.ledger.transactions[link.serial, wanted.name]
        for tag in record.tags:
            self.ledger.sent[tag].promised = tag in self.facts.routed
        return self._settled(link, Expectation("ACK", settled=record.acks))


def _is_mixed(sent: Sent) -> bool:
    return is_mixed_place(sent.destination)


def _told_of(queue: Queue) -> dict[int, tuple[int, int, bool]]:
    """Priority, delivery count and flight of what a queue has, by message."""
    return {
        entry.message.id: (entry.message.priority, entry.delivery_count, entry.state != READY)
        for entry in _all_entries(queue)
    }


def _all_entries(queue: Queue) -> Iterator[Entry]:
    """The messages of a queue, ready (in whatever place) and in flight."""
    places = []
    count = 0
    for entry in queue.ready():
        count += 1
        # What cannot be read is last.
        if entry.message.id not in queue.withheld:
            places.append((-entry.message.priority, entry.message.id))
        yield entry
    if places != sorted(set(places)):
        raise Violation("order", f"{queue.name} is not in order: {places}")
    if count != queue.ready_count:
        raise Violation("P2", f"{queue.name} has {count}, and counts {queue.ready_count}")
    yield from queue.held()
    yield from queue.scheduled()
    yield from (entry for entry in list(queue.entries.values()) if entry.state != READY)


def _difference(found: dict[int, Any], expected: dict[int, Any]) -> str:
    lost = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    other = [key for key in expected.keys() & found.keys() if found[key] != expected[key]]
    return f"lost {lost[:5]}, too many {more[:5]}, different {sorted(other)[:5]}"
