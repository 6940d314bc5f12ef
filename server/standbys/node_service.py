"""A node of a cluster as a service: the process that `daybook serve` is where there are standbys.

It follows, stands for the lead, and starts the broker as a process of its own, which waits until
the node leads.
SIGTERM and SIGINT end both, SIGHUP renews both. A socket in the data directory answers
`daybook cluster`. Must never know what the broker does.
"""

import asyncio
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import uvloop

from daybook.engine.refusals import Refusal
from daybook.errors import DaybookError, describe
from daybook.journal.confirmed import ConfirmedMark
from daybook.journal.data_directory import NODE
from daybook.journal.disk import RealDisk
from daybook.journal.pins import Pin
from daybook.replication.leading import boot_time_us
from daybook.replication.node import Role
from daybook.replication.replica_files import ReplicaFiles
from daybook.replication.runner import Owned, Runner
from daybook.server.administration.acting import ActAs, LogIn
from daybook.server.administration.request_rows import Answer
from daybook.server.configuration.config import Config, ConfigError
from daybook.server.configuration.replication_config import ReplicationConfig
from daybook.server.console_keeper import ConsoleKeeper
from daybook.server.network.layers.certificates import check as check_certificates
from daybook.server.process import logs
from daybook.server.process.service_manager import READY, STOPPING, SUPERVISOR, Notifier
from daybook.server.process.supervision import Supervisor
from daybook.server.standbys.arbiters import arbiter_of
from daybook.server.standbys.node_checks import check_node
from daybook.server.standbys.node_files import NodeFiles
from daybook.server.standbys.node_probe import NodeProbe
from daybook.server.standbys.node_socket import NodeSocket
from daybook.server.standbys.node_status import status_of
from daybook.server.standbys.node_users import NodeUsers
from daybook.server.standbys.settings import settings_of

FAILED: Final = 1
LOOK_SECONDS: Final = 0.25
TRIM_SECONDS: Final = 60.0
STEP_SECONDS: Final = 0.02
TAKE_OVER_US: Final = 15_000_000
"""How long the next leader may take until it leads, and this node follows it."""

log = logs.logger("node")


class HandOverFailed(DaybookError):
    """The node that was to lead next does not; the text says what became of the lead."""


def run(config: Config, reload: Callable[[], Config], command: Sequence[str]) -> int:
    """Run a node until a signal stops it; return the exit code. `reload` reads a new configuration;
    `command` is that of the broker, which finds in its environment that a node started it."""
    os.umask(0o077)
    logs.configure(config.log.level, config.log.format)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            service = NodeService(config, reload, command, runner.get_loop())
            runner.run(service.run())
    except (DaybookError, OSError) as error:
        why = describe(error) if isinstance(error, OSError) else str(error)
        log.error("the node ends", why=why, directory=config.broker.data_directory)
        return FAILED
    return 0


def _files_of(config: ReplicationConfig) -> dict[str, str]:
    return {
        "certificate": config.certificate, "key": config.key, "authority": config.authority,
        "etcd_certificate": config.etcd_certificate, "etcd_key": config.etcd_key,
        "etcd_authority": config.etcd_authority,
    }  # fmt: skip


