"""Where tests take chance from: the same for the same sources, and another one after every change.

So a run of CI can be repeated: the same commit finds again what chance found, and passes elsewhere
if it passed. Every change tries something else. `DAYBOOK_SEED=7` begins with that number,
`DAYBOOK_SEED=fresh` with another one each time.
"""

import hashlib
import os
import random
from functools import cache
from typing import Final

from tests.meta import tree

VARIABLE: Final = "DAYBOOK_SEED"
FRESH: Final = "fresh"
_BITS: Final = 32


@cache
def beginning() -> str:
    """Return the seed of chance: the requested one, or the digest of all sources."""
    asked = os.environ.get(VARIABLE, "")
    if asked == FRESH:
        return str(random.SystemRandom().getrandbits(_BITS))
    if asked:
        return asked
    digest = hashlib.sha256()
    for path in tree.sources(tree.ROOT, *tree.rooms(), "bench", "release", "tests"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def seed_of(name: str, bits: int = _BITS) -> int:
    """Return a seed for a test, not 0, or the one that was asked for."""
    asked = os.environ.get(VARIABLE, "")
    if asked.isdigit():
        return int(asked)
    return random.Random(f"{beginning()} {name}").randrange(1, 1 << bits)
