"""A node as a process: gives the core a clock, sockets, files, an arbiter and a broker.

Data flow: what arrives, and time, go to the core (`node`, `following`); after each call its actions
are carried out in order. Work of a follower's disk is done in a thread, one piece after the other
in the order in which it came, so that beats are answered meanwhile; everything else runs in the
loop, and a few bytes for a quick disk.

Fault model: a disk that fails ends the node; a full one, the connection of whoever sends. The
arbiter may hang or fail. A node that stood still finds its lease run out before it says anything
else. Must never know what the broker does.
"""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from daybook.errors import DaybookError
from daybook.journal.blocks.format import Damage
from daybook.journal.disk import Disk
from daybook.journal.errors import DiskFull
from daybook.replication.arbiters.arbiter import Arbiter, ArbiterFault, Claim, Holder
from daybook.replication.brokers.broker_process import BrokerProcess
from daybook.replication.brokers.warm_broker import WarmBroker
from daybook.replication.claims import Claims
from daybook.replication.following import Following, NotFollowing
from daybook.replication.in_sync import InSync
from daybook.replication.lags import NO_LAG, Lag
from daybook.replication.leading import (
    Acked,
    Closed,
    Forgotten,
    Opened,
    Told,
    Writing,
    Wrote,
    boot_time_us,
)
from daybook.replication.links import (
    Address,
    Dialer,
    Link,
    Listener,
    OtherArbiter,
    Patience,
    Security,
    check_arbiter,
)
from daybook.replication.messages import Ack, Answer, BasePart, Blocks, Refused, Said
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
from daybook.replication.wire import LANE_BYTES_MAX, VERSION, Hello, Message

TICK_SECONDS: Final = 0.05
RELEASE_SECONDS: Final = 2.0
"""How long a node that stops waits for the end of its lease."""
SMALL_BYTES: Final = 16 << 10
QUICK_SECONDS: Final = 0.002
"""The loop itself writes so few bytes while the disk takes no longer: to hand them over would."""
OTHER_ARBITER_US: Final = 10_000_000
"""How long a node counts as one that asks another arbiter, after it was seen last."""
ID_MAX: Final = (1 << 64) - 1
PLACE_LENGTH_MAX: Final = 500
QUEUED_BYTES_MAX: Final = 32 << 20
"""How many bytes may wait for the disk before no more is read from a connection."""
EARLY_BYTES_MAX: Final = 1 << 20
"""How many bytes of lanes may wait for the disk before a lane is ended."""

Done: TypeAlias = Callable[[Any], None]


class Settings(NamedTuple):
    """What a node knows of its cluster. `nodes` has the address of each, its own among them; it
    listens at `listen`."""

    cluster: str
    name: str
    nodes: Mapping[str, Address]
    listen: Address
    acks: Acks
    times: Times = Times()
    patience: Patience = Patience()
    security: Security | None = None
    broker_silence: int = 10_000_000
    """After how many microseconds without an answer a broker counts as hanging."""
    broker_stop: int = 2_000_000
    """How many microseconds a broker gets to end by itself, while the lease holds."""

    @property
    def others(self) -> list[str]:
        """The other nodes, in the order of their names."""
        return sorted(set(self.nodes) - {self.name})

    @property
    def rules(self) -> str:
        """A hash of what a node and its broker must agree about, to count the same."""
        nodes = sorted((name, *address) for name, address in self.nodes.items())
        told = repr((self.cluster, self.name, self.acks.value, nodes))
        return hashlib.sha256(told.encode()).hexdigest()


class Owned(NamedTuple):
    """What a node needs of its machine.

    `notes` is the disk of its record, `journal` that of the segments, `base` that of the base;
    `directory` and `host` say to operators of other nodes where they are.
    `open_files` opens the journal for following, and takes the lock of the data directory;
    `close_files` is its undoing, before the broker opens the journal. `command` is that of the
    broker, which waits until the node leads. `chance` draws a number between two; `notice` is told
    what an operator may want to know.
    """

    notes: Disk
    journal: Disk
    open_files: Callable[[], ReplicaFiles]
    close_files: Callable[[ReplicaFiles], None]
    command: Sequence[str]
    chance: Callable[[int, int], int]
    notice: Callable[[str], None]
    base: Disk | None = None
    host: str = ""
    directory: str = ""


class CannotListen(DaybookError):
    """Other nodes cannot reach this one: its address is in use, or not of this machine."""


