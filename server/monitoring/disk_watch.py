"""Watching the disk of the data directory: is it full, by its limits or because no segment fits?

A change is reported to the hub and logged. Must never know which commands the hub refuses then.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import DiskFull
from daybook.journal.segments.segment import segment_names
from daybook.server.configuration.config import BrokerConfig
from daybook.server.hub.hub import Hub
from daybook.server.process import logs
from daybook.server.process.disk_space import DiskSpace

RESERVED: Final = 2
"""The newest segments, whose size may still change."""

log = logs.logger("service")


class DiskWatch:
    """`full_because` says why the disk is full, "" if it is not; `segments` is their number, and
    `journal_bytes` their size, at the last scan. `config` returns the current configuration.
    """

    def __init__(self, directory: Path, hub: Hub, config: Callable[[], BrokerConfig]) -> None:
        self.full_because = ""
        self.segments = 0
        self.journal_bytes = 0
        self._sealed: Final[dict[str, int]] = {}
        self._hub: Final = hub
        self._config: Final = config
        self._space: Final = DiskSpace(directory)
        self._folder: Final = directory / JOURNAL
        self._journal: Final = RealDisk(self._folder)
        # Why the journal could not reserve a segment; "" if it could.
        self._no_segment = ""

    @property
    def free_bytes(self) -> int | None:
        """Free bytes at the last measurement; None if unknown."""
        return self._space.space.free if self._space.space else None

    def no_segment(self, full: DiskFull) -> None:
        """The journal could not reserve a segment."""
        self._no_segment = str(full)
        self.judge()

    def has_segment(self) -> None:
        """The journal has reserved its segment again."""
        self._no_segment = ""
        self.judge()

    def scan(self) -> None:
        """Check the disk, and count segments."""
        self.judge()
        names = segment_names(self._journal)
        self.segments = len(names)
        self.journal_bytes = self._measure(names)

    def _measure(self, names: list[str]) -> int:
        """Return the bytes of the segments; of those that were sealed before, as measured then."""
        sealed = set(names[:-RESERVED])
        for gone in self._sealed.keys() - sealed:
            del self._sealed[gone]
        total = 0
        for name in names:
            size = self._sealed.get(name)
            if size is None:
                with contextlib.suppress(FileNotFoundError):
                    size = (self._folder / name).stat().st_size
            if name in sealed:
                self._sealed[name] = size or 0
            total += size or 0
        return total

    def judge(self) -> None:
        """Report to the hub whether the disk is full: by its limits, or because no segment fits."""
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
                f"the broker's disk is full{told}, so it takes no messages; consumers can continue"
            )
        else:
            log.info("there is room on the disk again")
            self._hub.disk_full("")
