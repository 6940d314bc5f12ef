"""The guard: a thread that takes the signals of a serving broker, and that nothing can hold up.

The event loop may stand still: what it reads lies on disks, and a page of a map or a file on a disk
that hangs cannot be interrupted. Signal handlers would wait with it. So the main thread, which may
be stuck in the kernel, blocks the signals; the handler of the interpreter writes each into a pipe,
whichever thread it runs in, and this thread hands them to the loop. Told to end, it counts: what
has not ended when the time is up is ended by it, as `kill -9` would, which is always safe: what is
not durable was never spoken of. It also says when the loop stands still.

Must never know what a stop consists of.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, Final

from daybook.server import logs

POLL_SECONDS: Final = 0.5
STALL_SECONDS: Final = 5.0
"""How long the event loop must be away before that is said."""
SIGNALS: Final = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
SIGNALS_MAX: Final = 64
"""How many are read at a time."""
ENDED: Final = 1

log = logs.logger("guard")


class Guard:
    """Takes signals from `begin` to `close`. The loop is to call `beat`, again and again."""

    def __init__(self, stop_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """A stop may take `stop_seconds`."""
        self.stop_seconds = stop_seconds
        self._clock: Final = clock
        self._hand_over: Callable[[int], None] = _ignore
        self._explain: Callable[[], str] = str
        self._closed: Final = Event()
        self._thread: Thread | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._read, self._written = os.pipe()
        os.set_blocking(self._written, False)
        self._beat = clock()
        self._is_stalled = False
        self._give_up = 0.0

    def begin(self, hand_over: Callable[[int], None], explain: Callable[[], str]) -> None:
        """Take signals from here on; to be called in the main thread.

        `hand_over` is called with each, in another thread. `explain` says what is given up if the
        process is ended when the time is up; in that thread, too.
        """
        self._hand_over = hand_over
        self._explain = explain
        self.beat()
        for number in SIGNALS:
            self._before[number] = signal.signal(number, _pass)
        signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._thread = Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    def beat(self) -> None:
        """The loop turns."""
        self._beat = self._clock()

    @property
    def seconds_left(self) -> float:
        """How much time a stop has left that has begun."""
        assert self._give_up, "no stop has begun"
        return max(0.0, self._give_up - self._clock())

    def count_down(self) -> None:
        """A stop begins: from here on its time is counted."""
        if not self._give_up:
            self._give_up = self._clock() + self.stop_seconds

    def close(self) -> None:
        """Take signals no more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            for number, handler in self._before.items():
                signal.signal(number, handler)
        os.close(self._read)
        os.close(self._written)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        while not self._closed.is_set():
            if select.select([self._read], [], [], POLL_SECONDS)[0]:
                for number in os.read(self._read, SIGNALS_MAX):
                    self._take(number)
            self.look()

    def _take(self, number: int) -> None:
        if number not in SIGNALS:
            return
        if number != signal.SIGHUP:
            self.count_down()
        self._hand_over(number)

    def look(self) -> None:
        """Say when the loop stands still or turns again, and end the process when time is up."""
        # In the end nobody calls `beat` any more.
        away = self._clock() - self._beat if not self._give_up else 0.0
        if away >= STALL_SECONDS and not self._is_stalled:
            self._is_stalled = True
            log.error(
                "the broker stands still: it waits for something that does not answer, a disk most "
                "likely; SIGTERM ends it all the same",
                seconds=round(away, 1),
            )
        elif self._is_stalled and away < STALL_SECONDS:
            self._is_stalled = False
            log.info("the broker goes on")
        if self._give_up and self._clock() >= self._give_up:
            log.error(
                "the stop took longer than stop-timeout and is broken off", why=self._explain()
            )
            os._exit(ENDED)


def _ignore(_: int) -> None:
    """What signals mean before anybody says."""


def _pass(_: int, __: object) -> None:
    """What the main thread does on a signal: nothing, the pipe has it."""
