"""A cluster whose clients know what was confirmed, and must find it after any mishap.

Each node is the product's `Node`, `Following` and journal, on a disk that loses what was not
synced. A client writes numbers through the leader. The oracle is the record of the clients: each
confirmed event is in the journal of each later leader, once, in its place; confirms of an older
epoch never follow those of a newer one; in the end all journals are the same.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from daybook.journal.blocks.batch import Batch
from daybook.journal.errors import DiskFull, JournalError, JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.replication.following import Following
from daybook.replication.in_sync import InSync
from daybook.replication.messages import Ack, Answer, Ask, HandedOver, Join, Said
from daybook.replication.node import (
    Acquire,
    Action,
    Finish,
    Forget,
    Lead,
    Lease,
    LookUp,
    Node,
    Notice,
    ReadList,
    Release,
    Renew,
    Role,
    Send,
    Stop,
    Times,
    WriteList,
)
from daybook.replication.quorum import Acks
from daybook.replication.record import RecordFile
from daybook.replication.replica_files import ReplicaFiles
from tests.simulation.machine.disk import NO_FAULTS, FaultyDisk, PowerCut
from tests.simulation.standbys.contents import contents, contents_at_rest
from tests.simulation.standbys.lanes import LeaderLanes
from tests.simulation.standbys.world import MS, Arbiter, Network, World
from tests.suites.journal_rows import LAYOUT, make_batch

TIMES: Final = Times(lag=2_000 * MS)
TICK_US: Final = 50 * MS
RIGHT_RATES: Final = 0.88, 1.3
"""Of clocks, so that the margin of a lease covers what they differ."""
SEGMENT_BYTES: Final = 32 << 10
LAST: Final = 1_000_000
"""Less the epoch, this is the last number of a lead that is handed over."""


HALF: Final = 0.5
SLOW: Final = 0.1
"""How many shared blocks take the leader's disk a while."""

Work: TypeAlias = Callable[[], None]


class Broken(AssertionError):
    """A promise is broken."""


