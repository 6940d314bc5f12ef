"""Watching the disk of the data directory: is it full, by its limits or because no segment fits?

The hub is told when that changes, and so is the log. Must never know what is refused for it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import DiskFull
from daybook.journal.segment import segment_names
from daybook.server import logs
from daybook.server.config import BrokerConfig
from daybook.server.disk_space import DiskSpace
from daybook.server.hub import Hub

log = logs.logger("service")


class DiskWatch:
    """`full_because` says why the disk is full, empty if it is not; `segments` is how many there
    were at the last scan. `config` answers the configuration in force."""

    def __init__(self, directory: Path, hub: Hub, config: Callable[[], BrokerConfig]) -> None:
        self.full_because = ""
        self.segments = 0
        self._hub: Final = hub
        self._config: Final = config
        self._space: Final = DiskSpace(directory)
        self._journal: Final = RealDisk(directory / JOURNAL)
        # Why the journal got no segment; empty if it did.
        self._no_segment = ""

    @property
    def free_bytes(self) -> int | None:
        """How much room there was at the last look; None if the system does not say."""
        return self._space.space.free if self._space.space else None

    def no_segment(self, full: DiskFull) -> None:
        """The journal got no segment."""
        self._no_segment = str(full)
        self.judge()

    def has_segment(self) -> None:
        """The journal got its segment after all."""
        self._no_segment = ""
        self.judge()

    def scan(self) -> None:
        """Judge the disk, and count segments."""
        self.judge()
        self.segments = len(segment_names(self._journal))

    def judge(self) -> None:
        """Tell the hub whether the disk is full: by its limits, or because no segment fits."""
        config = self._config()
        wrong = self._space.judge(
            max_disk_usage=config.max_disk_usage, min_disk_free=config.min_disk_free
        )
        why = self._no_segment or wrong
        if bool(why) == bool(self.full_because):
            self.full_because = why
            return
        self.full_because = why
        if why:
            log.error(
                "the disk is full: no messages are taken until there is room",
                why=why,
                policy=config.disk_full_policy,
            )
            told = f" ({wrong})" if wrong else ""
            self._hub.disk_full(
                f"the broker's disk is full{told}, so it takes no messages; consumers can go on"
            )
        else:
            log.info("there is room on the disk again")
            self._hub.disk_full("")
