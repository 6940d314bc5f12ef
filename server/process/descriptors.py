"""The file descriptors of the broker: how many there are, and how many are reserved for files.

A broker that used all descriptors for sockets could not open the segment that it must read next. So
a start raises the soft limit of the process to the hard one, `RESERVE` descriptors are for files,
the number of connections is limited to the rest, and spare descriptors (`journal.spares`) cover
cases that cannot be counted: files of libraries, or a machine without free descriptors. Invariant:
a lack of descriptors only delays new connections.
"""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.errors import DaybookError
from daybook.journal.spares import SPARES

RESERVE: Final = 192
"""Descriptors that are not for connections: segments open in three readers, clusters, the index,
the writer and the indexer, the control socket and its clients, retention and its archive, the
spares, and those of the event loop.
"""

SPARE_COUNT: Final = 16
LIMIT_MAX: Final = 1 << 20
"""The soft limit is raised to this at most: some libraries loop over all possible descriptors."""

CONNECTIONS_MIN: Final = 16
"""The least number of connections: a start refuses a limit that leaves fewer."""


class TooFewDescriptors(DaybookError):
    """The limit of open files is too low to serve; the text gives the remedy."""


class Descriptors:
    """The descriptors of this process. `configured` returns the current `max-connections`,
    `uncounted` the number of further connections.
    """

    def __init__(
        self, configured: Callable[[], int], uncounted: Callable[[], int] = lambda: 0
    ) -> None:
        """Raise the soft limit to the hard one and hold spares. Raises TooFewDescriptors."""
        self._configured: Final = configured
        self._uncounted: Final = uncounted
        self.limit: Final = raise_limit()
        if self.limit < RESERVE + CONNECTIONS_MIN:
            raise TooFewDescriptors(
                f"the process may have {self.limit} open files and needs"
                f" {RESERVE + CONNECTIONS_MIN} or more: raise the hard limit (`ulimit -Hn`,"
                " LimitNOFILE= of systemd, --ulimit nofile= of a container)"
            )
        SPARES.reserve(SPARE_COUNT)

    @property
    def connections_max(self) -> int:
        """The number of connections that configuration and descriptors allow."""
        return min(self._configured(), self._left())

    def _left(self) -> int:
        """Return how many descriptors remain besides files and uncounted connections."""
        return max(CONNECTIONS_MIN, self.limit - RESERVE - self._uncounted())

    @property
    def is_short(self) -> bool:
        """Whether no connections should be accepted, because files needed the spare descriptors.

        Tries to take the spares again.
        """
        return not SPARES.refill()

    def advice(self) -> str:
        """Return the remedy if descriptors limit the connections; "" if they do not."""
        if self._configured() <= self._left():
            return ""
        wanted = self._configured() + RESERVE + self._uncounted()
        return (
            f"max-connections is {self._configured()}, but the limit of {self.limit} open files"
            f" leaves room for {self.connections_max}: raise the hard limit to"
            f" {wanted} (`ulimit -Hn`, LimitNOFILE= of systemd)"
        )

    def status(self) -> dict[str, object]:
        """The part of `daybook status`."""
        return {
            "max_connections": self.connections_max,
            "open_files": open_files(),
            "open_files_max": self.limit,
        }


def open_files() -> int:
    """Return how many descriptors the process has open; 0 if unknown."""
    try:
        # The listing itself uses one.
        return len(os.listdir(Path("/proc/self/fd"))) - 1  # noqa: PTH208 - only the number counts
    except OSError:
        return 0


def raise_limit() -> int:
    """Raise the soft limit as far as useful and allowed; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return LIMIT_MAX if soft == resource.RLIM_INFINITY else soft
