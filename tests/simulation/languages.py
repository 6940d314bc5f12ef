"""Which clients speak AMQP in a run, what they may use, and the options of that acceptor.

All chance is its own, so that the rest of a seed is what it would be without.
"""

import random
from typing import Any

from daybook.protocols.amqp.options import AmqpOptions
from tests.simulation.peers.amqp_clients import AMQP_FEATURES, RETURNING
from tests.simulation.peers.swarm_clients import draw_features
from tests.simulation.seeds import AMQP_FROM, RETURNING_FROM

SPEAKING = "AMQP"
"""The feature without which nobody speaks it."""


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
        self.options = AmqpOptions(
            room=chance.choice((2_000, 30_000, 1 << 20)),
            max_frame_size=chance.choice((512, 4_000, 131_072)),
            min_large_message_size=chance.choice((100, 3_500, 102_400)),
            credit=chance.choice((1, 10, 1_000)),
            idle_time_out_ms=chance.choice((0, 60_000, 60_000, 4_000)),
            body_timeout_ms=chance.choice((60_000, 60_000, 1_000)),
        )

    def speaks_amqp(self, features: Any) -> bool:
        """Draw whether the next client speaks AMQP."""
        return SPEAKING in features and self._chance.random() < self._share
