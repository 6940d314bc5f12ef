"""The broker's process of a node: started, heard, and ended in time.

Fault model: the broker may hang, be stopped, or end at any moment. Whatever it does, it confirms
nothing after `hold` was called with 0, and the kernel kills it with this process. Must never know
why it is started or ended.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from daybook.replication.leading import LeadLost, NodeEnd, Told


class BrokerProcess:
    """A process of a command, which gets its end of the pair in its environment.

    Start it in the main thread: the kernel kills it when the thread that started it ends. `on_told`
    gets what it says, `on_ended` is called once, when the kernel has let go of it.
    """

    def __init__(
        self, command: Sequence[str], node: str, *, on_told: Callable[[Told], None],
        on_ended: Callable[[], None], rules: str = "",
    ) -> None:  # fmt: skip
        """Start it. Raises OSError."""
        self.has_ended = False
        self.end: Final = NodeEnd(node, rules)
        self.on_told = on_told
        self.on_ended = on_ended
        self._kill_timer: asyncio.TimerHandle | None = None
        self._loop: Final = asyncio.get_running_loop()
        try:
            self._process: Final = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=self.end.descriptors,
                env=os.environ | self.end.environment,
            )  # fmt: skip
        except BaseException:
            self.end.close()
            raise
        self.end.started()
        self._descriptor: Final = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._descriptor, self._reap)
        self._loop.add_reader(self.end.fileno(), self._receive)
        self.end.watch = self._watch

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def how(self) -> str:
        """How it ended."""
        status = self._process.returncode
        return f"by signal {-status}" if status and status < 0 else f"with status {status}"

    def _receive(self) -> None:
        try:
            told = self.end.receive()
        except LeadLost:
            # It ends, or has closed its end: then it cannot lead either.
            self._loop.remove_reader(self.end.fileno())
            self.kill()
            return
        for each in told:
            self.on_told(each)

    def _watch(self, wanted: bool) -> None:
        if wanted:
            self._loop.add_writer(self.end.fileno(), self.end.flush)
        else:
            self._loop.remove_writer(self.end.fileno())

    def stop(self, seconds: float) -> None:
        """Forbid to confirm, ask the broker to end, and kill it if it has not within so long."""
        self.end.hold(0)
        if seconds <= 0:
            self.kill()
            return
        self.finish(seconds)

    def finish(self, seconds: float) -> None:
        """Ask the broker to end by itself while it may confirm, and kill it if it has not within so
        long."""
        if self.has_ended:
            return
        deadline = self._loop.time() + seconds
        if self._kill_timer is None:
            self._process.send_signal(signal.SIGTERM)
        elif self._kill_timer.when() <= deadline:
            return
        else:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.call_at(deadline, self.kill)

    def kill(self) -> None:
        """Kill it."""
        self.end.hold(0)
        if not self.has_ended:
            self._process.kill()

    def _reap(self) -> None:
        # The descriptor is readable, so this does not wait.
        self._process.wait()
        with suppress(LeadLost):
            # Its last words.
            for each in self.end.receive():
                self.on_told(each)
        self.has_ended = True
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        for forget in (self._loop.remove_reader, self._loop.remove_writer):
            with suppress(ValueError):
                forget(self.end.fileno())
        self.end.close()
        self.on_ended()
