"""The broker as a process: start, serve, reload, stop.

Start: lock, recover, `BrokerStarted`, settings and addresses of the configuration, listen, `ready`.
Stop on SIGTERM or SIGINT: no more reading, everything decided becomes durable, `BrokerStopped`, a
mark, close. A failed write or sync ends the process at once, with the reason in the log: events are
confirmed only after they are on disk.
"""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import uvloop

from daybook.engine.broker import Broker
from daybook.engine.core.core import Options
from daybook.engine.names.syntax import Syntax
from daybook.engine.queues.queue import ContentError, StoreError
from daybook.engine.settings.permissions import Rules
from daybook.engine.settings.setting_keys import FAIL
from daybook.journal.blocks.trust import limit_blocks
from daybook.journal.confirmed import forget_mark
from daybook.journal.data_directory import CONTROL_SOCKET, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.registry import OFFERS
from daybook.recovery.directory import RecoveryError
from daybook.recovery.last_words import distrust
from daybook.recovery.starting import start_after
from daybook.recovery.tag_key import tag_key
from daybook.server.administration.control import ControlServer
from daybook.server.config_keys.options import STOP
from daybook.server.configuration import filter_parser
from daybook.server.configuration.config import Config, ConfigError, check_archive
from daybook.server.configuration.config_changes import changes, effective
from daybook.server.configuration.host_config import all_names, limits_of
from daybook.server.configuration.signing_config import check_signing
from daybook.server.configuring import Configuring, StartError
from daybook.server.connectors.connectors import Connectors
from daybook.server.connectors.line import Surroundings
from daybook.server.console_keeper import ConsoleKeeper
from daybook.server.ending import Ending
from daybook.server.foreign.taking_over import load_users
from daybook.server.history.alone import Alone
from daybook.server.history.data_directory_session import Journaling, attach, look_at_lock
from daybook.server.history.indexing import Indexing, catalog_headers_of
from daybook.server.history.retention import Retention
from daybook.server.history.signing import TICK_SECONDS, Signing
from daybook.server.hub.hub import Hub
from daybook.server.hub.hub_options import hub_options, session_options
from daybook.server.hub.memory_limits import engine_options
from daybook.server.monitoring.disk_watch import DiskWatch
from daybook.server.monitoring.status_view import BrokerMonitoring, Phase
from daybook.server.network.acting_users import ActingUsers
from daybook.server.network.administrators import Administrators
from daybook.server.network.broker_premises import BrokerPremises
from daybook.server.network.connection_checks import ConnectionChecks
from daybook.server.network.entrances import Entrances
from daybook.server.network.layers.certificates import TlsError
from daybook.server.network.listeners import Acceptor
from daybook.server.network.onlookers import Onlookers
from daybook.server.process import logs
from daybook.server.process.descriptors import TooFewDescriptors
from daybook.server.process.guard import Guard
from daybook.server.process.heap import Heap, malloc_trim
from daybook.server.process.pulse import Pulse
from daybook.server.process.service_manager import READY, STOPPING, Notifier
from daybook.server.process.supervision import Supervisor
from daybook.server.rights import Rights
from daybook.server.users.sasl import Mechanisms
from daybook.server.users.users import Users
from daybook.server.users.users_file import User, UsersError
from daybook.texts import moment
from daybook.version import VERSION

CLOCK_STEP_US: Final = 500_000
"""A clock that differs by more between two ticks was set, not slewed."""
CHUNK_CACHE_BYTES: Final = 4 * 1024 * 1024
"""Size of the cache of blocks for large messages: a block serves several chunks."""
CONTROL_SECONDS: Final = 5.0  # between two checks of control socket and lock file
CLUSTER_SECONDS: Final = 1.0  # between two questions to the node of a cluster
BACKGROUND_SECONDS: Final = 5.0
"""How long a stop waits for cancelled background work to end."""
SLOW_DISK_SECONDS: Final = 10.0
"""How long a block may wait for the disk before that is logged."""

FAILED: Final = 1

log = logs.logger("service")


