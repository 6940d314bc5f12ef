"""The broker of a cluster: events count as durable when enough nodes have them (ADR 118).

A node of the cluster has started this process, which waits until that leads. The journal's writer
says what is on this disk, the node what is on enough disks; what clients hear, and what is indexed,
waits for the latter. A block may be on its way to others while it is synced here: small ones go
over lanes, whose answers count too (ADR 119). Invariant: nothing is confirmed after the lease may
be over, and no block is written before the node has noted the epoch.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from daybook.engine.commands import Start
from daybook.journal.places import Place
from daybook.journal.writing.process_writer import ProcessWriter
from daybook.replication.lanes.lanes import Lanes
from daybook.replication.leading import BrokerEnd, LeadLost
from daybook.replication.links import Security
from daybook.replication.runner import Settings
from daybook.server.configuration import filter_parser
from daybook.server.configuration.config import Config
from daybook.server.configuring import StartError
from daybook.server.history.alone import Alone
from daybook.server.process import logs
from daybook.server.standbys.node_socket import state_of
from daybook.server.standbys.settings import settings_of

log = logs.logger("cluster")

OF_CONSOLE: Final = ("console", "console_pid")
LOST: Final = "the node that started this broker has ended, or leads no more"


class Led(Alone):
    """The differences of a broker that a node has started."""

    has_console = False
    not_durable = (
        "events do not become durable: too few nodes acknowledge them, or this one's disk does not "
        "answer; `daybook cluster status` says which nodes lag; receipts wait, and senders are "
        "blocked"
    )

    def __init__(self, end: BrokerEnd) -> None:
        self._end: Final = end
        self._written = 0
        self._state: dict[str, Any] = {}
        self._lanes: Lanes | None = None

    def wait(self) -> None:
        """Prepare this process, and wait until the node leads; nothing of the data directory is
        opened before. Raises LeadLost."""
        filter_parser.load()
        # The node ends it; a terminal may interrupt both, which needs no traceback.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._end.wait()
        signal.signal(signal.SIGINT, before)

    def begin(self, writer: ProcessWriter, data_id: bytes, lsn: int) -> None:
        """Say where the journal ends, and wait until the first block may be written. Raises
        StartError."""
        self._written = lsn
        try:
            self._end.begin(data_id, writer.place, lsn)
        except LeadLost as error:
            raise StartError(LOST) from error

    def sign(self, start: Start) -> Start:
        """Return the start of the broker with the epoch in it."""
        start.epoch, start.node = self._end.epoch, self._end.node
        return start

    def listen(
        self,
        writer: ProcessWriter,
        loop: asyncio.AbstractEventLoop,
        config: Callable[[], Config],
        on_lost: Callable[[Exception], None],
    ) -> None:
        """Let the node and the lanes say what is durable, instead of the writer; `on_lost` is
        called once."""
        end = self._end

        def durable(lsn: int) -> bool:
            if not end.may_confirm():
                return False
            writer.count_durable(lsn)
            return True

        def lost() -> None:
            loop.remove_reader(end.fileno())
            on_lost(LeadLost(LOST))

        def watch(wanted: bool) -> None:
            with suppress(OSError, ValueError):
                if wanted:
                    loop.add_writer(end.fileno(), end.flush)
                else:
                    loop.remove_writer(end.fileno())

        end.on_durable, end.on_lost, end.watch = durable, lost, watch
        writer.on_written = self._wrote
        if (settings := self._settings(config())) is not None:
            lanes = self._lanes = Lanes(
                settings, end, loop, durable, lambda: _security(config(), settings)
            )
            end.on_durable, end.on_forget = lanes.confirmed, lanes.forget
            writer.share(lanes)
            lanes.start()
        loop.add_reader(end.fileno(), end.receive)

    def _settings(self, config: Config) -> Settings | None:
        """Return what is known of the cluster, if that is what the node knows."""
        if config.replication is None:
            return None
        settings = settings_of(config.replication)
        if settings.rules == self._end.rules:
            return settings
        log.warning(
            "[replication] has changed since the node started: there are no lanes, until the node"
            " is restarted"
        )
        return None

    def _wrote(self, place: Place, lsn: int) -> None:
        self._written = lsn
        if self._lanes is not None:
            self._lanes.wrote(place, lsn)
        else:
            self._end.wrote(place, lsn)

    def work(self, data: Path) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what asks the node about the others."""

        async def look() -> None:
            # The node may be busy; if it ends, the kernel ends this process.
            with suppress(OSError, ValueError, TimeoutError):
                self._state = await state_of(data)

        return {"cluster": look}

    def vitals(self) -> dict[str, Any]:
        """Return what the node said last."""
        return {"cluster": self._state}

    def closed(self, writer: ProcessWriter) -> None:
        """Let another node lead, whatever this process still has to do."""
        if self._lanes is not None:
            self._lanes.tell()
            self._lanes.close()
        self._end.closed(writer.place, self._written)

    def status(self) -> dict[str, Any]:
        """Return the part of `daybook status`: which epoch this is, and what is on this disk."""
        return {
            "node": self._end.node,
            "epoch": self._end.epoch,
            "written_lsn": self._written,
            "may_confirm": self._end.may_confirm(),
            "lanes": self._lanes.status() if self._lanes is not None else {},
            **{key: self._state[key] for key in OF_CONSOLE if key in self._state},
        }


def _security(config: Config, settings: Settings) -> Security | None:
    """Return the files of the certificate, which may be others since the start."""
    known = config.replication
    return settings_of(known).security if known is not None else settings.security


def led() -> Led | None:
    """Return what connects this process to the node that started it, once that leads; None if no
    node did. Call it once. Raises LeadLost."""
    end = BrokerEnd.inherited(os.environ)
    if end is None:
        return None
    found = Led(end)
    found.wait()
    return found
