"""The state machine of an entry: the only table of its places and inputs.

Read it to know what the broker decides; docs/events.md draws it, and `tests/unit/engine/
test_transitions.py` carries out every pair. An input that is not listed for a place has no effect
there: it is refused, or it is not about such entries.
"""

from typing import Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.life import GONE, IN_FLIGHT, ON_HOLD, ON_SCHEDULE, READY

DELIVER: Final = "a consumer can take it"
ACCEPT: Final = "the consumer accepts it"
RELEASE: Final = "the consumer gives it back untried"
REJECT: Final = "the consumer rejects it for good"
FAIL: Final = "the consumer failed with it"
LAST_FAIL: Final = "the consumer failed with it for the last time"
STUCK_FAIL: Final = "the consumer failed for the last time, and dead letters cannot leave"
DELAYED_FAIL: Final = "the consumer failed with it, and the address has a redelivery-delay"
LEAVE: Final = "the consumer leaves"
LOSE: Final = "the connection of the consumer is lost"
EXPIRE: Final = "its time has passed"
COME: Final = "the time has come until which it is scheduled"
HURRY: Final = "an administrator delivers what is scheduled"
PURGE: Final = "an administrator purges the queue"
MOVE: Final = "an administrator moves it to another queue"
DELETE: Final = "an administrator deletes the queue with its messages"
UNHOLD: Final = "an administrator releases what the queue holds"
WAY: Final = "dead letters can leave again"
START: Final = "the broker starts again"

PLACES: Final = (READY, ON_HOLD, ON_SCHEDULE, IN_FLIGHT, GONE)
INPUTS: Final = (
    DELIVER, ACCEPT, RELEASE, REJECT, FAIL, LAST_FAIL, STUCK_FAIL, DELAYED_FAIL, LEAVE, LOSE,
    EXPIRE, COME, HURRY, PURGE, MOVE, DELETE, UNHOLD, WAY, START,
)  # fmt: skip


class Transition(NamedTuple):
    """The place after an input, and the kinds of the events that say so, in order."""

    after: str
    kinds: tuple[int, ...]


TRANSITIONS: Final[dict[tuple[str, str], Transition]] = {
    (READY, DELIVER): Transition(IN_FLIGHT, (events.DELIVERED,)),
    (READY, EXPIRE): Transition(GONE, (events.EXPIRED,)),
    (READY, PURGE): Transition(GONE, (events.REMOVED,)),
    (READY, MOVE): Transition(GONE, (events.MOVED,)),
    (READY, DELETE): Transition(GONE, (events.REMOVED,)),
    (IN_FLIGHT, ACCEPT): Transition(GONE, (events.ACKNOWLEDGED,)),
    (IN_FLIGHT, RELEASE): Transition(READY, (events.RETURNED,)),
    (IN_FLIGHT, REJECT): Transition(GONE, (events.DEAD_LETTERED,)),
    (IN_FLIGHT, FAIL): Transition(READY, (events.RETURNED,)),
    (IN_FLIGHT, LAST_FAIL): Transition(GONE, (events.DEAD_LETTERED,)),
    (IN_FLIGHT, STUCK_FAIL): Transition(ON_HOLD, (events.RETURNED, events.HELD)),
    (IN_FLIGHT, DELAYED_FAIL): Transition(ON_SCHEDULE, (events.RETURNED, events.SCHEDULED)),
    (IN_FLIGHT, LEAVE): Transition(READY, (events.RETURNED,)),
    (IN_FLIGHT, LOSE): Transition(READY, (events.RETURNED,)),
    # A consequence of `BrokerStarted`, which is about no single entry.
    (IN_FLIGHT, START): Transition(READY, ()),
    (ON_HOLD, PURGE): Transition(GONE, (events.REMOVED,)),
    (ON_HOLD, MOVE): Transition(GONE, (events.MOVED,)),
    (ON_HOLD, DELETE): Transition(GONE, (events.REMOVED,)),
    (ON_HOLD, UNHOLD): Transition(READY, (events.RELEASED,)),
    (ON_HOLD, WAY): Transition(GONE, (events.DEAD_LETTERED,)),
    (ON_SCHEDULE, COME): Transition(READY, (events.DUE,)),
    (ON_SCHEDULE, HURRY): Transition(READY, (events.DUE,)),
    (ON_SCHEDULE, EXPIRE): Transition(GONE, (events.EXPIRED,)),
    (ON_SCHEDULE, PURGE): Transition(GONE, (events.REMOVED,)),
    (ON_SCHEDULE, MOVE): Transition(GONE, (events.MOVED,)),
    (ON_SCHEDULE, DELETE): Transition(GONE, (events.REMOVED,)),
}


def transition(place: str, given: str) -> Transition:
    """Return the effect of an input on an entry in a place."""
    return TRANSITIONS.get((place, given), Transition(place, ()))
