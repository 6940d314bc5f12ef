"""The guard: a thread that handles the signals of a broker even when its event loop hangs.

The event loop may hang: it reads from disks, and reading a mapped page or a file of a disk that
hangs cannot be interrupted. Signal handlers would wait with it. So the main thread, which may be
stuck in the kernel, blocks the signals; the interpreter's handler writes each into a pipe, in
whichever thread it runs, and this thread passes them to the loop. After a signal to stop it
measures time: if the process has not ended after the limit, the guard kills it, like `kill -9`.
That is always safe, because no event was confirmed before it was durable. It also logs when the
loop hangs.

Must never know the steps of a stop.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Final

from daybook.server.process import logs

POLL_SECONDS: Final = 0.5
"""How often the guard looks during a stop."""
CALM_SECONDS: Final = 2.0
"""How often the guard looks while the broker serves."""
STALL_SECONDS: Final = 5.0
"""How long the event loop must hang before that is logged."""
SIGNALS: Final = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
SIGNALS_MAX: Final = 64
"""How many signals are read at a time."""
ENDED: Final = 1

log = logs.logger("guard")


class Guard:
    """Handles signals from `begin` to `close`. The loop must call `beat` regularly."""

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
        """Handle signals from now on; to be called in the main thread.

        `hand_over` is called with each signal, in the guard's thread. `explain`, called there too,
        returns the loss if the process is killed when the time is over.
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
        """Note that the event loop runs."""
        self._beat = self._clock()

    @property
    def seconds_left(self) -> float:
        """Return how much time is left for the current stop."""
        assert self._give_up, "no stop has begun"
        return max(0.0, self._give_up - self._clock())

    def count_down(self) -> None:
        """Begin to measure the time of a stop."""
        if not self._give_up:
            self._give_up = self._clock() + self.stop_seconds
            self._wake()

    def close(self) -> None:
        """Stop handling signals."""
        self._closed.set()
        self._wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            for number, handler in self._before.items():
                signal.signal(number, handler)
        os.close(self._read)
        os.close(self._written)

    def _wake(self) -> None:
        """Wake the thread by a byte that does not stand for a signal."""
        with suppress(BlockingIOError):
            os.write(self._written, b"\0")

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        # `select.select` takes no descriptor above 1,023.
        signals = select.poll()
        signals.register(self._read, select.POLLIN)
        while not self._closed.is_set():
            pause = POLL_SECONDS if self._give_up else CALM_SECONDS
            if signals.poll(1000 * pause):
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
        """Log when the loop hangs or runs again, and kill the process when the time is over."""
        # During a stop the loop may no longer call `beat`.
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
            log.info("the broker continues")
        if self._give_up and self._clock() >= self._give_up:
            log.error(
                "the stop took longer than stop-timeout and is broken off", why=self._explain()
            )
            os._exit(ENDED)


def _ignore(_: int) -> None:
    """Ignore signals before `begin`."""


def _pass(_: int, __: object) -> None:
    """The handler of the main thread: does nothing, because the signal is in the pipe."""