class Follower(NamedTuple):
    """A follower that has joined, as the leader sees it; `acked` is its last event on disk."""

    acked: int | None
    lag: Lag


class InSyncState(NamedTuple):
    """Whether a follower is in sync, and for how many microseconds, as far as this leader knows."""

    is_in_sync: bool
    since: int


class Status(NamedTuple):
    """What a node says of itself. `lag` is how far it is behind the leader as of its last beat, and
    `silence` how many microseconds ago that came; `waiting` is what waits for disks of followers.
    `lease` is for how many microseconds it may still lead, `leads` how often it began to, `why` the
    last reason why it does not; `in_sync` is known while it leads, and `strays` says which nodes
    ask another arbiter. One that is not `is_whole` is new, or has lost its directory, and must not
    lead without all others before it has what was confirmed."""

    role: Role
    epoch: int
    durable: int
    lsn: int
    followers: dict[str, Follower]
    trouble: dict[str, str]
    lag: Lag
    silence: int | None
    waiting: Lag
    lease: int
    leads: int
    arbiter_trouble: str
    in_sync: dict[str, InSyncState]
    why: str
    strays: list[str]
    is_whole: bool


class Turns:
    """Work that is done one after the other: in a thread, or in the loop.

    Short work is done in the loop as long as the last such work was quick, so a disk that becomes
    slow stops the loop once. One that hangs then stops it for as long: a node that only follows
    can acknowledge nothing meanwhile either."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._waiting: Final[deque[tuple[Callable[[], Any] | None, Done, bool]]] = deque()
        self._thread: Final = ThreadPoolExecutor(1, "disk")
        self._is_busy = self._is_quick = self._is_closed = False
        self._on_failure: Final = on_failure

    def do(self, work: Callable[[], Any], done: Done, *, is_short: bool = False) -> None:
        """Do work in the thread, then call `done` with what it returned."""
        self._waiting.append((work, done, is_short))
        self._next()

    def after(self, done: Callable[[], None]) -> None:
        """Call something once all work that was given before is done."""

        def then(_: None) -> None:
            done()

        self._waiting.append((None, then, False))
        self._next()

    def _next(self) -> None:
        while self._waiting and not self._is_busy and not self._is_closed:
            work, done, is_short = self._waiting.popleft()
            self._is_busy = True
            if work is None:
                self._finish(done, None)
                continue
            if is_short and self._is_quick:
                try:
                    result = self._timed(work)
                except Exception as error:
                    self._on_failure(error)
                    return
                self._finish(done, result)
                continue
            if is_short:
                work = partial(self._timed, work)
            job = asyncio.get_running_loop().run_in_executor(self._thread, work)
            job.add_done_callback(partial(self._done, done))

    def _timed(self, work: Callable[[], Any]) -> Any:
        """Do work, and note whether it was quick, if it had a result."""
        begun = time.perf_counter()
        result = work()
        if result is not None:
            self._is_quick = time.perf_counter() - begun < QUICK_SECONDS
        return result

    def _done(self, done: Done, job: "asyncio.Future[Any]") -> None:
        if job.cancelled():
            return
        error = job.exception()
        if error is not None:
            self._on_failure(error)
            return
        self._finish(done, job.result())
        self._next()

    def _finish(self, done: Done, result: Any) -> None:
        try:
            done(result)
        finally:
            self._is_busy = False

    def close(self) -> None:
        """Wait for what is being done, and drop the rest."""
        self._is_closed = True
        self._waiting.clear()
        self._thread.shutdown(wait=True)


Method = TypeVar("Method", bound=Callable[..., None])


def _ends_the_node(method: Method) -> Method:
    """Let the node end with the error that a method of the runner raises."""

    @wraps(method)
    def guarded(runner: "Runner", *given: Any) -> None:
        try:
            method(runner, *given)
        except Exception as error:
            runner.fail(error)

    return cast(Method, guarded)


class Runner:
    """Runs one node, until `stop`. Make and run it in the main thread."""

    def __init__(self, settings: Settings, owned: Owned, arbiter: Arbiter) -> None:
        """Read the record of the node. Raises RecordDamaged, OSError, and ssl.SSLError."""
        self.settings: Final = settings
        self._owned: Final = owned
        self._arbiter: Final = arbiter
        name = settings.name
        self.following: Final = Following(name, settings.cluster, RecordFile(owned.notes))
        self.node: Final = Node(
            name, settings.nodes, settings.acks, self.following, times=settings.times,
            chance=owned.chance,
        )  # fmt: skip
        # The core steps down in the loop, not in the thread that keeps the promise.
        self._promised: Final[list[int]] = []
        self._step_down, self.following.on_promise = (
            self.following.on_promise, self._promised.append,
        )  # fmt: skip
        self._handed: Final[list[str]] = []
        self.following.on_handed_over = self._handed.append
        self.broker: BrokerProcess | None = None
        self.warm: Final = WarmBroker(self._start_broker, owned.notice)
        self.address: Address = settings.listen
        self._others: Final = settings.others
        self._turns: Final = Turns(self.fail)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._releasing: Final[set[asyncio.Task[None]]] = set()
        self._peers: Final[dict[Link, int]] = {}
        self._queued: Final[dict[Link, int]] = {}
        # Lanes, with the connection of the leader's node to which each belongs.
        self._lanes: Final[dict[Link, int]] = {}
        self._early_bytes = 0
        self._count = 0
        self._durable = 0
        # The last event on the disk of this node while it follows.
        self._lsn = 0
        self._alive = 0
        # The last beat of a leader, and when it came.
        self._beat = self.following.beat
        self._heard = 0
        self._lead_count = 0
        self.claims: Final = Claims(settings.cluster, name, settings.times.lease)
        # Nodes that ask another arbiter: why they are refused, and when that was seen last.
        self._strays: Final[dict[str, tuple[str, int]]] = {}
        self._arbiter_trouble = ""
        self._leads = self._is_dialling = self._stopping = self._acquiring = False
        self._dialers: dict[str, Dialer] = {}
        self._listener: Listener
        self._own: Hello
        self._end: asyncio.Future[None]
        self._named: asyncio.Future[None]

    async def run(self) -> None:
        """Run until `stop`, or until the disk fails: then raise what it raised."""
        loop = asyncio.get_running_loop()
        self._end, self._named = loop.create_future(), loop.create_future()
        self._make_links()
        try:
            self._opened_files(await asyncio.to_thread(self._owned.open_files))
            self._tasks.add(loop.create_task(self._keep_name()))
            # Nobody may count this node as another one of its name.
            await asyncio.wait([self._named, self._end], return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                return await self._end
            self.address = await self._listen()
            ticking = loop.create_task(self._tick())
            self._tasks.add(ticking)
            await self._end
        finally:
            await self._close()

    async def _listen(self) -> Address:
        listen = self.settings.listen
        try:
            return await self._listener.start(listen)
        except OSError as error:
            raise CannotListen(
                f"the node cannot listen for others on {listen.host}:{listen.port}:"
                f" {error.strerror or error}; choose another address in [[replication-node]], or"
                " 'listen' of [replication]"
            ) from error

    def _make_links(self) -> None:
        settings, security = self.settings, self.settings.security
        own = self._own = Hello(VERSION, settings.cluster, settings.name)
        inner, outer = security.contexts() if security is not None else (None, None)
        self._listener = Listener(
            own, settings.nodes, self, patience=settings.patience, context=inner
        )
        self._dialers = {
            node: Dialer(
                node, address, own, self, patience=settings.patience, context=outer,
                spread=lambda: self._owned.chance(500, 1_500) / 1_000,
            )
            for node, address in settings.nodes.items() if node != settings.name
        }  # fmt: skip

    async def _keep_name(self) -> None:
        """Claim the name of this node again and again; end the node if another one has it."""
        claims, settings, record = self.claims, self.settings, self.following.record
        own = settings.nodes[settings.name]
        try:
            if not record.record.id:
                record.set_id(f"{self._owned.chance(0, ID_MAX):016x}")
            claims.claim = Claim(
                record.record.id, self._owned.host, self._owned.directory, f"{own.host}:{own.port}"
            )
            while True:
                await self._claim()
                if not claims.is_taken and not self._named.done():
                    self._named.set_result(None)
                await asyncio.sleep(settings.times.renew / 1e6)
        except Exception as error:
            self.fail(error)

    async def _claim(self) -> None:
        try:
            found = await self._arbiter.claim(self.settings.name, self.claims.claim)
        except ArbiterFault as error:
            # Without the arbiter nobody gets a lease, and a follower needs none.
            self._judge_arbiter(str(error))
            return
        self._judge_arbiter("")
        if text := self.claims.claimed(found, boot_time_us()):
            self._owned.notice(text)
        if found.arbiter != self._own.arbiter:
            self._compare(found.arbiter)

    def _compare(self, arbiter: str) -> None:
        """Show the arbiter to others from now on, and end the links of those that have another."""
        place = self._arbiter.place[:PLACE_LENGTH_MAX]
        own = self._own = msgspec.structs.replace(self._own, arbiter=arbiter, place=place)
        self._listener.own = own
        links = list(self._listener.links.values())
        for dialer in self._dialers.values():
            dialer.own = own
            links += [dialer.link] if dialer.link is not None else []
        for link in links:
            try:
                check_arbiter(own, link.hello or own)
            except OtherArbiter as error:
                self.other_arbiter(link.peer, str(error))
                link.end(str(error))

    @_ends_the_node
    def other_arbiter(self, node: str, why: str) -> None:
        """A node asks another arbiter. With `one` and `majority` it cannot lead as well, since
        both need the promises of others; with the rest neither leads."""
        if node not in self._strays:
            self._owned.notice(why)
        self._strays[node] = why, boot_time_us()
        if not self._may_lead:
            self.node.failed(why, boot_time_us())
        self._carry_out()

    @property
    def _may_lead(self) -> bool:
        return not self._strays or self.settings.acks in (Acks.ONE, Acks.MAJORITY)

    def _forget_strays(self, now: int) -> None:
        for name, (_, seen) in list(self._strays.items()):
            if now - seen > OTHER_ARBITER_US:
                del self._strays[name]

    def renew(self, security: Security) -> None:
        """Show other certificates from the next connection on. Raises OSError and ssl.SSLError."""
        self._listener.context, outer = security.contexts()
        for dialer in self._dialers.values():
            dialer.context = outer

    def stop(self) -> None:
        """End: a broker that runs is ended first, and the lead is handed over."""
        if self._stopping:
            return
        self._stopping = True
        self.node.finish(boot_time_us())
        self._carry_out()
        if self.broker is None:
            self._finish()

    def hand_over(self, to: str) -> None:
        """Let another node lead: the one that is named, "" for the follower that has most. Raises
        HandOverRefused."""
        self.node.hand_over(to, boot_time_us())
        self._carry_out()

    def _finish(self) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if not self._end.done():
            self._end.set_exception(error)

    async def _close(self) -> None:
        if self.broker is not None:
            self.broker.kill()
        self.warm.stop()
        for dialer in self._dialers.values():
            dialer.stop()
        if self._releasing:
            # So that the next leader need not wait for the end of the lease.
            await asyncio.wait(self._releasing, timeout=RELEASE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.stop()
        await asyncio.to_thread(self._turns.close)
        files, self.following.files = self.following.files, None
        if files is not None:
            self._owned.close_files(files)

    # ---- time

    async def _tick(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(TICK_SECONDS)

    @_ends_the_node
    def _look(self) -> None:
        """Do what is due."""
        now = boot_time_us()
        self._forget_strays(now)
        if self.broker is None and not self._stopping:
            self.warm.look(now)
        elif self.broker is not None and self._leads:
            self.broker.end.beat()
            if now - self._alive > self.settings.broker_silence:
                self.node.failed("the broker does not answer", now)
        self.node.tick(now)
        self._carry_out()
        if self._stopping and self.broker is None and self.node.role is Role.FOLLOWING:
            self._finish()

    # ---- what the core wants

    def _carry_out(self) -> None:
        """Carry out the core's actions. First the broker gets to know until when it leads."""
        node = self.node
        if self.broker is not None:
            self.broker.end.hold(node.valid_until if node.role is Role.LEADING else 0)
        while node.actions:
            self._carry_out_one(node.actions.popleft())
        # One that has another arbiter is asked again, until it has the same.
        is_dialling = node.role is not Role.FOLLOWING or bool(self._strays)
        if is_dialling != self._is_dialling:
            self._is_dialling = is_dialling
            for dialer in self._dialers.values():
                if is_dialling:
                    dialer.start()
                else:
                    dialer.stop()
        self._confirm()

    def _confirm(self) -> None:
        if self.broker is None or self.node.role is not Role.LEADING:
            return
        durable = self.node.durable(boot_time_us())
        if durable > self._durable:
            self._durable = durable
            self.broker.end.durable(durable)

    def _carry_out_one(self, action: Action) -> None:
        if isinstance(action, Send):
            self._dialers[action.node].send(action.said)
        elif isinstance(action, Acquire):
            is_free = not self._acquiring and not self._stopping
            may_stand = self.claims.is_own and self._may_lead
            if self.following.files is not None and is_free and may_stand:
                self._acquiring = True
                self._ask(self._acquire(action))
        elif isinstance(action, Renew):
            self._ask(self._renew(action))
        elif isinstance(action, Release):
            releasing = self._ask(self._arbiter.release(action.epoch))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)
        elif isinstance(action, Finish):
            assert self.broker is not None
            self.broker.finish(action.microseconds / 1e6)
        elif isinstance(action, LookUp):
            self._ask(self._look_up())
        elif isinstance(action, ReadList):
            self._ask(self._list(action.epoch, self._arbiter.in_sync()))
        elif isinstance(action, WriteList):
            nodes, version = action.wanted
            written = self._arbiter.set_in_sync(action.epoch, nodes, version)
            self._ask(self._list(action.epoch, written))
        elif isinstance(action, Forget):
            if self.broker is not None:
                self.broker.end.forget(self._others.index(action.node))
            else:
                self.node.forgotten(action.node, 0, boot_time_us())
        elif isinstance(action, Lead):
            self._turns.after(partial(self._lead, action.epoch))
        elif isinstance(action, Stop):
            self._owned.notice(f"this node leads no more: {action.why}")
            self._stop_broker()
        else:
            assert isinstance(action, Notice)
            self._owned.notice(action.text)

    def _ask(self, question: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def ask() -> None:
            try:
                await question
                self._judge_arbiter("")
            except ArbiterFault as error:
                self._judge_arbiter(str(error))
            except Exception as error:
                self.fail(error)

        task = asyncio.get_running_loop().create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _judge_arbiter(self, trouble: str) -> None:
        if bool(trouble) != bool(self._arbiter_trouble):
            self._owned.notice(trouble or "the arbiter answers again")
        self._arbiter_trouble = trouble

    async def _acquire(self, action: Acquire) -> None:
        own = self.settings.nodes[self.settings.name]
        try:
            lease = await self._arbiter.acquire(
                self.settings.name, f"{own.host}:{own.port}", self.following.record.record.promised
            )
        finally:
            self._acquiring = False
        if lease is None:
            return

        self._turns.after(partial(self._granted, lease, action.asked))

    @_ends_the_node
    def _granted(self, lease: Lease, asked: int) -> None:
        if self.following.files is None:
            # The broker of an earlier lead has not ended.
            self.node.actions.append(Release(lease.epoch))
        else:
            self.node.granted(lease, asked, boot_time_us())
        self._carry_out()

    async def _renew(self, action: Renew) -> None:
        lease = await self._arbiter.renew(action.epoch)
        if lease is not None:
            self.node.renewed(lease, action.asked)
        else:
            self.node.gone(action.epoch, boot_time_us())
        self._carry_out()

    async def _look_up(self) -> None:
        holder = await self._arbiter.holder()
        if holder is not None:
            self._turns.after(partial(self._looked_up, holder))

    @_ends_the_node
    def _looked_up(self, holder: Holder) -> None:
        self.node.looked_up(holder.epoch, holder.node)

    async def _list(self, epoch: int, question: Awaitable[InSync | None]) -> None:
        found = await question
        if found is not None:
            self.node.listed(epoch, found, boot_time_us())
            self._carry_out()

    # ---- the broker

    def _start_broker(self) -> BrokerProcess:
        return BrokerProcess(
            self._owned.command, self.settings.name, on_told=lambda told: None,
            on_ended=lambda: None, rules=self.settings.rules,
        )  # fmt: skip

    @_ends_the_node
    def _lead(self, epoch: int) -> None:
        """Let the broker lead, if that is still wanted."""
        node, files = self.node, self.following.files
        if node.role is not Role.OPENING or node.epoch != epoch or self.broker is not None:
            return
        assert files is not None
        self.following.files = None
        self._owned.close_files(files)
        self._owned.notice(f"this node leads in epoch {epoch}")
        try:
            self.broker = self.warm.take(self._told, self._broker_ended)
        except OSError as error:
            node.failed(f"the broker cannot be started: {error}", boot_time_us())
            self._follow_again()
            self._carry_out()
            return
        self.broker.end.lead(epoch)

    @_ends_the_node
    def _told(self, told: Told) -> None:
        node, broker = self.node, self.broker
        self._alive = boot_time_us()
        assert broker is not None
        if node.epoch != broker.end.epoch:
            return
        if isinstance(told, Opened):
            # The thread of the disk may be writing a promise to the same record.
            self._turns.after(partial(self._begin_to_lead, broker, told))
        elif isinstance(told, Wrote) and node.role is Role.LEADING:
            node.wrote(told.place, told.lsn)
        elif isinstance(told, Writing) and node.role is Role.LEADING:
            node.writing(told.place)
        elif isinstance(told, Acked):
            other = self._others[told.number]
            node.acknowledged(other, Ack(told.place, told.lsn), self._alive)
        elif isinstance(told, Forgotten):
            node.forgotten(self._others[told.number], told.lsn, self._alive)
        elif isinstance(told, Closed):
            self._leads = False
            node.finished(told.place, told.lsn, self._alive)
        self._carry_out()

    @_ends_the_node
    def _begin_to_lead(self, broker: BrokerProcess, told: Opened) -> None:
        """Lead with a journal that is open, if that is still wanted."""
        node = self.node
        if node.role is not Role.OPENING or broker is not self.broker:
            return
        if node.epoch != broker.end.epoch:
            return
        node.leads(
            self._owned.journal, told.data_id, told.place, boot_time_us(), self._owned.base
        )  # fmt: skip
        self._leads, self._durable = True, 0
        self._lead_count += 1
        broker.end.leads()
        self._carry_out()

    def _stop_broker(self) -> None:
        self._leads = False
        if self.broker is not None:
            left = min(self.node.valid_until - boot_time_us(), self.settings.broker_stop)
            self.broker.stop(left / 1e6)

    @_ends_the_node
    def _broker_ended(self) -> None:
        broker, self.broker = self.broker, None
        assert broker is not None
        self._leads = False
        self.node.ended(f"the broker has ended {broker.how}", boot_time_us())
        self._carry_out()
        if not self._stopping:
            self._follow_again()
        elif self.node.role is Role.FOLLOWING:
            self._finish()

    def _follow_again(self) -> None:
        self._turns.do(self._owned.open_files, self._opened_files)

    def _opened_files(self, files: ReplicaFiles) -> None:
        self.following.files, self._lsn = files, files.lsn

    # ---- links

    @_ends_the_node
    def opened(self, link: Link) -> None:
        """The other side is who it should be."""
        assert link.hello is not None
        if link.hello.lead:
            self._open_lane(link, link.hello)
            return
        dialer = self._dialers[link.peer]
        self._strays.pop(link.peer, None)
        if dialer.link is link:
            self.node.connected(link.peer)
            self._carry_out()
        else:
            self._count += 1
            self._peers[link], self._queued[link] = self._count, 0

    def _open_lane(self, link: Link, hello: Hello) -> None:
        try:
            if self._early_bytes:
                raise NotFollowing("blocks of an earlier lane wait for this disk")
            self._lanes[link] = self.following.lane_of(hello.lead, hello.node)
        except NotFollowing as error:
            link.end(str(error))

    def _take_early(self, link: Link, said: Blocks) -> None:
        peer = self._lanes[link]
        self._early_bytes += len(said.data)
        if self._early_bytes > EARLY_BYTES_MAX:
            link.end("this disk is too slow for a lane")

        def work() -> Ack | Refused | None:
            return None if link.why else self.following.receive_early(peer, said)

        self._turns.do(work, partial(self._answer_lane, link, len(said.data)), is_short=True)

    @_ends_the_node
    def _answer_lane(self, link: Link, size: int, answer: Ack | Refused | None) -> None:
        self._early_bytes -= size
        if isinstance(answer, Ack):
            self._acknowledge(link, answer)
        elif answer is not None:
            link.end(answer.why)

    def _acknowledge(self, link: Link, answer: Ack) -> None:
        """Say what is on this disk, then do what could wait."""
        self._lsn = answer.lsn
        link.send(answer)
        asyncio.get_running_loop().call_soon(self._turns.after, self._settle)

    @_ends_the_node
    def _settle(self) -> None:
        try:
            self.following.settle()
        except Damage as error:
            self._owned.notice(f"a block of the leader cannot be read: {error}")

    @_ends_the_node
    def received(self, link: Link, message: Message) -> None:
        """A message came."""
        if link in self._lanes:
            if not isinstance(message, Blocks) or len(message.data) > LANE_BYTES_MAX:
                link.end("a lane takes small blocks alone")
                return
            self._take_early(link, message)
        elif link in self._peers:
            if not isinstance(message, Said):
                link.end("a node that leads sent an answer")
                return
            self._follow(link, message)
        elif self._dialers[link.peer].link is link:
            if not isinstance(message, Answer):
                link.end("a node that follows asked something")
                return
            self.node.answered(link.peer, message, boot_time_us())
            self._carry_out()

    def _follow(self, link: Link, said: Said) -> None:
        peer = self._peers[link]
        size = len(said.data) if isinstance(said, Blocks | BasePart) else 0
        self._queued[link] += size
        if self._queued[link] > QUEUED_BYTES_MAX:
            link.transport.pause_reading()

        def work() -> Answer | DiskFull | None:
            try:
                return self.following.receive(peer, said)
            except DiskFull as error:
                return error

        is_short = isinstance(said, Blocks) and size <= SMALL_BYTES
        self._turns.do(work, partial(self._answer, link, size), is_short=is_short)

    @_ends_the_node
    def _answer(self, link: Link, size: int, answer: Answer | DiskFull | None) -> None:
        """Say what the follower's disk let it answer."""
        while self._promised:
            self._step_down(self._promised.pop(0))
        while self._handed:
            self.node.handed_over(self._handed.pop(0), boot_time_us())
            self.node.tick(boot_time_us())
        self._carry_out()
        if isinstance(answer, DiskFull):
            self._owned.notice(str(answer))
            link.end(str(answer))
        elif isinstance(answer, Ack):
            self._acknowledge(link, answer)
            if self.following.took_early:
                self.following.took_early = False
                for lane, peer in self._lanes.items():
                    if peer == self._peers.get(link):
                        lane.send(answer)
        elif answer is not None:
            link.send(answer)
        if self.following.beat is not self._beat:
            self._beat, self._heard = self.following.beat, boot_time_us()
        if link in self._queued:
            self._queued[link] -= size
            if self._queued[link] <= QUEUED_BYTES_MAX:
                link.transport.resume_reading()

    @_ends_the_node
    def lost(self, link: Link, why: str) -> None:
        """A link has ended."""
        self._listener.forget(link)
        if link.hello is not None and link.hello.lead:
            self._lanes.pop(link, None)
            return
        peer = self._peers.pop(link, None)
        if peer is None:
            if self._dialers[link.peer].link in (link, None):
                self.node.lost(link.peer)
            return
        del self._queued[link]
        self._turns.after(lambda: self.following.lost(peer))

    @property
    def lsn(self) -> int:
        """The last event on the disk of this node."""
        quorum = self.node.quorum
        return quorum.local if quorum is not None else self._lsn

    @property
    def leader(self) -> str:
        """The node to which the newest epoch is promised; "" before there was one."""
        return self.following.record.record.node

    def status(self) -> Status:
        """Return what a node says of itself. Raises OSError."""
        node, quorum, now = self.node, self.node.quorum, boot_time_us()
        trouble = {name: each.trouble for name, each in self._dialers.items() if each.trouble}
        for name, (why, _) in self._strays.items():
            trouble[name] = why
        followers = {}
        for name, shipment in node.shipments.items():
            if shipment.refused is not None:
                trouble[name] = shipment.refused.why
            elif shipment.is_joined and quorum is not None:
                followers[name] = Follower(shipment.acked, node.lag(name, now))
        following, beat = self.following, self.following.beat
        behind = max(0, beat.lsn - self.lsn)
        leads_or_opens = node.role in (Role.OPENING, Role.LEADING)
        return Status(
            node.role,
            following.record.record.promised,
            quorum.durable if quorum is not None else following.confirmed,
            self.lsn,
            followers,
            trouble,
            Lag(behind, beat.behind_bytes, beat.behind_us) if behind else NO_LAG,
            None if leads_or_opens or not self._heard else now - self._heard,
            node.waiting(now) if quorum is not None else NO_LAG,
            max(0, node.valid_until - now) if node.role is not Role.FOLLOWING else 0,
            self._lead_count,
            self._arbiter_trouble,
            self._in_sync(now),
            node.trouble,
            [why for why, _ in self._strays.values()],
            following.record.record.is_whole,
        )

    def _in_sync(self, now: int) -> dict[str, InSyncState]:
        progress = self.node.progress
        followers = progress.followers.items() if progress is not None else ()
        return {name: InSyncState(each.in_sync, now - each.changed) for name, each in followers}
