"""Logs why connections end, ERROR frames for example, with a limit on the number of lines.

The first one of an address in a minute is logged with its text; further ones are counted, and the
counts are logged at the end of the minute. So a faulty client appears in the log at once, and one
that repeats its mistake a thousand times a second causes two lines a minute. Must never know the
mistakes.
"""

import asyncio
import re
import time
from typing import Final

from daybook.server.process import logs
from daybook.server.process.tally import SPAN_US, Tally

ERROR_FRAME: Final = "ended by ERROR"
REFUSED: Final = "ended by a refusal"
LAYER_FAILED: Final = "failed in TLS or WebSocket"

PROBE: Final = re.compile(
    r"transaction '(daybook-probe-[0-9a-f]{32})' has two messages with the duplicate id '\1-id' "
    r"|queue '(daybook-probe-[0-9a-f]{32})-queue' would be created on address '\2-1' "
)
"""The beginning of refusals by which `pipeline.publishing.remembers_ids` learns whether an address
detects duplicates: the client asks a question, and makes no mistake."""

HOSTS_MAX: Final = 1000
"""The number of addresses whose errors are counted separately in a minute."""

log = logs.logger("protocol")


class ErrorFrames:
    """The ERROR frames of one acceptor, or ends of another kind; used only in the thread of the
    event loop.
    """

    def __init__(
        self, acceptor: str, ending: str = ERROR_FRAME, *, by_reason: bool = False
    ) -> None:
        """`by_reason`: there are few texts, so the first of each is logged for an address."""
        self._acceptor: Final = acceptor
        self._ending: Final = ending
        self._by_reason: Final = by_reason
        self._tally: Final[Tally[tuple[str, str]]] = Tally(HOSTS_MAX)
        self._timer: asyncio.TimerHandle | None = None

    def note(self, host: str, peer: str, error: str) -> None:
        """Note that an ERROR frame with this text ended the connection of a peer."""
        if PROBE.match(error):
            log.debug("a client asked whether an address detects duplicates", peer=peer)
            return
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SPAN_US / 1_000_000, self.report)
        if self._tally.note((host, error if self._by_reason else ""), time.monotonic_ns() // 1000):
            log.warning(f"connection {self._ending}", peer=peer, acceptor=self._acceptor, why=error)

    def report(self) -> None:
        """Log the counts, and reset them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        more, others = self._tally.take()
        for (host, why), count in more.items():
            reason = {"why": why} if why else {}
            log.warning(
                f"more connections {self._ending}", host=host, acceptor=self._acceptor, count=count,
                **reason,
            )  # fmt: skip
        if others:
            log.warning(
                f"more connections {self._ending}", host="others", acceptor=self._acceptor,
                count=others,
            )  # fmt: skip
