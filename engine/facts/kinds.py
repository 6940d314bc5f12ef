"""Sets of kinds of events, each derived from the table in `engine.facts.events`.

Code that needs a set of kinds takes it from here or derives it likewise. So a new kind is in all
sets where it belongs once its row in the table says what it does (ADR 31). Must never name a kind.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from daybook.engine.facts import life
from daybook.engine.facts.events import BY_NUMBER, EVENT_TYPES, EventType
from daybook.engine.facts.life import (
    ADDRESS,
    ASIDE,
    BEGINS,
    BROKER,
    CHANGES,
    CONNECTION,
    CONSUMER,
    ENDS,
    GONE,
    IN_FLIGHT,
    NOWHERE,
    QUEUE,
    Life,
)

LIVES: Final[dict[int, Life]] = {
    event.number: event.life for event in EVENT_TYPES if event.life is not None
}
"""The move of an entry that each kind records, for the kinds that are about entries."""

COUNTERS: Final[dict[int, str]] = {
    event.number: event.counter for event in EVENT_TYPES if event.counter
}
"""The counter of a queue that each kind changes, for the kinds that change one."""

COUNTERS_BY_REASON: Final[dict[tuple[int, int], str]] = {
    (event.number, reason): counter for event in EVENT_TYPES for reason, counter in event.counters
}
"""The counter of a queue that a kind changes for a reason."""


def _where(holds: Callable[[EventType], bool]) -> frozenset[int]:
    return frozenset(event.number for event in EVENT_TYPES if holds(event))


def _saying(what: str) -> frozenset[int]:
    return _where(lambda event: what in event.says)


def _moving(holds: Callable[[Life], bool]) -> frozenset[int]:
    return frozenset(number for number, life in LIVES.items() if holds(life))


def changing(subjects: Iterable[str], changes: Iterable[str]) -> frozenset[int]:
    """Return the kinds by which one of these things begins, changes or ends."""
    subjects, changes = frozenset(subjects), frozenset(changes)
    return _where(lambda event: event.subject in subjects and event.change in changes)


def about(*subjects: str) -> frozenset[int]:
    """Return the kinds that are about these things."""
    return _where(lambda event: event.subject in subjects)


OF_ENTRIES: Final = frozenset(LIVES)
"""Kinds that move entries of one queue, which the row names; Routed may add to several queues."""
ENTERING: Final = _moving(lambda life: NOWHERE in life.before)
TAKING: Final = _moving(lambda life: life.after == IN_FLIGHT)
LEAVING: Final = _moving(lambda life: life.after == GONE)
STAYING: Final = OF_ENTRIES - ENTERING - LEAVING
"""Kinds whose entry is in its queue both before and after."""
SETTING_ASIDE: Final = _moving(lambda life: life.after in ASIDE)
FROM_ASIDE: Final = _moving(lambda life: set(life.before) <= set(ASIDE))
"""Kinds that make ready what was set aside."""
NOT_ASIDE: Final = _moving(lambda life: not {*life.before, life.after} & set(ASIDE))
"""Kinds whose entry is set aside neither before nor after."""
ENDING_A_DELIVERY: Final = _moving(lambda life: life.before == (IN_FLIGHT,))
"""Kinds that can only follow a delivery, and end it."""
ENDING_UNNAMED: Final = LEAVING - _where(lambda event: "consumer" in event.columns)
"""Kinds that remove an entry that may be in flight, and whose rows do not name the consumer."""
OF_TWO_MESSAGES: Final = OF_ENTRIES & _where(
    lambda event: "related" in event.columns and not event.related
)
"""Kinds whose `related` is a message, too: the one that it was made from, or the one made from
it."""

TOPOLOGY: Final = changing({BROKER, CONNECTION, CONSUMER, ADDRESS, QUEUE}, {BEGINS, CHANGES, ENDS})
"""Kinds that say what ids stand for, and where that begins and ends."""
NAMING: Final = changing({ADDRESS, QUEUE}, {BEGINS, CHANGES})
"""Kinds that contain names of addresses and queues."""
REFUSALS: Final = _saying(life.REFUSAL)
"""Kinds that say who was refused, and how often."""

MOVING_QUEUES: Final = changing({QUEUE}, {CHANGES, ENDS}) | changing({BROKER}, {BEGINS})
"""Kinds that affect all entries of a queue, or of all queues."""

WITH_CHUNKS: Final = _saying(life.CONTENT)
"""Kinds with the content of a message, and with the place of the body if it is large."""
HANDING: Final = _saying(life.HANDING)
"""Kinds that hand a message to a consumer."""
IN_TRANSACTIONS: Final = _saying(life.TRANSACTION)
"""Kinds that say in which transaction a message came."""
SAYING_UNROUTED: Final = _saying(life.UNROUTED)
"""Kinds that say at which address no queue took a message that is somewhere else now."""
SAYING_CAME_FROM: Final = _where(
    lambda event: event.detail is not None and "came_from" in event.detail.__struct_fields__
)
"""Kinds that say what a message was on the broker that it came from."""
OF_LINKS: Final = _saying(life.LINK)
"""Kinds whose consumer is a link of a direct address."""
NAMING_DIRECT: Final = OF_LINKS & _where(
    lambda event: event.detail is not None and "address" in event.detail.__struct_fields__
)
"""Those that name the address."""
WITH_DIGEST: Final = _saying(life.DIGEST)
"""Kinds that record the digest of a state."""
MARKING: Final = _saying(life.MARK)
"""Kinds of the moments that a time line marks: starts and ends, settings, administrators."""
TURNS: Final = MARKING & _where(lambda event: event.subject == life.BROKER)
"""Those of them by which a broker starts and stops."""
OF_CHANGES: Final = _saying(life.CHANGE)
"""Kinds by which addresses, queues, diverts and settings change, and who asked for that."""
SIGNING: Final = _saying(life.SIGNATURE)
"""Kinds that record what a notary signed."""
ENDING_A_SOURCE: Final = _saying(life.SOURCE)
"""Kinds that may say from which data directory the events before come."""


def names(kinds: Iterable[int]) -> tuple[str, ...]:
    """Return the names of kinds, in the order of their numbers."""
    return tuple(BY_NUMBER[kind].name for kind in sorted(kinds))


def outcome(kind: int, joint: str = "-") -> str:
    """Return the name of a kind as a word for what it did to an entry, like `dead-lettered`."""
    return joint.join(re.findall("[A-Z][a-z]*", BY_NUMBER[kind].name)).lower()