class NodeService:
    """Everything of a node that exists as long as its event loop."""

    def __init__(
        self, config: Config, reload: Callable[[], Config], command: Sequence[str],
        loop: asyncio.AbstractEventLoop,
    ) -> None:  # fmt: skip
        """`loop` is that in which it will run. Raises ConfigError, UsersError, RecordDamaged and
        OSError."""
        if config.replication is None:
            raise ConfigError(["there is no [replication]"])
        check_node(config)
        self._loop: Final = loop
        self._reload: Final = reload
        self._notifier: Final = Notifier()
        # The broker is not the main process of a service: it must tell its supervisor nothing.
        for name in SUPERVISOR:
            os.environ.pop(name, None)
        self._config: Final = config.replication
        self._arbiter: Final = arbiter_of(config.replication)
        self._files: Final = NodeFiles(config, self._note)
        notes = RealDisk(self._files.data / NODE)
        notes.create()
        self._runner: Final = Runner(
            settings_of(config.replication),
            Owned(
                notes=notes,
                journal=self._files.journal,
                open_files=self._open_files,
                close_files=self._close_files,
                command=command,
                chance=random.randint,
                notice=self._note,
                base=self._files.base,
                host=socket.gethostname(),
                directory=str(self._files.data),
            ),
            self._arbiter,
        )
        self._pin: Pin | None = None
        self._mark: Final = ConfirmedMark(self._files.data)
        self._runner.following.on_cut = self._mark.lower_to
        self._socket: Final = NodeSocket(self._files.data, self)
        self._starting: asyncio.Task[None] | None = None
        self._probe: Final = NodeProbe(config.acceptors, self.status)
        self._supervisor: Final = Supervisor(self._note_error)
        self._console: Final = ConsoleKeeper(self._supervisor)
        self._users: Final = NodeUsers(config, loop)
        self._whole: Config = config

    @staticmethod
    def _note_error(error: Exception) -> None:
        log.error("work in the background has ended", why=str(error))

    @staticmethod
    def _note(text: str) -> None:
        log.warning(text)

    def _open_files(self) -> ReplicaFiles:
        """Follow; called in a thread. The broker has ended, so that its ports are free."""
        files = self._files.open()
        self._loop.call_soon_threadsafe(self._opened)
        return files

    def _opened(self) -> None:
        # Not before: another node may have the lock, and its socket.
        if self._starting is None:
            self._starting = self._loop.create_task(self._socket.start())
            self._notifier.say(READY, f"STATUS=node {self._config.node} of {self._config.cluster}")
            self._keep_console()
        self._probe.start()

    def _keep_console(self) -> None:
        whole = self._whole
        self._console.keep(whole.console, str(self._files.data), whole.broker.name)

    def _close_files(self, files: ReplicaFiles) -> None:
        """Make room for the broker: in the data directory, and at its ports."""
        self._probe.stop()
        self._files.close(files)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises the error that ends a node."""
        loop = self._loop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        looking = loop.create_task(self._look())
        log.info(
            "this node follows, or stands for the lead", node=self._config.node,
            cluster=self._config.cluster, listen=str(self._config.listen),
        )  # fmt: skip
        try:
            await self._runner.run()
        finally:
            looking.cancel()
            self._probe.stop()
            await self._supervisor.stop()
            if self._pin is not None:
                self._pin.release()
            if self._starting is not None:
                await self._socket.stop()
            await self._arbiter.close()

    def _stop(self) -> None:
        self._notifier.say(STOPPING)
        self._runner.stop()

    def _hang_up(self) -> None:
        try:
            self._renew(self._reload())
        except (DaybookError, OSError) as error:
            log.error("the node keeps its configuration and certificates", why=str(error))
        broker = self._runner.broker
        if broker is not None:
            with suppress(ProcessLookupError):
                os.kill(broker.pid, signal.SIGHUP)

    async def _hold_for_followers(self) -> None:
        """Keep the segments of a leader that a follower still needs."""
        needed = self._runner.node.needed_lsn(boot_time_us())
        pin = self._pin
        if pin is not None and 0 < pin.lsn <= needed:
            pin.advance(needed)
            return
        # The next one first: nothing may leave in between.
        self._pin = await asyncio.to_thread(Pin, self._files.data, needed) if needed else None
        if pin is not None:
            pin.release()

    def _renew(self, config: Config) -> None:
        """Put certificates and acceptors in force; the rest of [replication] needs a restart."""
        check_certificates(config)
        new = config.replication
        if new is None or msgspec.structs.replace(new, **_files_of(self._config)) != self._config:
            log.warning("[replication] has changed: restart this node to put it in force")
        elif security := settings_of(new).security:
            self._runner.renew(security)
        self._probe.configure(config.acceptors)
        self._users.renew(config)
        self._whole = config
        self._keep_console()
        logs.set_level(config.log.level)
        log.info("the node has read its certificates again")

    async def _look(self) -> None:
        """Let the index and the segments follow those of the leader."""
        trimmed = time.monotonic()
        while True:
            if time.monotonic() - trimmed > TRIM_SECONDS:
                trimmed = time.monotonic()
                await asyncio.to_thread(self._files.cut.trim)
            following = self._runner.following
            # Confirmed events may be beyond those that this node has.
            confirmed = min(following.confirmed, self._runner.lsn)
            self._files.follow(confirmed=confirmed, first=following.first)
            self._mark.raise_to(max(confirmed, self._runner.node.durable(boot_time_us())))
            await self._hold_for_followers()
            self._notifier.tick(time.monotonic_ns() // 1000)
            self._users.tick()
            await asyncio.sleep(LOOK_SECONDS)

    async def hand_over(self, to: str, by: str) -> dict[str, Any]:
        """Let another node lead; return which one does. Raises HandOverRefused, and HandOverFailed
        if this one leads again, or nobody does."""
        node, following = self._runner.node, self._runner.following
        begun, epoch = boot_time_us(), node.epoch
        self._runner.hand_over(to)
        assert node.handing_over is not None
        to = node.handing_over.to
        log.info("the lead is handed over", to=to, by=by or "command line")
        while node.role is Role.LEADING and node.epoch == epoch:
            await asyncio.sleep(STEP_SECONDS)
        if node.hand_over_trouble:
            raise HandOverFailed(
                f"the lead was not handed over to '{to}': {node.hand_over_trouble}; this node, or"
                " another one, leads soon"
            )
        deadline = boot_time_us() + TAKE_OVER_US
        while not following.is_led and boot_time_us() < deadline and node.role is Role.FOLLOWING:
            await asyncio.sleep(STEP_SECONDS)
        leader = self._runner.leader
        if leader != to:
            raise HandOverFailed(
                f"'{to}' has everything, but did not take the lead within"
                f" {TAKE_OVER_US / 1e6:g} s; see its log, and 'daybook cluster status'"
            )
        return {
            "leader": leader,
            "epoch": following.record.record.promised,
            "seconds": round((boot_time_us() - begun) / 1e6, 3),
        }

    async def about_user(self, asked: LogIn | ActAs) -> Answer | Refusal:
        """Return the user of a login, or what a user may see now."""
        return await self._users.answer(asked)

    def status(self) -> dict[str, Any]:
        """Return what `daybook cluster status`, health, probes and metrics show."""
        found = status_of(self._config, self._runner, self._files.index, self._files.cut)
        return {**found, **self._console.status(), "console_trouble": self._console.trouble()}


def command_line() -> list[str]:
    """Return the command line by which a node starts its broker: its own."""
    return [sys.executable, "-P", "-m", "daybook", *sys.argv[1:]]
