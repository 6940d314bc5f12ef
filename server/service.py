"""The broker as a process: start, serve, reload, stop.

Start: lock, recover, `BrokerStarted`, settings and addresses of the configuration, listen, `ready`.
Stop on SIGTERM or SIGINT: no more reading, everything decided becomes durable, `BrokerStopped`, a
mark, close. A failed write or sync ends the process at once and says why: what is not on disk is
never spoken of.
"""

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import uvloop

from client.control import SOCKET_NAME
from engine import settings
from engine.broker import Broker
from engine.commands import (
    ChangeSettings,
    Command,
    CreateAddress,
    CreateQueue,
    Start,
)
from engine.core import Options
from engine.queues import StoreError
from engine.refusals import Code, Refusal
from journal.disk import RealDisk
from journal.errors import DiskFull, JournalError
from paging.content import ContentReader
from paging.layout import LAYOUT
from recovery.checkpoint import discard
from recovery.directory import JOURNAL, RecoveryError
from server import logs
from server.config import Config, ConfigError, changes, effective
from server.control import ControlServer
from server.disk_space import DiskSpace
from server.hub import Hub, HubOptions, LoginRequest
from server.indexing import Indexing
from server.journaling import Journaling
from server.listeners import Acceptor
from server.packaging import foreign_packages
from server.retention import Retention
from server.users import GUEST, Users, UsersError
from server.version import VERSION

TICK_SECONDS: Final = 0.1
CLOCK_STEP_US: Final = 500_000
"""A clock that moves by more between two ticks was set, not slewed."""
CHUNK_CACHE_BYTES: Final = 4 * 1024 * 1024
"""What is kept of blocks that large messages are read from: a block serves several chunks."""
INDEX_SECONDS: Final = 5.0
"""How long a stop waits for the index; what is missing then is folded by the next start."""
FULL_DISK_SECONDS: Final = 3.0
"""How long a stop waits for room on a full disk."""

FAILED: Final = 1

log = logs.logger("service")


class StartError(Exception):
    """The broker cannot start; the text says why and what to do."""