class Machine:
    """One node with its disks and its clock; it may be dead, stand still, or run."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster: Final = cluster
        self.world: Final = cluster.world
        self.name: Final = name
        seed = self.world.chance.getrandbits(32)
        self.disk = FaultyDisk(seed)
        self.notes = FaultyDisk(seed + 1)
        self.kept = FaultyDisk(seed + 2)
        self.rate = self.world.chance.uniform(*RIGHT_RATES)
        self.clock_then = self.world.chance.randint(0, 10**9), 0
        self.is_alive = False
        self.stands_still = False
        self.life = 0
        self.waiting: list[tuple[int, Work]] = []
        self.node: Node
        self.following: Following
        self.journal: Journal | None = None
        self.values: list[tuple[int, int]] = []
        self.lanes: LeaderLanes | None = None
        self.is_shared = False
        # The journal that writes a block now.
        self.writing: Journal | None = None
        self.is_closing = False
        # Lanes that this node takes, with their leaders and the connections that they belong to.
        self.taken: Final[dict[int, tuple[LeaderLanes, int]]] = {}
        self.connections: dict[str, int] = {}
        # Nodes that died, while this one has not heard that the connection ended.
        self.died_unheard: Final[set[str]] = set()
        self.dies_at: type[Ask | Join] | None = None

    @property
    def clock(self) -> int:
        shown, then = self.clock_then
        return shown + int((self.world.now - then) * self.rate)

    def run_clock(self, rate: float) -> None:
        """Let the clock go at another rate from now on."""
        self.clock_then = self.clock, self.world.now
        self.rate = rate

    # ---- life

    def start(self) -> None:
        self.life += 1
        self.is_alive, self.stands_still, self.waiting = True, False, []
        self.journal = self.lanes = None
        self.taken.clear()
        self.connections = {}
        self.died_unheard.clear()
        try:
            self.following = Following(self.name, "cluster", RecordFile(self.notes))
            self.following.files = self.open_files()
        except PowerCut:
            self.kill(power=True)
            self.start_later(50, 9_000)
            return
        except (JournalFailed, OSError) as error:
            self.fail(error)
            return
        self.following.on_handed_over = lambda to: self.node.handed_over(to, self.clock)
        chance = self.world.chance
        self.node = Node(
            self.name, self.cluster.names, self.cluster.acks, self.following, times=TIMES,
            chance=chance.randint,
        )  # fmt: skip
        for other in self.cluster.names:
            if other != self.name:
                self.connect(other)
        self.tick_later(self.life)

    @property
    def promised(self) -> int:
        return self.following.record.record.promised

    def open_files(self) -> ReplicaFiles:
        return ReplicaFiles(self.disk, self.kept, LAYOUT, segment_bytes=SEGMENT_BYTES)

    def tick_later(self, life: int) -> None:
        def tick() -> None:
            if self.life != life or not self.is_alive:
                return
            self.do(lambda: self.node.tick(self.clock))
            self.tick_later(life)

        self.world.after(TICK_US, tick)

    def kill(self, *, power: bool) -> None:
        self.world.note(f"{self.name} dies{' with its power' if power else ''}")
        self.is_alive = False
        self.life += 1
        for attribute in ("disk", "notes", "kept"):
            disk: FaultyDisk = getattr(self, attribute)
            if power:
                setattr(self, attribute, disk.crash())
            else:
                disk.survive_kill()
        self.cluster.network_lost(self.name)

    def heal(self) -> None:
        """Let the disks work again."""
        for disk in (self.disk, self.notes):
            disk.capacity_bytes, disk.faults = None, NO_FAULTS
            disk.crash_after(1 << 60)

    def die_for_a_moment(self) -> None:
        """Lose the power, and start again soon."""
        self.dies_at = None
        self.kill(power=True)
        self.start_later(50, 500)

    def lose_disk(self) -> None:
        seed = self.world.chance.getrandbits(32)
        self.disk = FaultyDisk(seed)
        if self.world.chance.random() < HALF:
            self.notes = FaultyDisk(seed + 1)
            self.world.note(f"{self.name} has lost its disk")
        else:
            self.world.note(f"{self.name} has lost its journal")

    @property
    def is_whole(self) -> bool:
        return self.following.record.record.is_whole and not self.disk.dead

    def fail(self, why: Exception) -> None:
        """End the process, as an error of its disk does, and start it again."""
        self.world.note(f"{self.name} ends: {why}")
        self.kill(power=False)
        self.start_later(50, 2_000)

    def start_later(self, least: int, most: int) -> None:
        """Start between so many milliseconds from now, if it does not run then."""

        def start() -> None:
            if not self.is_alive:
                self.world.note(f"{self.name} starts")
                self.start()

        self.world.after(self.world.chance.randint(least, most) * MS, start)

    def do(self, work: Work) -> None:
        """Do something when the process runs: later, if it stands still."""
        if not self.is_alive:
            return
        if self.stands_still:
            self.waiting.append((self.life, work))
            return
        try:
            work()
            self.carry_out()
        except PowerCut:
            self.kill(power=True)
            self.start_later(50, 9_000)
        except (JournalFailed, OSError) as error:
            self.fail(error)

    def wake(self) -> None:
        self.world.note(f"{self.name} wakes")
        self.stands_still = False
        waiting, self.waiting = self.waiting, []
        for life, work in waiting:
            if life == self.life:
                self.do(work)

    # ---- actions of the node

    def carry_out(self) -> None:
        while self.is_alive and self.node.actions:
            self.carry_out_one(self.node.actions.popleft())
        self.confirm()

    def carry_out_one(self, action: Action) -> None:
        arbiter, life = self.cluster.arbiter, self.life

        def mine(work: Callable[[Any], None]) -> Callable[[Any], None]:
            def later(found: Any) -> None:
                if self.life == life:
                    self.do(lambda: work(found))

            return later

        if isinstance(action, Acquire):
            if self.following.files is None:
                return

            def granted(epoch: int) -> None:
                if epoch:
                    self.node.granted(Lease(epoch, TIMES.lease), action.asked, self.clock)

            acquire = partial(arbiter.acquire, self.name, self.promised)
            arbiter.ask(self.name, acquire, mine(granted))
        elif isinstance(action, Renew):

            def heard(there: bool) -> None:
                if there:
                    self.node.renewed(Lease(action.epoch, TIMES.lease), action.asked)
                else:
                    self.node.gone(action.epoch, self.clock)

            arbiter.ask(self.name, lambda: arbiter.renew(action.epoch), mine(heard))
        elif isinstance(action, LookUp):

            def held(found: tuple[int, str]) -> None:
                if found[0]:
                    self.node.looked_up(*found)

            arbiter.ask(self.name, arbiter.holder, mine(held))
        elif isinstance(action, ReadList):
            arbiter.ask(self.name, arbiter.in_sync, mine(partial(self.listed, action.epoch)))
        elif isinstance(action, WriteList):
            arbiter.ask(
                self.name, partial(arbiter.set_in_sync, action.epoch, action.wanted),
                mine(partial(self.listed, action.epoch)),
            )  # fmt: skip
        elif isinstance(action, Notice):
            self.world.note(f"{self.name}: {action.text}")
        elif isinstance(action, Release):
            arbiter.ask(self.name, lambda: arbiter.release(action.epoch), lambda _: None)
        elif isinstance(action, Send):
            if isinstance(action.said, HandedOver) and action.said.to == action.node:
                self.cluster.check_next(self, self.cluster.machines[action.node])
            self.cluster.say(self, action.node, action.said)
        elif isinstance(action, Finish):
            self.finish()
        elif isinstance(action, Forget):
            if self.lanes is not None:
                self.lanes.forget(action.node)
            else:
                self.node.forgotten(action.node, 0, self.clock)
        elif isinstance(action, Lead):
            self.lead(action.epoch)
        else:
            assert isinstance(action, Stop)
            self.stop(action.why)

    def listed(self, epoch: int, found: InSync | None) -> None:
        if found is not None:
            self.node.listed(epoch, found, self.clock)

    def connect(self, other: str) -> None:
        self.connections[other] = self.cluster.new_connection()
        self.node.connected(other)

    # ---- leading

    def lead(self, epoch: int) -> None:
        if self.node.epoch != epoch or self.node.role is not Role.OPENING:
            return
        assert self.following.files is not None
        self.following.files.close()
        self.following.files = None
        try:
            journal = self.journal = self.open_journal(epoch)
        except DiskFull as error:
            # A broker cannot begin, and ends.
            self.node.ended(str(error), self.clock)
            self.follow_later()
            return
        self.world.note(f"{self.name} leads in {epoch} from {journal.place}, {journal.next_lsn}")
        self.cluster.check_leader(self, epoch)
        self.node.leads(self.disk, journal.data_id, journal.place, self.clock)
        self.values, self.is_closing = [], False
        self.lanes = LeaderLanes(self) if self.cluster.has_lanes else None
        journal.on_unsynced = self.send_unsynced
        self.append(-epoch)

    def open_journal(self, epoch: int) -> Journal:
        if any(name.endswith(".seg") for name in self.disk.names()):
            return Journal.open(self.disk, LAYOUT, segment_bytes=SEGMENT_BYTES)[0]
        return Journal.create(
            self.disk, LAYOUT, data_id=epoch.to_bytes(16), segment_bytes=SEGMENT_BYTES
        )

    def stop(self, why: str) -> None:
        self.world.note(f"{self.name} leads no more: {why}")
        self.values = []
        self.lanes = None
        if self.journal is not None:
            self.journal.close()
            self.journal = None
        self.follow_later()

    def follow_later(self) -> None:
        """Follow when the broker has ended, which takes a while."""
        life = self.life

        def follow() -> None:
            if self.life == life and self.journal is None and self.following.files is None:
                self.following.files = self.open_files()

        self.world.after(self.world.chance.randint(1, 3_000) * MS, lambda: self.do(follow))

    def finish(self) -> None:
        """Stop the broker cleanly, for a hand-over."""
        life, epoch = self.life, self.node.epoch

        def close() -> None:
            journal = self.journal
            if self.life != life or journal is None or self.node.epoch != epoch:
                return
            if self.is_writing:
                self.world.after(MS, lambda: self.do(close))
                return
            if not self.is_closing:
                self.is_closing = True
                self.append(-LAST - epoch)
                close()
                return
            with suppress(DiskFull):
                journal.mark(self.world.now)
            place, lsn = journal.place, journal.durable_lsn
            journal.close()
            self.journal = None
            lanes = self.lanes
            if lanes is None:
                self.node.finished(place, lsn, self.clock)
            else:
                lanes.tell()
                lanes.to_node(lambda: self.node.finished(place, lsn, self.clock))
            self.follow_later()

        self.world.after(self.world.chance.randint(1, 300) * MS, lambda: self.do(close))

    @property
    def is_writing(self) -> bool:
        return self.writing is not None and self.writing is self.journal

    def append(self, value: int) -> None:
        """Write a number, as one event of a block, unless another one is written."""
        assert self.journal is not None
        if self.is_writing:
            return
        lsn = self.journal.next_lsn
        row = 1, 1, 1, lsn, self.world.now
        size = self.world.chance.choice((0, 10, 900))
        batch = make_batch(lsn, [(row, str(value).encode(), b"x" * size)])
        with suppress(DiskFull):
            self._put(self.journal, batch, partial(self._wrote, lsn, value))

    def _wrote(self, lsn: int, value: int) -> None:
        assert self.journal is not None
        self.values.append((lsn, value))
        if self.lanes is not None:
            self.lanes.wrote(self.journal.place, lsn)
        else:
            self.node.wrote(self.journal.place, lsn)

    def _put(self, journal: Journal, batch: Batch, then: Work) -> None:
        """Write a block, which followers may get, and acknowledge, before it is here."""
        lanes, life = self.lanes, self.life
        block = journal.prepare(batch) if lanes is not None else None
        self.is_shared = False
        if lanes is None or block is None:
            journal.append(batch)
            then()
            return
        self.is_shared = lanes.takes(journal.place)
        if self.is_shared:
            lanes.send(journal.place, block.data)

        def put() -> None:
            if self.life != life or self.journal is not journal:
                return
            try:
                journal.put(block)
            except OSError as error:
                raise journal.fail(error) from error
            journal.advance(block, journal.entry_of(block))
            self.writing = None
            then()

        if self.is_shared and self.world.chance.random() < SLOW:
            self.writing = journal
            self.world.after(self.world.chance.randint(1, 30) * MS, lambda: self.do(put))
        else:
            put()

    def send_unsynced(self, place: Place) -> None:
        """Let followers have a block while it is synced here, now and then."""
        if not self.is_shared and self.world.chance.random() < HALF:
            self.node.writing(place)
            self.carry_out()

    def confirm(self) -> None:
        """Tell clients what counts."""
        if not self.values or not self.is_alive or self.journal is None:
            return
        durable = self.node.durable(self.clock)
        if self.lanes is not None:
            self.lanes.counting.is_trusted |= durable > 0
            durable = max(durable, self.lanes.durable())
            self.lanes.confirmed = max(self.lanes.confirmed, durable)
        while self.values and self.values[0][0] <= durable:
            lsn, value = self.values.pop(0)
            self.cluster.confirmed(self, self.node.epoch, lsn, value)


class Cluster:
    """All machines, and what clients know."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        acks: Acks = Acks.MAJORITY,
        clocks_are_right: bool = True,
        has_lanes: bool = False,
    ) -> None:
        """With clocks that are wrong, leases of two nodes may overlap: then a confirm may come
        after those of a newer epoch, but none may be lost."""
        self.clocks_are_right: Final = clocks_are_right
        self.has_lanes: Final = has_lanes
        # After how many milliseconds a connection is opened again.
        self.pause: Final = (1, 100) if has_lanes else (20, 400)
        self.world: Final = World(seed)
        self.network: Final = Network(self.world)
        self.arbiter: Final = Arbiter(self.world, TIMES.lease)
        self.acks: Final = acks
        self.names: Final = [chr(ord("a") + number) for number in range(nodes)]
        self.machines: Final = {name: Machine(self, name) for name in self.names}
        self.known: dict[int, int] = {}
        self.newest_epoch = 0
        # Which machine confirmed something in each epoch.
        self.led_by: dict[int, str] = {}
        self.confirms = 0
        self.is_resting = False
        self.sent = 0
        self._connections = 0

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()
        self._send_later()

    def _send_later(self) -> None:
        def send() -> None:
            leaders = [each for each in self.machines.values() if each.journal is not None]
            for each in leaders:
                if each.node.role is Role.LEADING:
                    self.sent += 1
                    each.do(partial(self._write, each, self.sent))
            self._send_later()

        pause = 400 if self.is_resting else 100
        self.world.after(self.world.chance.randint(1, pause) * MS, send)

    @staticmethod
    def _write(machine: Machine, number: int) -> None:
        if machine.journal is not None and machine.node.role is Role.LEADING:
            machine.append(number)

    # ---- connections

    def new_connection(self) -> int:
        self._connections += 1
        return self._connections

    def say(self, source: Machine, target: str, said: Said) -> None:
        connection = source.connections.get(target)
        there = self.machines[target]

        life = there.life

        def arrive() -> None:
            # Messages that were under way when the connection ended arrive, or do not.
            is_late = source.connections.get(target) != connection
            if is_late and self.world.chance.random() < HALF:
                return
            if there.is_alive and there.life == life:
                there.do(receive)
            elif not is_late:
                self.end(source, target, connection)

        def receive() -> None:
            assert connection is not None
            is_last = there.dies_at is not None and isinstance(said, there.dies_at)
            if is_last and isinstance(said, Join):
                there.disk.crash_after(self.world.chance.randint(1, 6))
            try:
                answer = self._received(there, connection, said)
            except DiskFull:
                self.end(source, target, connection)
                return
            if isinstance(answer, Ack):
                self.check_ack(source, there)
            if answer is not None:
                back(answer)
            if isinstance(answer, Ack) and there.following.took_early:
                there.following.took_early = False
                for lane, (lanes, peer) in there.taken.items():
                    if peer == connection:
                        lanes.answer(there.name, lane, answer)
            if is_last:
                there.die_for_a_moment()

        def back(answer: Answer) -> None:
            assert connection is not None
            if not self.network.send(target, source.name, connection, lambda: hear(answer)):
                self.end(source, target, connection)

        def hear(answer: Answer) -> None:
            if source.connections.get(target) == connection:
                source.do(lambda: source.node.answered(target, answer, source.clock))

        if connection is None:
            return
        if not self.network.send(source.name, target, connection, arrive):
            self.end(source, target, connection)

    def _received(self, there: Machine, connection: int, said: Said) -> Answer | None:
        following = there.following
        had = min(following.confirmed, following.files.lsn if following.files else 0)
        known = self.known_at(there) if isinstance(said, Join) else 0
        try:
            answer = following.receive(connection, said)
        except (DiskFull, JournalFailed):
            raise
        except JournalError as error:
            raise Broken(f"{there.name}: {error}") from error
        lsn = following.files.lsn if following.files else had
        if isinstance(said, Join) and lsn < had and self.keeps_promises:
            raise Broken(f"{there.name} cut off what it knew to be confirmed: {had} became {lsn}")
        if isinstance(said, Join) and self.keeps_promises and self.known_at(there) < known:
            raise Broken(f"{there.name} cut off what was confirmed")
        return answer

    def known_at(self, machine: Machine) -> int:
        """Return how many confirmed events a node has."""
        there = contents(machine.disk)
        return sum(there.get(lsn) == value for value, lsn in self.known.items())

    def end(self, source: Machine, target: str, connection: int | None) -> None:
        """End a connection; it is opened again after a while."""
        if source.connections.get(target) != connection:
            return
        del source.connections[target]
        source.died_unheard.discard(target)
        source.do(lambda: source.node.lost(target))
        life = source.life

        def again() -> None:
            if source.life == life and target not in source.connections:
                source.do(lambda: source.connect(target))

        self.world.after(self.world.chance.randint(*self.pause) * MS, again)

    def network_lost(self, name: str) -> None:
        """End all connections to a node that died, soon: its last messages arrive."""
        for source in self.machines.values():
            if source.lanes is not None and source.is_alive:
                ended = partial(source.lanes.lost, name)
                self.world.after(self.world.chance.randint(1, 300) * MS, ended)
            if name in source.connections and source.is_alive:
                end = partial(self.end, source, name, source.connections[name])
                source.died_unheard.add(name)
                self.world.after(self.world.chance.randint(1, 300) * MS, end)

    # ---- the oracle

    def confirmed(self, machine: Machine, epoch: int, lsn: int, value: int) -> None:
        if epoch < self.newest_epoch and self.clocks_are_right:
            raise Broken(f"{machine.name} confirmed in {epoch}, after {self.newest_epoch}")
        self.newest_epoch = max(self.newest_epoch, epoch)
        if self.keeps_promises and self.led_by.setdefault(epoch, machine.name) != machine.name:
            raise Broken(f"{machine.name} confirmed in {epoch}, as did {self.led_by[epoch]}")
        if value in self.known:
            raise Broken(f"{value} was confirmed twice")
        self.known[value] = lsn
        self.confirms += 1

    def check_ack(self, source: Machine, there: Machine) -> None:
        """Check what a follower must have noted before it acknowledges something."""
        known = there.following.record.record
        if known.node != source.name:
            raise Broken(f"{there.name} acknowledged to {source.name}, and promised {known.node}")
        if not known.epochs or known.epochs[-1].epoch != known.promised:
            raise Broken(f"{there.name} acknowledged in {known.promised}, and noted {known.epochs}")

    @property
    def keeps_promises(self) -> bool:
        """With acks = "none" what was confirmed is lost with the node that did it."""
        return self.acks is not Acks.NONE

    def is_safe_without(self, machine: Machine) -> bool:
        """Return whether another node has everything that was confirmed."""
        return any(
            not self.missing(contents(each.disk))
            for each in self.machines.values() if each is not machine and not each.disk.dead
        )  # fmt: skip

    def missing(self, there: dict[int, int]) -> list[tuple[int, int]]:
        """Return the numbers that were confirmed and are not there, with their places."""
        return [(value, lsn) for value, lsn in self.known.items() if there.get(lsn) != value]

    def check_leader(self, machine: Machine, epoch: int) -> None:
        if epoch < self.newest_epoch:
            # It stood still meanwhile, and confirms nothing: `confirmed` sees to that.
            return
        there = contents(machine.disk)
        self.check_content(f"{machine.name}, which leads in {epoch},", there)

    def check_next(self, leader: Machine, machine: Machine) -> None:
        """Check that the node to which the lead is handed over has everything, unless it died in
        this moment, perhaps with its disk, or follows another leader already, and refuses."""
        self.world.note(f"{leader.name} hands the lead over to {machine.name}")
        has_left = machine.following.record.record.promised > leader.node.epoch
        if has_left or machine.name in leader.died_unheard:
            return
        there = contents(machine.disk)
        missing = {
            lsn
            for lsn in contents(leader.disk).keys() - there.keys()
            if lsn > max(there, default=0)
        }
        if missing:
            raise Broken(f"{machine.name} is to lead, and lacks {sorted(missing)}")

    def check_content(self, title: str, there: dict[int, int]) -> None:
        if not self.keeps_promises:
            known = self.known.items()
            self.known = {value: lsn for value, lsn in known if there.get(lsn) == value}
        for value, lsn in self.missing(there):
            raise Broken(f"{title} lacks {value} at {lsn}: {there.get(lsn)} is there")

    def rest(self) -> None:
        """Mend everything, and check what must be then."""
        self.network.blocked, self.network.slow = set(), 1
        self.arbiter.is_down, self.arbiter.on_list = False, None
        self.is_resting = True
        self.world.note("rest")
        for machine in self.machines.values():
            # With a planned one it would be another mishap.
            machine.dies_at = None
            machine.heal()
            machine.run_clock(1.0)
            if not machine.is_alive:
                machine.start()
            elif machine.stands_still:
                machine.wake()
        before = self.confirms
        self.world.run(self.world.now + 40_000 * MS)
        if self.confirms <= before:
            raise Broken("nothing is confirmed any more")
        leaders = self._leaders()
        for _ in range(20):
            if len(leaders) == 1:
                break
            # The arbiter may have lost the last renewals.
            self.world.run(self.world.now + 1_000 * MS)
            leaders = self._leaders()
        else:
            raise Broken(f"{len(leaders)} nodes lead")
        [leader] = leaders
        theirs = contents_at_rest(leader.disk)
        self.check_content(leader.name, theirs)
        for machine in self.machines.values():
            if machine is not leader:
                self.check_content_of_follower(machine, leader, theirs)

    def _leaders(self) -> list[Machine]:
        return [each for each in self.machines.values() if each.node.role is Role.LEADING]

    @staticmethod
    def check_content_of_follower(
        machine: Machine, leader: Machine, theirs: dict[int, int]
    ) -> None:
        ours = contents_at_rest(machine.disk)
        common = {lsn: value for lsn, value in theirs.items() if lsn in ours}
        if {lsn: ours[lsn] for lsn in common} != common:
            raise Broken(f"{machine.name} has another history than {leader.name}")
        lag = max(theirs, default=0) - max(ours, default=0)
        if lag > 50:
            raise Broken(f"{machine.name} lags by {lag} events")
