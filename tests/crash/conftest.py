"""How many kills, and from which seed: DAYBOOK_KILLS=200 DAYBOOK_SEED=7 pytest tests/crash."""

import os
import random

import pytest


@pytest.fixture
def kills() -> int:
    """How often to kill; few by default, so that the tests stay bounded."""
    return int(os.environ.get("DAYBOOK_KILLS", "10"))


@pytest.fixture
def seed() -> int:
    """A fresh seed, printed, or the one asked for."""
    chosen = int(os.environ.get("DAYBOOK_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"DAYBOOK_SEED={chosen}")
    return chosen