def run(
    config: Config,
    reload: Callable[[], Config] | None = None,
    disk_of: Callable[[Path], RealDisk] = RealDisk,
    cluster: Alone | None = None,
) -> int:
    """Serve until told to stop; return the exit code. `reload` reads a new configuration; `disk_of`
    makes the disk that the journal is written to; `cluster` is the one that this broker leads."""
    # Messages, users and logs are only for the broker's user, whatever the umask was.
    os.umask(0o077)
    # A broker must be able to read its own blocks, however large.
    limit_blocks(None)
    logs.configure(config.log.level, config.log.format)
    # Of many long-lived messages the collector examines few at a time, so that no turn is long.
    gc.set_threshold(10_000, 500, 100)
    try:
        check_archive(config)
        check_signing(config)
        with (
            # Closed last, because it ensures that everything else ends in time.
            closing(Guard(config.broker.stop_timeout / 1000)) as guard,
            Journaling(config, disk_of) as journaling,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            if cluster is None:
                forget_mark(journaling.directory.path)
            service = Service(config, reload, journaling, guard, cluster or Alone())
            return runner.run(service.run())
    except (
        ConfigError, StartError, JournalError, RecoveryError, UsersError, TooFewDescriptors
    ) as error:  # fmt: skip
        log.error("the broker cannot start", why=str(error))
        return FAILED


class Service:
    """Everything that exists as long as the event loop."""

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config] | None,
        journaling: Journaling,
        guard: Guard,
        cluster: Alone,
    ) -> None:
        self.config = config
        self._cluster: Final = cluster
        self._guard: Final = guard
        self._reload: Final = reload
        self._directory: Final = journaling.directory
        self._writer: Final = journaling.writer
        self._journal: Final = RealDisk(self._directory.path / JOURNAL)
        self._is_slow = False
        self._waiting = 0, 0.0  # the next block to become durable, and since when it waits
        self._stop: Final = asyncio.Event()
        self._supervisor: Final = Supervisor(self._unforeseen)
        self._console: Final = ConsoleKeeper(self._supervisor)
        self._exit_code = 0
        self._begun = False
        self._acceptors: list[Acceptor] = []
        self._control: ControlServer | None = None
        self._started: Final = time.time()
        self._notifier: Final = Notifier()
        self._skew = _now() - time.monotonic_ns() // 1000

    async def run(self) -> int:
        """Start, serve, stop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unexpected)
        self.users = self._load_users()
        self.checks = ConnectionChecks(
            lambda: self.config.broker, self.users, self._loop, _now, self._onlookers_max
        )
        self._build()
        filter_parser.load()
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._end()
        return self._exit_code

    def _load_users(self) -> Users:
        users = load_users(Path(self.config.broker.users_file), self.config.foreign)
        users.allow_guest = self.config.broker.allow_guest
        logs.warn_all(log, users.warnings(all_names(self.config.virtual_hosts)))
        return users

    def _build(self) -> None:
        """Create broker and hub on the recovered state."""
        recovered = self._directory.recovered
        identity = recovered.journal.data_id.hex()
        self.broker = Broker(recovered.state, recovered.events + 1, self._options(), identity)
        self.hub = Hub(
            self.broker,
            self._writer,
            hub_options(self.config),
            clock=_now,
            schedule=self._schedule_turn,
            authenticate=self.checks.logins.begin,
            admit=self.checks.logins.admit,
            mechanisms=Mechanisms(self.users),
        )
        self.hub.chunks = ContentReader(self._journal, LAYOUT, cache_bytes=CHUNK_CACHE_BYTES)
        self.hub.secret = tag_key(self._directory.path)
        self.hub.on_notice = log.warning
        self.hub.refusals.is_known = self.users.has
        self.rights = Rights(self.hub, self.users)
        self.hub.turns.meter, self.hub.memory.heap = time.thread_time_ns, Heap(malloc_trim())
        self._configuring = Configuring(self.hub, self._loop, self._stop)
        self.disk = DiskWatch(self._directory.path, self.hub, lambda: self.config.broker)
        self._listen_to_writer()
        self._build_connections()
        peers = self.hub.peers, self.onlookers.peers, self.administrators.peers
        self._pulse = Pulse(peers, lambda: self.broker.lsn)
        self.indexing = Indexing(
            self.hub,
            self._loop,
            self._directory.path,
            recovered.journal.data_id,
            indexers=self._directory.indexers,
            store=recovered.store,
            process=recovered.indexer,
            checkpoint_us=self.config.journal.checkpoint_period * 1000,
            snapshot_every=self.config.journal.snapshot_every,
            catalog_headers=catalog_headers_of(self.config.journal),
            timeout_us=self.config.broker.indexer_timeout * 1000,
            on_failure=self._index_failed,
            on_damage=self._journal_damaged,
        )
        self.signing = Signing(
            self.hub, self._directory.path, self._loop, lambda: self.config.journal,
            self.indexing.record, after=recovered.events,
        )  # fmt: skip
        self.indexing.on_checkpoint = self.signing.checkpointed
        self._ending = Ending(
            self.hub,
            self._writer,
            self.indexing,
            self.signing,
            self._guard,
            on_closed=self._cluster.closed,
            on_unreadable=self._unreadable,
            why_not=self._what_is_given_up,
        )
        self.retention = Retention(
            self.hub, self._directory.path, lambda: self.indexing.store, self.config.journal
        )

    def _build_connections(self) -> None:
        """Create the connections beside those of clients, and the figures that some of them
        show."""
        self.connectors = Connectors(
            Surroundings(
                self.hub, self.checks.admission, self._loop, self.config.broker.name, now=_now,
                why_not_act=self.users.why_not_act,
            )
        )  # fmt: skip
        self.connectors.configure(self.config)
        self.monitoring = BrokerMonitoring(
            self.hub,
            clock=_now,
            stats=self._writer.stats,
            vitals=self.vitals,
            numbers=self._numbers,
            acceptors=lambda: [acceptor.figures for acceptor in self._acceptors],
            certificates=lambda: self.premises.expiries(),
            connectors=self.connectors.figures,
            auto_links=self.connectors.link_states,
        )
        self.onlookers = Onlookers(self.monitoring, clock=_now, schedule=self._schedule_step)
        self.administrators = Administrators(self.hub, self.users, lambda: self.checks.logins, _now)
        self.premises = BrokerPremises(lambda: self.config, self.users, self._acceptors)

    async def _start(self) -> None:
        # Bind before the start is decided, so that a port in use leaves no event in the journal.
        await self._bind()
        # Onlookers are served during the start too.
        for acceptor in self._acceptors:
            if not acceptor.entrance.logs_in:
                await acceptor.start()
        await self._prepare()
        if self._stop.is_set():
            return
        self._control = ControlServer(self.hub, self._directory.path / CONTROL_SOCKET)
        self._control.outgoing = self.connectors
        self._control.acting = ActingUsers(
            self.users, lambda: self.checks.logins, self.administrators.rights_of
        )
        self._control.premises = self.premises
        self.hub.extra_status = self.status
        await self._control.start()
        self.administrators.control = self._control
        self.disk.scan()
        for acceptor in self._acceptors:
            if acceptor.entrance.logs_in:
                await acceptor.start()
        self.connectors.start()
        self._begin_background_work(self._control)
        self._handle_signals()
        self.monitoring.phase = Phase.SERVING
        urls = " ".join(acceptor.urls for acceptor in self._acceptors)
        logs.announce(f"ready {urls}")
        self._notifier.say(READY, f"STATUS=ready {urls}")
        log.info(
            "ready",
            listen=[acceptor.urls for acceptor in self._acceptors],
            version=VERSION,
            max_connections=self.checks.admission.descriptors.connections_max,
        )
        self._keep_console()

    def _begin_background_work(self, control: ControlServer) -> None:
        run, repeat = self._supervisor.run, self._supervisor.repeat
        # A half-finished decision of a tick must not be written.
        repeat("ticks", self._pulse.seconds, self._tick, fatal=(Exception,))
        repeat("indexing", self._pulse.seconds, self._tick_index, fatal=(StoreError,))
        look, pause = self.monitoring.look_for_oldest, self.monitoring.look_again_seconds
        repeat("oldest message", lambda: pause(self._pulse.seconds()), look)
        repeat("signing", lambda: TICK_SECONDS, self.signing.tick)
        repeat("disk scan", lambda: self.config.broker.disk_scan_period / 1000, self.disk.scan)
        repeat("control socket", lambda: CONTROL_SECONDS, control.look)
        repeat("lock", lambda: CONTROL_SECONDS, lambda: look_at_lock(self._directory))
        run("retention", self.retention.run)
        for name, work in self._cluster.work(self._directory.path).items():
            repeat(name, lambda: CLUSTER_SECONDS, work)

    def _keep_console(self) -> None:
        """Start, restart or end the console, as configured; that of a cluster is its node's."""
        section = self.config.console
        self.premises.read_console(section)
        if self._cluster.has_console:
            broker = self.config.broker
            self._console.keep(section, broker.data_directory, broker.name)

    def _listen_to_writer(self) -> None:
        writer = self._writer
        writer.on_durable = self.hub.durable
        writer.on_failure = self._failed
        writer.on_disk_full = self.disk.no_segment
        writer.on_disk_free = self.disk.has_segment
        attach(writer, self._loop)
        self._cluster.listen(writer, self._loop, lambda: self.config, self._leads_no_more)

    def _schedule_turn(self) -> None:
        self._loop.call_soon(self.hub.turn)

    def _schedule_step(self) -> None:
        self._loop.call_soon(self.onlookers.step)

    def _onlookers_max(self) -> int:
        """Return the maximum number of onlookers, which are not counted with the others."""
        return sum(
            config.max_connections
            for config in self.config.acceptors
            if not any(OFFERS[each].messaging for each in config.speaks)
        )

    def _options(self) -> Options:
        return engine_options(self.config.broker, limits_of(self.config.virtual_hosts))

    async def _prepare(self) -> None:
        """Decide the start and the configuration, and wait until both are durable."""
        recovered = self._directory.recovered
        self._cluster.begin(self._writer, recovered.journal.data_id, recovered.events)
        start = self._cluster.sign(start_after(recovered, self._journal, VERSION))
        self._begun = True
        await self._configuring.carry_out(start)
        self._permit(self.rights.begin)
        await self._configuring.apply(lambda: self.config)

    def _permit(self, put: Callable[[Rules, Syntax, Mapping[str, Rules]], None]) -> None:
        put(self.config.security_settings, self.config.wildcards.syntax, self.config.host_security)

    async def _bind(self) -> None:
        entrances = Entrances(
            self.hub, self.onlookers, f"daybook/{VERSION}",
            lambda: session_options(self.config), self.administrators, self.connectors.links_of,
        )  # fmt: skip
        for config in self.config.acceptors:
            try:
                acceptor = Acceptor(entrances, config, self.checks.admission)
                await acceptor.bind()
            except TlsError as error:
                raise StartError(f"acceptor {config.name!r}: {error}") from None
            except OSError as error:
                raise StartError(
                    f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; "
                    f"choose another address with --listen {config.protocol}://HOST:PORT"
                ) from error
            self._acceptors.append(acceptor)

    def _tick(self) -> None:
        skew = _now() - time.monotonic_ns() // 1000
        step = skew - self._skew
        self._skew = skew
        if abs(step) >= CLOCK_STEP_US:
            log.warning(
                "the clock was set; messages that expire go by the new time", seconds=step / 1e6
            )
            self.hub.clock_stepped(step)
            self.onlookers.clock_stepped(step)
            self.administrators.clock_stepped(step)
        self._guard.beat()
        self._pulse.tick()
        self._judge_writer()
        self.hub.tick()
        self.onlookers.tick()
        self.administrators.tick()
        self.monitoring.tick()
        self.checks.tick()
        for acceptor in self._acceptors:
            acceptor.tick()
        self.connectors.tick()
        self._notifier.tick(time.monotonic_ns() // 1000)

    def _tick_index(self) -> None:
        self.indexing.tick(time.monotonic_ns() // 1000)

    def _judge_writer(self) -> None:
        """Log once that events do not become durable, and when they do again."""
        now = time.monotonic()
        since = self.hub.outbox.waiting_since
        if since != self._waiting[0]:
            self._waiting = since, now
        # Not measured by the hub's clock, which may be set meanwhile.
        waited = now - self._waiting[1] if since else 0.0
        is_slow = waited >= SLOW_DISK_SECONDS
        if is_slow and not self._is_slow:
            log.error(self._cluster.not_durable, writer_pid=self._writer.pid, seconds=int(waited))
        elif self._is_slow and not is_slow:
            log.info("blocks become durable again")
        self._is_slow = is_slow

    def _handle_signals(self) -> None:
        loop = self._loop

        def hand_over(number: int) -> None:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._signalled, number)

        self._guard.begin(hand_over, self._what_is_given_up)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._reload_configuration()
            return
        self.monitoring.phase = Phase.STOPPING
        log.info("stopping", signal=signal.Signals(number).name)
        self._stop.set()

    def _what_is_given_up(self) -> str:
        """Return the loss if the stop is interrupted; called in another thread."""
        durable, decided = self.hub.outbox.durable_lsn, self.broker.lsn
        if self.disk.full_because and durable < decided:
            return f"its disk is full: {self.disk.full_because}"
        if durable >= decided:
            return "all events are durable, but a part of the broker does not end: see what hangs"
        return (
            f"events {durable + 1} to {decided} are not durable, and were not confirmed to any "
            "client: the process that writes the journal, or its disk, does not answer"
        )

    # ---- events while serving

    def _failed(self, error: Exception) -> None:
        log.error("the journal failed, the broker stops", why=str(error))
        self._give_up(error)

    def _leads_no_more(self, error: Exception) -> None:
        log.error("the broker stops at once; unconfirmed events may be lost", why=str(error))
        self._give_up(error)

    def _index_failed(self, error: Exception) -> None:
        """Stop, because paged entries cannot be read; the next start rebuilds the index."""
        if self._ending.has_stopped:
            log.warning(
                "the index could not be finished; the next start sees to it", why=str(error)
            )
            return
        log.error("the index failed, the broker stops; no messages are lost", why=str(error))
        self._give_up(error)

    def _unreadable(self, error: StoreError) -> None:
        """Stop, because paged entries cannot be read; the next start checks the index, if it is the
        reason.
        """
        if not isinstance(error, ContentError):
            distrust(self._directory.path, str(error))
        self._index_failed(error)

    def _journal_damaged(self, why: str) -> None:
        """Accept no more messages, because a later start could not fold them (ADR 21)."""
        if not why:
            log.info("the journal can be read again where it was damaged")
            self.hub.index_failing("")
            return
        if self.config.broker.journal_damage_policy == STOP:
            log.error("the journal is damaged, the broker stops", why=why)
            self._exit_code = FAILED
            self._stop.set()
            return
        log.error(
            "the journal is damaged: no messages are taken, consumers continue",
            why=why,
            policy=FAIL,
        )
        self.hub.index_failing(
            "the broker's journal is damaged, so it takes no messages; consumers can continue: "
            + why
        )

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Stop after an unexpected exception: a half-finished decision must not be written."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self._unforeseen(error)

    def _unforeseen(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            self._unreadable(error)
        elif self.hub.failure is None:
            log.error("a bug of Daybook, the broker stops; no messages are lost", exc_info=error)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.hub.failed(error)
        self._exit_code = FAILED
        self._stop.set()

    def _reload_configuration(self) -> None:
        before = self.users.snapshot()
        try:
            self.users.reload()
            if self._reload is None:
                return
            new = self._reload()
            check_archive(effective(self.config, new))
            check_signing(new, reads=False)
        except (ConfigError, UsersError) as error:
            log.error("the configuration was not reloaded", why=str(error))
            self._permit(self.rights.renew)
            self._reloading = self._loop.create_task(self._apply_reloaded(before, None))
            return
        applied, later = changes(self.config, new)
        applied += [f"user {each}" for each in sorted(self.users.altered_since(before))]
        self.config = effective(self.config, new)
        self.users.allow_guest = self.config.broker.allow_guest
        logs.warn_all(log, self.users.warnings(all_names(self.config.virtual_hosts)))
        self._permit(self.rights.renew)
        logs.set_level(self.config.log.level)
        self.broker.configure(self._options())
        self.hub.configure(hub_options(self.config))
        self.disk.judge()
        self.indexing.checkpoint_us = self.config.journal.checkpoint_period * 1000
        self.indexing.snapshot_every = self.config.journal.snapshot_every
        self.indexing.catalog_headers = catalog_headers_of(self.config.journal)
        self.indexing.timeout_us = self.config.broker.indexer_timeout * 1000
        self._guard.stop_seconds = self.config.broker.stop_timeout / 1000
        self.retention.config = self.config.journal
        self.signing.reload()
        for acceptor, config in zip(self._acceptors, self.config.acceptors, strict=True):
            acceptor.configure(config)
        self._keep_console()
        changed = {"changed": applied, "needs_restart": later}
        self._reloading = self._loop.create_task(self._apply_reloaded(before, changed))

    async def _apply_reloaded(
        self, before: dict[str, User], changed: dict[str, list[str]] | None
    ) -> None:
        """Put a configuration in force, and log what `changed`; None: there is no new one."""
        # First, and before anything can fail: somebody may have been locked out.
        await self.checks.close_former_users(self.hub, before)
        try:
            if changed is not None:
                await self._configuring.apply(lambda: self.config)
                # Links are for the addresses that the configuration has made.
                self.connectors.configure(self.config)
        except StartError as error:
            log.error("a part of the configuration was refused", why=str(error))
        await self.rights.close_forbidden()
        if changed is not None:
            log.info("configuration reloaded", **changed)

    def status(self) -> dict[str, Any]:
        """Return the figures of the process, for `daybook status`."""
        stats = self._writer.stats()
        return {
            "version": VERSION,
            "name": self.config.broker.name,
            "data_directory": str(self._directory.path.resolve()),
            "uptime_seconds": round(time.time() - self._started, 1),
            "started": f"{moment(int(self._started) * 1_000_000)[:19]} UTC",
            "acceptors": [
                {
                    "name": acceptor.config.name,
                    "url": acceptor.urls,
                    "connections": len(acceptor.connections),
                }
                for acceptor in self._acceptors
            ],
            **self.vitals(),
            **self.monitoring.oldest_ready(),
            "sync_ms_last": round(stats.sync_seconds_last * 1000, 3),
            "sync_ms_average": round(stats.sync_seconds_average * 1000, 3),
            "sync_ms_max": round(stats.sync_seconds_max * 1000, 3),
            "blocks_written": stats.blocks,
            "blocks_written_near": stats.near_blocks,
            "disk_free_bytes": self.disk.free_bytes,
            "journal_bytes": self.disk.journal_bytes,
            **self.connectors.status(),
            **self.checks.status(),
            **self.indexing.status(),
            **self.signing.status(),
            **self.retention.status(),
            **self._console.status(),
            **self._cluster.status(),
            "background": self._supervisor.status(),
        }

    def vitals(self) -> dict[str, Any]:
        """Return the part of the status that health needs; cheap."""
        broker = self.broker
        blocked = "the index is behind, or has failed" if broker.room.behind else ""
        return {
            "durability_trouble": self._cluster.not_durable if self._is_slow else "",
            "disk_full": self.disk.full_because,
            **self.monitoring.queues(),
            "max_unindexed_bytes": self.hub.options.max_unindexed_bytes,
            **self.indexing.status(),
            **self.signing.status(),
            "retention_trouble": self.retention.trouble,
            **self.connectors.vitals(),
            **self._cluster.vitals(),
            "certificates_expiring": self.premises.expiring(),
            "background": self._supervisor.status(),
            "senders_held": blocked or ("memory is full" if broker.room.memory_full else ""),
        }

    def _numbers(self) -> dict[str, Any]:
        """Return the part of the status that metrics need; cheap."""
        return {
            "uptime_seconds": time.time() - self._started,
            "disk_free_bytes": self.disk.free_bytes,
            "journal_segments": self.disk.segments,
            **self.checks.admission.counts(),
            **self.checks.logins.status(),
            **self.indexing.status(),
            **self.signing.status(),
        }

    # ---- the end

    async def _end(self) -> None:
        """Stop cleanly if that is still possible, and close everything."""
        self._guard.count_down()
        self._notifier.say(STOPPING)
        self.monitoring.phase = Phase.STOPPING
        for acceptor in self._acceptors:
            # Onlookers are served during the stop too.
            if acceptor.entrance.logs_in:
                acceptor.stop()
        self.connectors.stop()
        self.administrators.stop()
        if self._control is not None:
            await self._control.close()
        stopping = self._loop.create_task(self._supervisor.stop())
        await asyncio.wait({stopping}, timeout=BACKGROUND_SECONDS)
        if not await self._ending.run(
            (*self._acceptors, self.connectors), _now(), has_begun=self._begun
        ):
            self._exit_code = FAILED
        elif self._ending.has_stopped:
            log.info("stopped", lsn=self.broker.lsn)
        for acceptor in self._acceptors:
            acceptor.stop()
        self.checks.close()


def _now() -> int:
    return time.time_ns() // 1000