def run(config: Config, reload: Callable[[], Config] | None = None) -> int:
    """Serve until told to stop; return the exit code. `reload` reads a new configuration."""
    logs.configure(config.log.level, config.log.format)
    # Messages are many and long-lived: the collector's default would look at them over and over.
    gc.set_threshold(100_000, 50, 100)
    try:
        _check_packages()
        with (
            Journaling(config) as journaling,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(Service(config, reload, journaling).run())
    except (StartError, JournalError, RecoveryError, UsersError) as error:
        log.error("the broker cannot start", why=str(error))
        return FAILED


def _check_packages() -> None:
    wrong = foreign_packages()
    if wrong:
        raise StartError("; ".join(wrong) + ": use an environment of Daybook's own")


class Service:
    """Everything that lives as long as the event loop."""

    def __init__(
        self, config: Config, reload: Callable[[], Config] | None, journaling: Journaling
    ) -> None:
        self.config = config
        self._reload: Final = reload
        self._directory: Final = journaling.directory
        self._writer: Final = journaling.writer
        self._space: Final = DiskSpace(self._directory.path)
        # Why the disk is full: because the journal got no segment, and all in all; empty if not.
        self._no_segment = ""
        self._full_because = ""
        self._stop: Final = asyncio.Event()
        self._exit_code = 0
        self._begun = False
        self._has_stopped = False
        self._acceptors: list[Acceptor] = []
        self._control: ControlServer | None = None
        # Two at a time: a flood of logins must not take the machine.
        self._hashing: Final = ThreadPoolExecutor(2, thread_name_prefix="passcodes")
        self._started: Final = time.time()
        self._skew = _now() - time.monotonic_ns() // 1000

    async def run(self) -> int:
        """Start, serve, stop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unexpected)
        self.users = self._load_users()
        self._build()
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._end()
        return self._exit_code

    def _load_users(self) -> Users:
        users = Users.load(Path(self.config.broker.users_file))
        _warn_about(users)
        return users

    def _build(self) -> None:
        """Put broker and hub on what was recovered. Nothing is decided yet."""
        recovered = self._directory.recovered
        self.broker = Broker(recovered.state, recovered.events + 1, self._options())
        self.hub = Hub(
            self.broker,
            self._writer,
            self._hub_options(),
            clock=_now,
            schedule=self._schedule_turn,
            authenticate=self._authenticate,
        )
        self.hub.chunks = ContentReader(
            RealDisk(self._directory.path / JOURNAL), LAYOUT, cache_bytes=CHUNK_CACHE_BYTES
        )
        self.hub.on_notice = log.warning
        self._listen_to_writer()
        self.indexing = Indexing(
            self.hub,
            self._loop,
            self._directory.path,
            recovered.journal.data_id,
            store=recovered.store,
            process=recovered.indexer,
            checkpoint_us=self.config.journal.checkpoint_period * 1000,
            on_failure=self._index_failed,
        )
        self.retention = Retention(
            self.hub, self._directory.path, lambda: self.indexing.store, self.config.journal
        )

    async def _start(self) -> None:
        # Before the start is decided: a port that is taken leaves nothing in the journal.
        await self._bind()
        await self._prepare()
        if self._stop.is_set():
            return
        self._control = ControlServer(self.hub, self._directory.path / SOCKET_NAME)
        self.hub.extra_status = self.status
        await self._control.start()
        self._scan_disk()
        for acceptor in self._acceptors:
            await acceptor.start()
        self._tick()
        self.retention.start()
        self._handle_signals()
        print(f"ready {' '.join(acceptor.url for acceptor in self._acceptors)}", flush=True)
        log.info("ready", listen=[acceptor.url for acceptor in self._acceptors], version=VERSION)

    def _listen_to_writer(self) -> None:
        writer = self._writer
        writer.on_durable = self.hub.durable
        writer.on_failure = self._failed
        writer.on_disk_full = self._disk_full
        writer.on_disk_free = self._disk_free
        writer.watch = self._watch_writer
        self._loop.add_reader(writer.fileno(), writer.receive)

    def _watch_writer(self, wanted: bool) -> None:
        if wanted:
            self._loop.add_writer(self._writer.fileno(), self._writer.flush)
        else:
            self._loop.remove_writer(self._writer.fileno())

    def _schedule_turn(self) -> None:
        self._loop.call_soon(self.hub.turn)

    def _options(self) -> Options:
        broker = self.config.broker
        return Options(
            persist_delivery_count_before_delivery=broker.persist_delivery_count_before_delivery,
            max_transaction_bytes=broker.max_transaction_bytes,
            global_max_size=broker.global_max_size,
            global_max_messages=broker.global_max_messages,
            disk_full_policy=broker.disk_full_policy,
            persist_id_cache=broker.persist_id_cache,
        )

    def _hub_options(self) -> HubOptions:
        journal = self.config.journal
        return HubOptions(
            block_bytes=journal.block_bytes,
            max_pending_bytes=min(
                journal.max_pending_bytes, max(journal.segment_bytes // 2, journal.block_bytes)
            ),
            expiry_scan_us=self.config.broker.message_expiry_scan_period * 1000,
            max_unindexed_bytes=self.config.broker.max_unindexed_bytes,
            idle_mark_us=journal.idle_mark_delay * 1000,
        )

    async def _prepare(self) -> None:
        """Decide the start and what the configuration asks for, and wait until that is durable."""
        repair = self._directory.recovered.repair
        start = Start(version=VERSION)
        if repair is not None and repair.cut_bytes:
            start.cut_bytes = repair.cut_bytes
            start.cut_segment = repair.segment
            start.cut_offset = repair.cut_offset
        self._begun = True
        await self._carry_out(start)
        await self._apply_configuration()

    async def _apply_configuration(self) -> None:
        config = self.config
        for warning in settings.warnings(config.address_settings):
            log.warning(warning)
        await self._carry_out(
            ChangeSettings(config.address_settings, config.broker.journal_non_persistent)
        )
        for address in config.addresses:
            await self._carry_out(CreateAddress(address.name, address.routing_types))
        for queue in config.queues:
            await self._carry_out(
                CreateQueue(queue.name, queue.address, queue.routing_type, queue.durable)
            )

    async def _carry_out(self, command: Command) -> None:
        """Have a command of the configuration carried out; what exists already is fine."""
        answered: asyncio.Future[int | Refusal] = self._loop.create_future()

        def answer(result: int | Refusal) -> None:
            if not answered.done():
                answered.set_result(result)

        self.hub.request(command, answer)
        while not answered.done() and not self._stop.is_set():
            await asyncio.wait({answered}, timeout=TICK_SECONDS)
        if answered.done():
            result = answered.result()
            if isinstance(result, Refusal) and result.code is not Code.ALREADY_EXISTS:
                raise StartError(f"the configuration cannot be put in force: {result.text}")

    async def _bind(self) -> None:
        name = f"daybook/{VERSION}"
        for config in self.config.acceptors:
            acceptor = Acceptor(self.hub, config, name, self._is_full)
            try:
                await acceptor.bind()
            except OSError as error:
                raise StartError(
                    f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; "
                    "choose another address with --listen stomp://HOST:PORT"
                ) from error
            self._acceptors.append(acceptor)

    def _is_full(self) -> bool:
        return len(self.hub.peers) >= self.config.broker.max_connections

    def _tick(self) -> None:
        skew = _now() - time.monotonic_ns() // 1000
        step = skew - self._skew
        self._skew = skew
        if abs(step) >= CLOCK_STEP_US:
            log.warning(
                "the clock was set; messages that expire go by the new time", seconds=step / 1e6
            )
            self.hub.clock_stepped(step)
        self.hub.tick()
        self.indexing.tick(time.monotonic_ns() // 1000)
        self._loop.call_later(TICK_SECONDS, self._tick)

    def _handle_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._terminate, number)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload_configuration)

    def _terminate(self, number: int) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        self._stop.set()

    # ---- logins

    def _authenticate(
        self, request: LoginRequest, answer: Callable[[str | None, str], None]
    ) -> None:
        login, passcode = request.login, request.passcode
        if not login and not passcode:
            login = passcode = GUEST
        users = self.users
        work = self._loop.run_in_executor(
            self._hashing,
            lambda: users.admits(login, passcode, peer_is_loopback=request.is_loopback),
        )

        def done(result: "asyncio.Future[bool]") -> None:
            if result.cancelled():
                return
            if result.exception() is None and result.result():
                answer(login, "")
            else:
                log.warning("login refused", login=login, loopback=request.is_loopback)
                answer(None, f"login or passcode of '{login}' is wrong")

        work.add_done_callback(done)

    # ---- what happens while serving

    def _failed(self, error: Exception) -> None:
        log.error("the journal failed, the broker stops", why=str(error))
        self._give_up(error)

    def _index_failed(self, error: Exception) -> None:
        """What is not in memory cannot be read: stop, and have the index made anew."""
        if self._has_stopped:
            log.warning(
                "the index could not be finished; the next start sees to it", why=str(error)
            )
            return
        log.error("the index failed, the broker stops; nothing is lost", why=str(error))
        self._give_up(error)

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Nothing may go on after what nobody expected: what was half done must not be written."""
        error = context.get("exception")
        if isinstance(error, StoreError):
            discard(self._directory.path)
            self._index_failed(error)
        elif isinstance(error, Exception) and self.hub.failure is None:
            log.error("a bug of Daybook, the broker stops; nothing is lost", exc_info=error)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.hub.failed(error)
        self._exit_code = FAILED
        self._stop.set()

    def _disk_full(self, full: DiskFull) -> None:
        self._no_segment = str(full)
        self._judge_disk()

    def _disk_free(self) -> None:
        self._no_segment = ""
        self._judge_disk()

    def _scan_disk(self) -> None:
        self._judge_disk()
        self._loop.call_later(self.config.broker.disk_scan_period / 1000, self._scan_disk)

    def _judge_disk(self) -> None:
        """Tell the hub whether the disk is full: by its limits, or because no segment fits."""
        broker = self.config.broker
        wrong = self._space.judge(
            max_disk_usage=broker.max_disk_usage, min_disk_free=broker.min_disk_free
        )
        why = self._no_segment or wrong
        if bool(why) == bool(self._full_because):
            self._full_because = why
            return
        self._full_because = why
        if why:
            log.error(
                "the disk is full: no messages are taken until there is room",
                why=why,
                policy=broker.disk_full_policy,
            )
            told = f" ({wrong})" if wrong else ""
            self.hub.disk_full(
                f"the broker's disk is full{told}, so it takes no messages; consumers can go on"
            )
        else:
            log.info("there is room on the disk again")
            self.hub.disk_full("")

    def _reload_configuration(self) -> None:
        try:
            self.users.reload()
            if self._reload is None:
                return
            new = self._reload()
        except (ConfigError, UsersError) as error:
            log.error("the configuration was not reloaded", why=str(error))
            return
        _warn_about(self.users)
        applied, later = changes(self.config, new)
        self.config = effective(self.config, new)
        logs.set_level(self.config.log.level)
        self.broker.configure(self._options())
        self.hub.options = self._hub_options()
        self._judge_disk()
        self.indexing.checkpoint_us = self.config.journal.checkpoint_period * 1000
        self.retention.config = self.config.journal
        for acceptor, config in zip(self._acceptors, self.config.acceptors, strict=True):
            acceptor.configure(config)
        self._reloading = self._loop.create_task(self._apply_reloaded())
        log.info("configuration reloaded", changed=applied, needs_restart=later)

    async def _apply_reloaded(self) -> None:
        try:
            await self._apply_configuration()
        except StartError as error:
            log.error("a part of the configuration was refused", why=str(error))

    def status(self) -> dict[str, Any]:
        """What the process knows about itself, for `daybook status`."""
        stats = self._writer.stats()
        return {
            "version": VERSION,
            "name": self.config.broker.name,
            "data_directory": str(self._directory.path.resolve()),
            "uptime_seconds": round(time.time() - self._started, 1),
            "acceptors": [
                {
                    "name": acceptor.config.name,
                    "url": acceptor.url,
                    "connections": len(acceptor.connections),
                }
                for acceptor in self._acceptors
            ],
            "sync_ms_last": round(stats.sync_seconds_last * 1000, 3),
            "sync_ms_average": round(stats.sync_seconds_average * 1000, 3),
            "sync_ms_max": round(stats.sync_seconds_max * 1000, 3),
            "blocks_written": stats.blocks,
            "disk_full": self._full_because,
            "disk_free_bytes": self._space.space.free if self._space.space else None,
            **self.indexing.status(),
            **self.retention.status(),
        }

    # ---- the end

    async def _end(self) -> None:
        """Stop cleanly if that is still possible, and let go of everything."""
        for acceptor in self._acceptors:
            acceptor.stop()
        if self._control is not None:
            await self._control.close()
        await self.retention.stop()
        await self._end_hub()
        self._hashing.shutdown(wait=False, cancel_futures=True)

    async def _end_hub(self) -> None:
        hub = self.hub
        stopped = asyncio.Event()
        if hub.failure is None and self._begun:
            try:
                hub.stop(lambda _: stopped.set())
                await self._wait_for_stop(stopped)
            except StoreError as error:
                # The digest of the stop reads all of the index.
                discard(self._directory.path)
                self._index_failed(error)
        for acceptor in self._acceptors:
            acceptor.close_all()
        if stopped.is_set():
            self._writer.mark(_now())
        self._loop.remove_reader(self._writer.fileno())
        # What a full disk kept waiting is tried once more, and then given up.
        self._writer.close()
        if stopped.is_set():
            self._has_stopped = True
            await self._finish_index()
        self.indexing.close()
        if stopped.is_set():
            log.info("stopped", lsn=self.broker.lsn)
        elif hub.failure is None and self._begun:
            self._exit_code = FAILED
            log.error("stopped without BrokerStopped in the journal: its disk is full")

    async def _finish_index(self) -> None:
        """Have the next start fold nothing, if that takes no time to speak of."""
        give_up = time.monotonic() + INDEX_SECONDS
        while not self.indexing.hurry() and time.monotonic() < give_up:
            await asyncio.sleep(TICK_SECONDS / 10)

    async def _wait_for_stop(self, stopped: asyncio.Event) -> None:
        """Until the stop is durable, or cannot become so."""
        patience = FULL_DISK_SECONDS
        while not stopped.is_set() and self.hub.failure is None and patience > 0:
            if self._writer.stats().disk_full:
                patience -= TICK_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), TICK_SECONDS)


def _warn_about(users: Users) -> None:
    for warning in users.warnings():
        log.warning(warning)


def _now() -> int:
    return time.time_ns() // 1000
