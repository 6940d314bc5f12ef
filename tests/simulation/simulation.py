"""The simulation: a whole broker, its clients, network, clock and disk, from one integer.

Every step does one small thing: some bytes arrive, a client acts, a block is written, the hub hears
of it, a turn, time passes, something breaks. Same seed, same run: `trace` is a hash of all of it.
"""

import random
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from daybook.engine.commands import ResumeQueue
from daybook.engine.core.capacity import next_in_line
from daybook.engine.core.core import Options
from daybook.engine.queues.queue import Queue, StoreError
from daybook.journal.errors import DiskFull, JournalError, JournalFailed
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.recovery.directory import Recovered
from daybook.server.hub.peer import write_high
from daybook.server.hub.ports import HubOptions
from tests.simulation.counts import Counts, WayCounts
from tests.simulation.judges.checkers import Judge
from tests.simulation.judges.direct_oracle import FALLING_BACK
from tests.simulation.judges.violation import Violation
from tests.simulation.languages import Languages
from tests.simulation.machine.clock import Clock
from tests.simulation.machine.disk import Faults, PowerCut
from tests.simulation.machine.incarnation import SETTINGS, Incarnation
from tests.simulation.machine.network import Link
from tests.simulation.machine.paging import SimulatedIndex
from tests.simulation.machine.retention import SimulatedRetention
from tests.simulation.mishaps.faults import administrate, break_something
from tests.simulation.mishaps.hardships import Hardships
from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.mishaps.limits import draw_limits
from tests.simulation.peers.amqp_clients import AmqpClient
from tests.simulation.peers.clients import DEAD_LETTERS, MORE_QUEUES, QUEUES, Client
from tests.simulation.peers.direct_clients import (
    DirectAmqpClient,
    DirectClient,
    DirectStompClient,
)
from tests.simulation.peers.kinds import MIXED, MixedKinds, with_mixed
from tests.simulation.peers.ledger import Ledger
from tests.simulation.peers.swarm_clients import SwarmClient
from tests.simulation.seeds import (
    ARRIVING_FROM,
    HARDENED_FROM,
    MIXED_FROM,
    NEAR_FROM,
    RESENDING_FROM,
    SWARM_FROM,
    draw_device_block,
    draw_turn,
)
from tests.simulation.swarm import Swarm
from tests.support.stored.recovering import recover

DATA_ID = bytes(range(16))
TICK_US = 100_000
QUIET_STEPS_MAX = 200_000


