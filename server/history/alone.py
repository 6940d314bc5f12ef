"""A broker whose own disk decides what is durable.

`server.history.led` has the other kind: that of a cluster. Must never know a cluster.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from daybook.engine.commands import Start
from daybook.journal.writing.process_writer import ProcessWriter
from daybook.server.configuration.config import Config


class Alone:
    """The differences of a broker that is part of a cluster; here: none.

    `not_durable` says why events do not become durable, `has_console` whether the console of the
    configuration is for the broker to start.
    """

    has_console = True
    not_durable = (
        "events do not become durable: the process that writes the journal, or its disk, does not "
        "answer; receipts wait, and senders are blocked"
    )

    def begin(self, writer: ProcessWriter, data_id: bytes, lsn: int) -> None:
        """Wait until the first block may be written; the journal ends with an event. Raises
        StartError."""

    def sign(self, start: Start) -> Start:
        """Return the start of the broker."""
        return start

    def listen(
        self,
        writer: ProcessWriter,
        loop: asyncio.AbstractEventLoop,
        config: Callable[[], Config],
        on_lost: Callable[[Exception], None],
    ) -> None:
        """Prepare the writer for the event loop; `on_lost` is called when nothing may be confirmed
        any more."""

    def closed(self, writer: ProcessWriter) -> None:
        """Note that the journal is closed after a clean stop."""

    def status(self) -> dict[str, Any]:
        """Return the part of `daybook status`."""
        return {}

    def work(self, data: Path) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return background work that is to be repeated each second, by name."""
        return {}

    def vitals(self) -> dict[str, Any]:
        """Return the part of the status that health and metrics need."""
        return {}
