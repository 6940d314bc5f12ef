"""Logging the ERROR frames that end connections: who got which, without drowning the log.

The first of a peer's address within a minute is logged with its text; more of it are counted, and
the counts are logged when the minute is over. So a client with a mistake is found in the log
at once, and one that repeats it a thousand times a second costs two lines a minute. Must never know
what the mistake is.
"""

import asyncio
import time
from typing import Final

from daybook.server import logs
from daybook.server.tally import SPAN_US, Tally

HOSTS_MAX: Final = 1000
"""Of how many addresses errors are counted one by one within a minute."""

log = logs.logger("protocol")


class ErrorFrames:
    """The ERROR frames of one acceptor; lives in the thread of the event loop."""

    def __init__(self, acceptor: str) -> None:
        self._acceptor: Final = acceptor
        self._tally: Final[Tally[str]] = Tally(HOSTS_MAX)
        self._timer: asyncio.TimerHandle | None = None

    def note(self, host: str, peer: str, error: str) -> None:
        """An ERROR frame with this text ended the connection of a peer."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SPAN_US / 1_000_000, self.report)
        if self._tally.note(host, time.monotonic_ns() // 1000):
            log.warning("connection ended by ERROR", peer=peer, acceptor=self._acceptor, why=error)

    def report(self) -> None:
        """Log how many more there were, and count anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        more, others = self._tally.take()
        for host, count in more.items():
            log.warning(
                "more connections ended by ERROR", host=host, acceptor=self._acceptor, count=count
            )
        if others:
            log.warning(
                "more connections ended by ERROR", host="others", acceptor=self._acceptor,
                count=others,
            )  # fmt: skip