class Simulation:
    """One run. `run` raises Violation, or whatever a bug raises, with the run's end in `recent`."""

    def __init__(self, seed: int, hooks: Hooks | None = None) -> None:
        self.seed = seed
        self.hooks = hooks if hooks is not None else Hooks()
        self.chance = chance = random.Random(seed)
        self.clock = Clock()
        self.ledger = Ledger()
        self.counts = Counts()
        self.ways = WayCounts()
        self.recent: deque[str] = deque(maxlen=60)
        self._trace = sha256()
        self._persist_counts = chance.random() < 0.85
        expected = self.hooks.counts_are_durable
        self._expect_counts = self._persist_counts if expected is None else expected
        self.kinds = MixedKinds(seed) if seed >= MIXED_FROM else None
        is_mixed = self.kinds is not None
        self.languages = Languages(seed)
        self.swarm = Swarm(self) if seed >= SWARM_FROM else None
        options = Options(hosts=self.swarm.hosts() if self.swarm is not None else {})
        self.judge = Judge(self.ledger, options, counts_are_durable=self._expect_counts)
        self.judge.direct.places = self.languages.places
        self._segment_bytes = chance.choice((8_192, 16_384, 65_536, 262_144))
        self._hub_options = HubOptions(
            block_bytes=chance.choice((1_000, 10_000, 262_144)),
            max_pending_bytes=chance.choice((20_000, 1 << 20)),
            expiry_scan_us=chance.choice((300_000, 5_000_000)),
            idle_mark_us=chance.choice((200_000, 2_000_000)),
        )
        self._stomp = StompOptions(
            room=chance.choice((2_000, 30_000, 1 << 20)),
            # Drawn like the limits, for the same reason.
            min_large_message_size=random.Random(f"large {seed}").choice((100, 3_500, 102_400)),
            # Its clients write on before they are let in.
            max_early_data=1 << 20,
        )
        self._limits = draw_limits(random.Random(f"limits {seed}"))
        self._settings = {**SETTINGS, **self._limits.settings}
        self.index = self._make_index()
        self.resends = seed >= RESENDING_FROM and random.Random(f"ids {seed}").random() < 0.6
        # Three to choose from, so that seeds found earlier still mean what they meant.
        self._non_persistent = chance.choice(("decisions", "full", "decisions"))
        self._device_block_bytes = draw_device_block(seed)
        self.disk = self.hooks.make_disk(
            chance.getrandbits(32),
            faults=Faults(short_write=chance.choice((0.0, 0.2))),
            collateral_bytes=self._device_block_bytes,
        )
        self._slots = chance.randint(2, 8)
        self.clients: list[Client | DirectClient] = []
        self.links: list[Link] = []
        self.life: Incarnation | None = None
        self._links = 0
        self._next_tick = self.clock.now
        self._paused: list[str] = []
        self._is_settling = self._is_draining = False
        self._weights = self._draw_weights()
        self.queues = {**QUEUES, **MORE_QUEUES} if seed >= HARDENED_FROM else QUEUES
        self.hardships = Hardships(self) if seed >= HARDENED_FROM else None
        self.queues = with_mixed(self.queues) if is_mixed else self.queues
        self.retention = self._make_retention()
        self._failed_reads = 0
        self.judge.reads_failed = self._reads_failed
        if self.swarm is not None:
            self.swarm.adapt()

    def use_hosts(self, hosts: tuple[tuple[str, str], ...]) -> None:
        """Let clients choose among these virtual hosts, by the name they say and its meaning."""
        self._stomp = replace(self._stomp, virtual_hosts=hosts)
        self.languages.options = replace(self.languages.options, virtual_hosts=hosts)

    def _make_index(self) -> SimulatedIndex | None:
        """Three of four brokers page. Drawn like the limits."""
        pages = self.hooks.pages
        if pages is None:
            pages = random.Random(f"pages {self.seed}").random() < 0.75
        if not pages:
            return None
        index = self.hooks.make_index(self.seed, DATA_ID, self.judge)
        self._settings = index.page(self._settings)
        self._hub_options.max_unindexed_bytes = index.max_unindexed_bytes
        return index

    def _make_retention(self) -> SimulatedRetention | None:
        """Let history leave in two of three of the brokers that page."""
        wants = random.Random(f"leaves {self.seed}").random() < 0.67
        if self.seed < HARDENED_FROM or self.index is None or not wants:
            return None
        return SimulatedRetention(self.seed, self.index, self.clock, self.hooks.make_rounds)

    def _draw_weights(self) -> dict[Callable[[], None], float]:
        """Each run has habits of its own: a rare action of one is frequent in another."""
        base: dict[Callable[[], None], float] = {
            self.client_acts: 30,
            self.bytes_to_broker: 30,
            self.bytes_to_client: 25,
            self.turn: 20,
            self.write: 12,
            self.hear_news: 14,
            self.login: 4,
            self.time_passes: 6,
            self.connect: 4,
            self.vanish: 0.3,
            self.disconnect: 0.3,
            self.stall: 0.6,
            self.administrate: 0.3,
            self.break_something: 0.25,
        }
        return {action: weight * self.chance.uniform(0.3, 1.7) for action, weight in base.items()}

    # ---- running

    def run(self, steps: int) -> None:
        """Take so many steps, then let everything come to rest, and check."""
        self.run_unsettled(steps)
        self.stop()
        self.drain()

    def run_unsettled(self, steps: int) -> None:
        """Take so many steps and leave everything as it is then."""
        actions = list(self._weights)
        cumulative = list(accumulate(self._weights.values()))
        choices = self.chance.choices
        for _ in range(steps):
            self._step(choices(actions, cum_weights=cumulative)[0])

    def _step(self, action: Callable[[], None]) -> None:
        self.counts.steps += 1
        try:
            if self.life is None:
                self.start()
            elif self.life.hub.failure is not None and self.chance.random() < 0.1:
                self._gave_up(self.life)
            else:
                action()
            if self.life is not None and self.life.stopped and self.life.hub.failure is None:
                self._stopped_cleanly(self.life)
            if self.hardships is not None:
                self.hardships.step()
            if self.kinds is not None and self.life is not None:
                self.kinds.step(self.life.hub, self.life.broker)
                if self.swarm is not None:
                    self.swarm.step(self.life.hub, self.life.broker)
            hangs = self.hardships is not None and self.hardships.indexer_hangs
            if self.index is not None and self.life is not None and not hangs:
                self.index.step(self.life.hub, self.life.broker, self.disk)
            if self.retention is not None and self.life is not None:
                self.retention.step(self.life.hub, self.life.broker, self.disk)
        except PowerCut:
            self.counts.cut_in_recovery += self.life is None
            self.died("the power was cut in a call of the disk")
        except StoreError as error:
            self._index_failed(error)

    def _index_failed(self, error: StoreError) -> None:
        """Paged content could not be read: the broker stops, and the next start reads it."""
        if self.hardships is not None and self.hardships.explains(error):
            self.hardships.counts.damaged_reads += 1
            if self.life is None:
                self.hardships.refused(error)
        elif self.index is None:
            raise error
        else:
            self.index.failed(error)
        self.note(f"the index failed: {error}")
        if self.life is None:
            self.counts.failed_recoveries += 1
            self.disk.survive_kill()
        else:
            self.life.hub.failed(error)

    def _reads_failed(self) -> bool:
        """Whether a broker of this run may have met content that it could not read."""
        if self._failed_reads + self.disk.failed_reads or (self.index and self.index.read_errors):
            return True
        counts = self.hardships.counts if self.hardships is not None else None
        return counts is not None and counts.damages + counts.refused_opens > 0

    def note(self, text: str) -> None:
        """Record an event for the trace, which readers of a failure see."""
        self._trace.update(text.encode())
        self.recent.append(f"{self.counts.steps} {text}")

    @property
    def trace(self) -> str:
        """Hash of everything noted and said so far."""
        return self._trace.hexdigest()[:16]

    # ---- the broker's life

    def start(self) -> None:
        """Recover what the disk has, and begin to serve."""
        try:
            recovered = self._recover()
        except JournalError as error:
            if self.hardships is not None and self.hardships.explains(error):
                self.hardships.refused(error)
            elif type(error) not in (JournalFailed, JournalError, DiskFull):
                raise
            # Something could not be read or written: nothing is lost, and it is tried again.
            self.counts.failed_recoveries += 1
            self.note(f"recovery failed: {error}")
            self.disk.survive_kill()
            return
        self.counts.recoveries += 1
        repair = recovered.repair
        if repair is not None and repair.cut_bytes:
            self.counts.cut_tails += 1
        self.note(f"recovered up to {recovered.journal.durable_lsn}")
        self.judge.look(self.disk)
        self.judge.check_recovered(recovered.state, recovered.journal.durable_lsn)
        self.life = Incarnation(
            recovered,
            self.clock if self.swarm is None else self.swarm.wall,
            options=Options(
                persist_delivery_count_before_delivery=self._persist_counts,
                lsns_reserved=64,
                global_max_messages=self._limits.global_max_messages,
                disk_full_policy=self._limits.disk_full_policy,
                hosts=self.swarm.hosts() if self.swarm is not None else {},
                journal_direct=self.languages.journal_direct,
                entered_at_once=1 if self.seed >= ARRIVING_FROM else 256,
            ),
            hub_options=self._hub_options,
            stomp=self._stomp,
            amqp=self.languages.options,
            disk=self.disk,
            settings=self._settings,
            journal_non_persistent=self._non_persistent,
            table=self.languages.table,
            make_writer=self.hooks.make_writer,
            note_live=self._note_live,
        )
        self.life.slice_units = 0 if self._is_settling else draw_turn(self.seed)
        if self.kinds is not None:
            self.kinds.begin(self.life.hub, self.life.broker)
        if self.swarm is not None:
            self.swarm.begin(self.life.hub, self.life.broker)
        if self.seed >= NEAR_FROM:
            chance = random.Random(f"ways {self.seed} {self.counts.recoveries}")
            self.life.writer.choose_ways(chance, self.ways, lambda: self.judge.look(self.disk))

    def _recover(self) -> Recovered:
        by = self.hooks.recover
        if self.index is not None and by is recover:
            by = self.index.recover
        return by(
            self.disk,
            data_id=DATA_ID,
            segment_bytes=self._segment_bytes,
            device_block_bytes=self._device_block_bytes,
        )

    def _note_live(self, broker: Any) -> None:
        if self.chance.random() < 0.2 and not broker.state.arrivals:
            self.judge.note_live(broker)

    def died(self, how: str) -> None:
        """The process is gone; with it, or not, what the machine had not written yet."""
        self.note(f"died: {how}")
        power_cut = self.chance.random() < 0.5
        if self.retention is not None:
            self.retention.forget_life(power_cut=power_cut)
        if power_cut:
            self.counts.power_cuts += 1
            self._failed_reads += self.disk.failed_reads
            self.disk = self.disk.crash()
            self.note("the cache of the disk is lost")
        else:
            self.counts.kills += 1
            self.disk.survive_kill()
        if self.chance.random() < 0.2:
            self.note("and again soon")
            self.disk.crash_after(self.chance.randint(1, 6))
        self._bury()

    def _bury(self) -> None:
        self.life = None
        if self.index is not None:
            self.index.forget_life()
        self._paused.clear()
        self.ledger.forget_transient()
        if not self._expect_counts:
            self.ledger.said.clear()
        for link in self.links:
            link.broker_died(self.chance)
            self.ledger.end(link.serial)

    # ---- steps: network and clients

    def client_acts(self) -> None:
        """A client does a few things in a row."""
        if self.clients:
            client = self.chance.choice(self.clients)
            for _ in range(self.chance.randint(1, 4)):
                client.act()
            if client.is_leaving:
                self._vanish(client)

    def connect(self) -> None:
        """A client comes, if there is room for one."""
        life = self.life
        assert life is not None
        free = set(range(self._slots)) - {client.slot for client in self.clients}
        if not free or not life.is_serving or life.hub.stopping or life.hub.failure:
            return
        self._links += 1
        room = min(self._stomp.room, self.languages.options.room)
        link = Link(self._links, write_high(room), self._said)
        client = self._client(min(free), link)
        if self._is_draining:
            client.wait()
        self.links.append(link)
        self.clients.append(client)
        self.note(f"link {link.serial} connects, {client.language}")
        life.accept(link)

    def _client(self, slot: int, link: Link) -> Client | DirectClient:
        ledger, chance = self.ledger, self.chance
        drawn: dict[str, Any] = {"queues": self.queues, "resends": self.resends}
        if self.swarm is None or self._is_draining:
            return Client(slot, link, ledger, chance, self.clock, **drawn)
        if self.languages.uses_direct(self.swarm.features):
            link.is_direct, link.is_amqp = True, chance.random() < 0.7
            direct = DirectAmqpClient if link.is_amqp else DirectStompClient
            return direct(slot, link, self.judge.direct, ledger, chance)
        drawn["features"] = self.swarm.features
        link.is_amqp = self.languages.speaks_amqp(self.swarm.features)
        kind = AmqpClient if link.is_amqp else SwarmClient
        return kind(slot, link, ledger, chance, self.swarm.wall, **drawn)

    def _said(self, link: Link, data: bytes) -> None:
        assert self.life is not None
        self._trace.update(data)
        if self.life.hub.failure is not None:
            raise Violation("P1", f"the broker still speaks after the journal failed: {data!r}")
        self.judge.hear(link, data)

    def bytes_to_broker(self) -> None:
        """Some bytes of a client arrive."""
        links = [link for link in self.links if link.can_reach_broker()]
        if links:
            link = self.chance.choice(links)
            link.carry_to_broker(self._piece(len(link.to_broker)))

    def bytes_to_client(self) -> None:
        """Some bytes of the broker arrive, or its end of the connection closes."""
        readers = [client for client in self.clients if client.link.can_reach_client()]
        if not readers:
            return
        client = self.chance.choice(readers)
        if client.link.to_client:
            client.receive(client.link.carry_to_client(self._piece(len(client.link.to_client))))
        elif client.link.broker_gone:
            self._forget(client)

    def _piece(self, available: int) -> int:
        roll = self.chance.random()
        if roll < 0.7:
            return min(available, 65_536)
        return self.chance.randint(1, min(available, 300 if roll < 0.9 else 5_000))

    def _forget(self, client: Client | DirectClient) -> None:
        client.link.client_gone = True
        client.lost()
        self.clients.remove(client)

    def vanish(self) -> None:
        """A client goes without a word; the broker learns of it some time later."""
        if self.clients:
            self._vanish(self.chance.choice(self.clients))

    def _vanish(self, client: Client | DirectClient) -> None:
        self.note(f"link {client.link.serial} vanishes")
        client.link.to_broker.clear()
        client.link.lost_at = self.clock.now + self.chance.choice((0, 200_000, 20_000_000))
        self._forget(client)

    def disconnect(self) -> None:
        """A client takes leave."""
        if self.clients:
            self.chance.choice(self.clients).disconnect()

    def stall(self) -> None:
        """A client stops reading, or resumes."""
        if self.clients:
            link = self.chance.choice(self.clients).link
            link.stalled = not link.stalled and not self._is_settling

    # ---- steps: the broker's inside

    def turn(self) -> None:
        """The hub takes its turn."""
        if self.life is not None and self.life.turn_due:
            self.life.turn()

    def login(self) -> None:
        """A login is answered."""
        if self.life is not None and self.life.logins:
            answer = self.life.logins.pop(0)
            if self.swarm is not None and self.swarm.refuses_login():
                answer(None, "the login was refused")
            else:
                answer("guest", "")

    def write(self) -> None:
        """The writer writes a block."""
        if self.life is None or (self.hardships is not None and self.hardships.writer_hangs):
            return
        writer = self.life.writer
        if writer.has_work or writer.looks_for_room:
            acknowledged = len(self.judge.facts.acknowledged)
            writer.step()
            self.judge.look(self.disk)
            if writer.looks_for_room and len(self.judge.facts.acknowledged) > acknowledged:
                self.counts.drained_while_full += 1

    def hear_news(self) -> None:
        """The hub hears of the writer."""
        life = self.life
        if life is None or not life.writer.news:
            return
        if life.writer.news[0][0] == "free":
            self.counts.disk_freed += 1
        life.hear_news()

    def _gave_up(self, life: Incarnation) -> None:
        """The broker ends itself, some time after the journal failed."""
        self.counts.failures += 1
        self.note(f"the broker gives up: {life.hub.failure}")
        life.writer.close()
        self.died("the journal failed")

    def _stopped_cleanly(self, life: Incarnation) -> None:
        life.writer.mark(self.clock.now)
        while life.writer.has_work:
            life.writer.step()
        if life.writer.failed:
            self.died("the journal failed at the stop")
            return
        self.counts.clean_stops += 1
        self.judge.look(self.disk)
        self.judge.check_state(life.broker.state)
        life.writer.close()
        if self.retention is not None:
            self.retention.forget_life(power_cut=False)
        self.note("stopped cleanly")
        self._bury()

    def time_passes(self) -> None:
        """The clock moves, and what waits for it happens."""
        self.clock.advance(self.chance.choice((100, 2_000, 30_000, 30_000, 400_000)))
        life = self.life
        assert life is not None
        for link in list(self.links):
            if link.is_to_end():
                link.end()
                self.ledger.end(link.serial)
            if link.broker_gone and link.client_gone:
                self.links.remove(link)
        if self.clock.now >= self._next_tick:
            self._next_tick = self.clock.now + TICK_US
            step = self.swarm.wall.step() if self.swarm is not None else 0
            if step:
                # As the service does, at its next tick.
                life.hub.clock_stepped(step)
            life.hub.tick()
        self.counts.blocked += bool(life.hub.blocked.count)
        if life.is_quiet and life.hub.failure is None:
            self._nobody_waits_in_vain(life)
            self._check_direct(life)
            self.judge.check_parted()
        if life.is_quiet and life.hub.failure is None and self.chance.random() < 0.2:
            self.judge.look(self.disk)
            self.judge.check_state(life.broker.state)
            self.judge.check_rest(life.broker)

    def _nobody_waits_in_vain(self, life: Incarnation) -> None:
        """When nothing is under way, producers are blocked only because a limit is reached, and
        connections end with their peers."""
        for name in life.broker.room.waiting.addresses():
            if next_in_line(life.broker, name) and not life.hub.stopping:
                raise Violation("liveness", f"somebody waits for {name}, which has room")
        abandoned = life.abandoned(link for link in self.links if not link.broker_gone)
        if abandoned and not life.hub.stopping:
            raise Violation("liveness", f"nobody closes the connections {abandoned}")

    def _check_direct(self, life: Incarnation) -> None:
        """Judge direct addresses, when nothing is under way in the broker."""
        if life.is_closing:
            # A connection hears that it is closed before its receivers have ended.
            return
        direct = [each for each in self.clients if isinstance(each, DirectClient)]
        credits = (credit for each in direct for credit in each.credits())
        self.ledger.deeds["direct judged"] += self.judge.direct.check_rest(credits)

    def administrate(self) -> None:
        """An administrator does something to a queue."""
        administrate(self)

    # ---- steps: faults

    def break_something(self) -> None:
        """Something goes wrong now, or in one of the next calls of the disk."""
        break_something(self)

    # ---- the end

    def stop(self) -> None:
        """No more faults: whatever is under way ends, and the broker stops cleanly."""
        self._is_settling = True
        self.note("settling")
        if self.hardships is not None:
            self.hardships.end()
        if self.retention is not None:
            self.retention.settle()
        if self.swarm is not None:
            self.swarm.settle(self.life)
        if self.life is not None:
            self.life.lengthen()
        self.disk.survive_kill()
        self.disk.capacity_bytes = None
        for client in self.clients:
            client.link.stalled = False
        if self.languages.table:
            self._rest()
        stops = self.counts.clean_stops
        while self.counts.clean_stops == stops:
            self._until(self._serves, "the broker does not start")
            if self.life is not None and not self.life.hub.stopping:
                self.life.stop()
            self._until(lambda: self.life is None, "the broker does not stop")
        while self.clients:
            self.bytes_to_client()

    def _rest(self) -> None:
        """Let all that is on its way arrive, and nobody do anything more, so that what clients of
        direct addresses wait for can be judged."""
        actions = (
            self.bytes_to_broker, self.bytes_to_client, self.turn, self.write, self.hear_news,
            self.login, self.time_passes,
        )  # fmt: skip
        self._until(self._has_rested, "nothing comes to rest", actions)
        if self.life is not None and self.life.is_quiet and self.life.hub.failure is None:
            self._check_direct(self.life)

    def _has_rested(self) -> bool:
        """Whether all has arrived that can, and the broker knows of each client that has gone."""
        life = self.life
        if life is None or life.hub.failure is not None or life.hub.stopping:
            return True
        is_ending = any(
            (link.client_gone or link.close_at) and not link.broker_gone for link in self.links
        )
        moves = any(link.can_reach_broker() or link.can_reach_client() for link in self.links)
        return life.is_quiet and not (is_ending or moves or life.is_closing)

    def drain(self) -> None:
        """Start again: every queue must drain, and what was promised must have been delivered."""
        self._until(self._serves, "the broker does not start")
        assert self.life is not None
        # The one client that drains must not wait for itself.
        self.life.lift_limits(SETTINGS)
        for name in self.queues:
            if name in self.life.broker.state.queue_by_name:
                self.life.hub.request(ResumeQueue(name))
        self._let_history_leave()
        self._drain_queues()

    def _let_history_leave(self) -> None:
        """Without faults all that is sealed leaves, whatever is queued in it."""
        retention = self.retention
        if retention is not None:
            # New consumers would hold messages that are to be drained.
            self._slots = 0
            retention.begin_last()
            self._until(retention.is_done, "retention does not come to an end")

    def _serves(self) -> bool:
        return self.life is not None and self.life.is_serving

    def _drain_queues(self) -> None:
        assert self.life is not None
        last_tag = len(self.ledger.sent)
        queues = self.life.broker.state.queue_by_name
        self._slots = 1
        self._is_draining = True
        for name in (*self.queues, DEAD_LETTERS, "expired", FALLING_BACK):
            queue = queues.get(name)
            # Some kinds of queues are never empty, or wait for more consumers.
            if queue is None or name in MIXED:
                continue
            self._drain_queue(queue)
        life = self.life
        self._until(lambda: life.is_quiet and life.hub.outbox.blocks_in_flight == 0, "no rest")
        self.judge.look(self.disk)
        self.judge.check_state(life.broker.state)
        self.judge.check_drained(last_tag)
        if self.retention is not None:
            self.retention.check_whole(self.disk, self.judge.facts.lsn)

    def _drain_queue(self, queue: Queue) -> None:
        """Let a client take all that a queue has.

        One that says too much before its login, or to a full address, is refused: another one
        comes.
        """
        client: Client | None = None

        def is_drained() -> bool:
            nonlocal client
            if client is None or client.is_over:
                ready = (
                    each
                    for each in self.clients
                    if isinstance(each, Client) and each.is_connected and not each.is_over
                )
                client = next(ready, None)
                if client is not None:
                    # The queue that a direct address falls back to is named in full.
                    is_direct = queue.name == FALLING_BACK
                    client.drain(queue.name, f"{FALLING_BACK}::{FALLING_BACK}" * is_direct)
            return client is not None and not queue.message_count

        self._until(is_drained, f"{queue.name} does not drain")
        assert client is not None
        client.disconnect()
        self._until(lambda: client not in self.clients, "no end")

    def _until(
        self,
        condition: Callable[[], bool],
        complaint: str,
        actions: tuple[Callable[[], None], ...] = (),
    ) -> None:
        """Go on without faults until something is so; if that never comes, something hangs. Clients
        act, too, if no `actions` are given."""
        actions = actions or (
            self.client_acts, self.bytes_to_broker, self.bytes_to_client, self.turn, self.write,
            self.hear_news, self.login, self.time_passes, self.connect,
        )  # fmt: skip
        for _ in range(QUIET_STEPS_MAX):
            if condition():
                return
            self._step(self.chance.choice(actions))
        raise Violation("liveness", complaint)
