"""The changes that an event can make to an entry, and to the things that ids stand for.

An entry is in one place at a time, and each kind of event that is about entries moves it from one
place to another. `engine.facts.events` gives every kind its move; `engine.facts.kinds` derives the
sets of kinds. Must never know which kinds there are.
"""

from typing import Final

import msgspec

# Places of an entry, as seen by its queue.
NOWHERE: Final = "nowhere"
READY: Final = "ready"
IN_FLIGHT: Final = "in flight"
ON_HOLD: Final = "held"
ON_SCHEDULE: Final = "scheduled"
ASIDE: Final = (ON_HOLD, ON_SCHEDULE)
"""Places from which nothing is delivered."""
GONE: Final = "gone"

# The things that ids stand for, and the broker itself.
BROKER: Final = "broker"
CONNECTION: Final = "connection"
CONSUMER: Final = "consumer"
ADDRESS: Final = "address"
QUEUE: Final = "queue"

# The changes that an event can make to such a thing.
BEGINS: Final = "begins"
CHANGES: Final = "changes"
ENDS: Final = "ends"

# The facts that an event can have beside its move or its change.
CONTENT: Final = "content"
"""The content of a message, and the place of its body if it is large."""
TRANSACTION: Final = "transaction"
"""In which transaction a message came."""
UNROUTED: Final = "unrouted"
"""At which address no queue took a message that is somewhere else now."""
REFUSAL: Final = "refusal"
"""The user that was refused, and how often."""
DIGEST: Final = "digest"
"""The digest of a state."""
SIGNATURE: Final = "signature"
"""The statement that a notary signed."""
MARK: Final = "mark"
"""A moment of the broker by which people find their way in its history."""
CHANGE: Final = "change"
"""A change of addresses, queues, diverts or settings, or the administrator who asked for one."""
LINK: Final = "link"
"""A link of a direct address, in the place of a consumer."""
HANDING: Final = "handing"
"""To which consumer a message is handed."""
SOURCE: Final = "source"
"""From which data directory the events before may come."""


class Life(msgspec.Struct, frozen=True):
    """A move of an entry: its description, the places it may be in before, and the place after."""

    word: str
    before: tuple[str, ...]
    after: str


ENTERS: Final = Life("enters", (NOWHERE,), READY)
IS_TAKEN: Final = Life("is taken", (READY,), IN_FLIGHT)
RETURNS: Final = Life("returns", (IN_FLIGHT,), READY)
IS_HELD: Final = Life("is held", (READY, ON_SCHEDULE), ON_HOLD)
IS_RELEASED: Final = Life("becomes ready again", (ON_HOLD,), READY)
IS_SCHEDULED: Final = Life("is scheduled", (READY, ON_SCHEDULE), ON_SCHEDULE)
IS_DUE: Final = Life("becomes ready again", (ON_SCHEDULE,), READY)


def leaves(*before: str) -> Life:
    """Return the move that removes an entry from its queue for good, from one of these places."""
    return Life("leaves", before, GONE)
