"""A broker that waits while its node follows, so that a new leader serves after a moment.

Its process has imported everything, and has opened nothing of the data directory. Fault model: it
may end, or hang, at any moment; then there is another one after a pause, which doubles each time. A
broker that is not there yet, or not prepared yet, only costs time. Must never know why it is taken.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from daybook.replication.brokers.broker_process import BrokerProcess
from daybook.replication.leading import Prepared, Told


class WarmPatience(NamedTuple):
    """How long the node waits for a broker, in microseconds. `beat` is the time between two
    questions whether it is alive, `silence` how long it may owe an answer once it is prepared,
    `start` until then."""

    first_pause: int = 1_000_000
    last_pause: int = 60_000_000
    beat: int = 2_000_000
    silence: int = 20_000_000
    start: int = 120_000_000


PATIENCE: Final = WarmPatience()


class WarmBroker:
    """Keeps one broker ready. `start` starts one, and raises OSError; `notice` gets a sentence."""

    def __init__(
        self, start: Callable[[], BrokerProcess], notice: Callable[[str], None],
        patience: WarmPatience = PATIENCE,
    ) -> None:  # fmt: skip
        self.is_prepared = False
        self._start: Final = start
        self._notice: Final = notice
        self._patience: Final = patience
        self._broker: BrokerProcess | None = None
        self._pause = patience.first_pause
        self._next_start = 0
        self._next_beat = 0
        self._deadline = 0
        self._now = 0

    @property
    def pid(self) -> int | None:
        """The process, None if there is none now."""
        return self._broker.pid if self._broker is not None else None

    def look(self, now: int) -> None:
        """Start a broker if there is none, and kill one that hangs."""
        if now - self._now > self._patience.beat:
            # This node stood still, and could not take an answer.
            self._deadline += now - self._now
        self._now = now
        broker = self._broker
        if broker is None:
            if now >= self._next_start:
                self._begin(now)
        elif now >= self._deadline:
            self._deadline = now + self._patience.start
            self._notice("the broker that waits for a lead does not answer, and is killed")
            broker.kill()
        elif now >= self._next_beat:
            self._next_beat = now + self._patience.beat
            broker.end.beat()

    def _begin(self, now: int) -> None:
        self._next_beat, self._deadline = now, now + self._patience.start
        try:
            self._broker = self._start()
        except OSError as error:
            self._failed(f"cannot be started: {error}")
            return
        self._broker.on_told, self._broker.on_ended = self._told, self._ended

    def _told(self, told: Told) -> None:
        self._deadline = self._now + self._patience.silence
        if isinstance(told, Prepared):
            self.is_prepared, self._pause = True, self._patience.first_pause

    def _ended(self) -> None:
        broker, self._broker = self._broker, None
        assert broker is not None
        self._failed(f"has ended {broker.how}")

    def _failed(self, why: str) -> None:
        self.is_prepared = False
        self._next_start = self._now + self._pause
        self._notice(
            f"the broker that waits for a lead {why}; there is another one in"
            f" {self._pause / 1e6:g} s"
        )
        self._pause = min(2 * self._pause, self._patience.last_pause)

    def take(self, on_told: Callable[[Told], None], on_ended: Callable[[], None]) -> BrokerProcess:
        """Return the broker, which is the caller's from now on; without one, start it. Raises
        OSError."""
        broker, self._broker = self._broker, None
        self.is_prepared, self._next_start = False, 0
        broker = broker or self._start()
        broker.on_told, broker.on_ended = on_told, on_ended
        return broker

    def stop(self) -> None:
        """Kill it. There is no other one until `look`."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.on_ended = _ignore
            broker.kill()


def _ignore() -> None:
    """Nobody asks any more how it ended."""
