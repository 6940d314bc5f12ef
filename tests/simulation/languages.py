"""Which clients speak AMQP in a run, or use direct addresses, what they may use, and options.

All chance is its own, so that the rest of a seed is what it would be without.
"""

import random
from typing import Any

from daybook.engine.direct.serving import CONTENT, DECISIONS, OFF
from daybook.engine.facts.definitions import CLOSEST, MULTICAST, DistributionEntry
from daybook.protocols.amqp.options import AmqpOptions
from tests.simulation.judges.direct_oracle import FALLING_BACK, PLACES
from tests.simulation.judges.direct_oracle import MULTICAST as MULTICAST_PLACE
from tests.simulation.peers.amqp_clients import AMQP_FEATURES, RETURNING
from tests.simulation.peers.swarm_clients import draw_features
from tests.simulation.seeds import AMQP_FROM, DIRECT_FROM, RETURNING_FROM

SPEAKING = "AMQP"
"""The feature without which nobody speaks it."""


DIRECT = "direct addresses"
"""The feature without which nobody uses them."""
TABLE = (
    DistributionEntry(prefix="direct"),
    DistributionEntry(prefix="direct.near", distribution=CLOSEST),
    DistributionEntry(prefix="direct.first", priority=7),
    DistributionEntry(prefix=MULTICAST_PLACE, distribution=MULTICAST),
    DistributionEntry(prefix=FALLING_BACK, enable_fallback=True),
)
"""The direct addresses of a run."""


class Languages:
    """The languages of a run."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(f"languages {seed}")
        self._share = chance.choice((0.3, 0.6, 0.6, 1.0)) if seed >= AMQP_FROM else 0.0
        self.features: frozenset[str] = frozenset()
        if self._share:
            self.features = draw_features(chance, AMQP_FEATURES) | {SPEAKING}
        if seed >= RETURNING_FROM:
            self.features |= draw_features(random.Random(f"returning {seed}"), RETURNING)
        self._direct_chance = chance_of_direct = random.Random(f"direct {seed}")
        self._direct_share = 0.0
        if seed >= DIRECT_FROM:
            self._direct_share = chance_of_direct.choice((0.2, 0.5, 0.8))
            self.features |= {DIRECT}
        self.places = chance_of_direct.sample(PLACES, 2)
        self.journal_direct = chance_of_direct.choice((DECISIONS, DECISIONS, CONTENT, OFF))
        self.options = AmqpOptions(
            room=chance.choice((2_000, 30_000, 1 << 20)),
            max_frame_size=chance.choice((512, 4_000, 131_072)),
            min_large_message_size=chance.choice((100, 3_500, 102_400)),
            credit=chance.choice((1, 10, 1_000)),
            idle_time_out_ms=chance.choice((0, 60_000, 60_000, 4_000)),
            body_timeout_ms=chance.choice((60_000, 60_000, 1_000)),
        )

    @property
    def table(self) -> tuple[DistributionEntry, ...]:
        """The direct addresses, none in older runs."""
        return TABLE if self._direct_share else ()

    def uses_direct(self, features: Any) -> bool:
        """Draw whether the next client uses direct addresses."""
        return DIRECT in features and self._direct_chance.random() < self._direct_share

    def speaks_amqp(self, features: Any) -> bool:
        """Draw whether the next client speaks AMQP."""
        return SPEAKING in features and self._chance.random() < self._share
