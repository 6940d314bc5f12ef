"""Limits of the harm of attacks to an honest client and to the broker's memory, by ratio.

Other tests of attacks use it so:

    def test_something(beside: Beside) -> None:
        with beside.attack(memory_bytes=64 << 20):
            ...  # attack beside.broker.port, in this process or in others

Before the attack the honest client is measured alone, in the same run and on the same machine;
it is measured while the attack continues, and for as many rounds after it as before. The limits are
wide, since machines are noisy: they catch a broker that stands still or grows, which is off
by orders of magnitude.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.load.honest import Honest, percentile
from tests.support.process import BrokerProcess

ROUNDS = 80
RATIO = 50.0
"""How many times its own median without an attack a round may take, for 9 of 10 rounds."""
LEAST_MS = 250.0
"""A limit below this would judge the machine, whose disk others use too, not the broker."""
STANDSTILL_RATIO = 500.0
STANDSTILL_LEAST_MS = 1000.0
"""No round at all may take as long as that."""


class Beside:
    """An honest client beside an attack on its broker."""

    def __init__(self, broker: BrokerProcess, honest: Honest) -> None:
        self.broker = broker
        self.honest = honest
        self.quiet: list[float] = []
        self.attacked: list[float] = []

    @contextmanager
    def attack(self, *, memory_bytes: int | None = None) -> Iterator[None]:
        """Measure while the body runs, then compare; the broker may grow by `memory_bytes`."""
        self.quiet = self.honest.measure(ROUNDS)
        before = self.broker.rss_bytes()
        self.honest.begin()
        yield
        grown = self.broker.rss_bytes() - before
        self.attacked = self.honest.end()
        # A short attack may end between two rounds; its remains must not harm either.
        self.attacked += self.honest.measure(ROUNDS)
        self.compare()
        assert memory_bytes is None or grown <= memory_bytes, (
            f"the broker grew by {grown >> 20} MiB, more than {memory_bytes >> 20} MiB"
        )
        assert self.broker.is_running

    def compare(self) -> None:
        """Compare the rounds beside the attack with those before it."""
        alone = percentile(self.quiet, 0.5)
        most = percentile(self.attacked, 0.9)
        assert most <= max(LEAST_MS, RATIO * alone), (
            f"9 of 10 rounds took up to {most:.1f} ms beside the attack; alone {alone:.1f} ms"
        )
        longest = max(self.attacked)
        assert longest <= max(STANDSTILL_LEAST_MS, STANDSTILL_RATIO * alone), (
            f"one round took {longest:.0f} ms beside the attack; alone {alone:.1f} ms"
        )
