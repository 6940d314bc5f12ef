"""How deliveries end, and what each end means for the message: the one table for both.

A consumer gives an *outcome*, in the words of AMQP 1.0 (part 3, section 3.4); each protocol maps
its frames to outcomes. Everything else that ends a delivery is a reason of the broker. Both become
the reason of an event, and ENDS says for each reason whether the attempt counts, and what becomes
of the message. When an attempt counts follows Artemis (fact sheet, section 5): a failure and a lost
connection count; a clean close returns, without counting, deliveries that were prefetched and never
part of a transaction; a restart or shutdown counts, but does not use up the last attempt.
of a transaction; a restart or shutdown counts, but does not use up the last attempt.

A consumer that meters its deliveries also states how its credit returns. Must never know how a
delivery is ended.
"""

from typing import Final, NamedTuple

from daybook.engine.facts import reasons

ACCEPTED: Final = 0
"""The consumer took responsibility: the message leaves its queue."""
RELEASED: Final = 1
"""The consumer did not try: the message goes back, and the attempt does not count."""
REJECTED: Final = 2
"""No attempt will ever succeed: the message is dead-lettered at once."""
FAILED: Final = 3
"""The attempt failed: the message goes back and it counts (`modified` with delivery-failed)."""

OUTCOMES: Final[dict[int, int]] = {
    ACCEPTED: reasons.BY_CONSUMER,
    RELEASED: reasons.GIVEN_BACK,
    REJECTED: reasons.REFUSED,
    FAILED: reasons.NACK,
}
"""The reason of the event that records each outcome."""

AUTO: Final = "auto"
"""How events name a consumer that does not acknowledge: each delivery is accepted when it is
made."""
CUMULATIVE: Final = "client"
"""How they name one whose client settles all deliveries up to one."""
ONE_BY_ONE: Final = "client-individual"
"""How they name one whose client settles each delivery by itself."""

# When an attempt counts.
ALWAYS: Final = 0
ATTEMPTED: Final = 1
"""Only if the delivery was part of a transaction: otherwise it was only prefetched."""
NEVER: Final = 2

# When a message that returns may be dead-lettered.
WHEN_USED_UP: Final = 0
AT_ONCE: Final = 1
NOT_FOR_THIS: Final = 2


class End(NamedTuple):
    """The meaning of the end of a delivery without success.

    When the attempt counts, when the message is dead-lettered, and whether the redelivery-delay of
    the address follows an attempt that counts.
    """

    counts: int
    dead_letters: int
    delays: bool


def ack_mode_of(*, acknowledges: bool, cumulative: bool) -> str:
    """Return how events name the way in which a consumer acknowledges."""
    if not acknowledges:
        return AUTO
    return CUMULATIVE if cumulative else ONE_BY_ONE


USUAL: Final = End(ALWAYS, WHEN_USED_UP, delays=True)
"""The meaning for a reason that ENDS does not list."""

ENDS: Final[dict[int, End]] = {
    reasons.GIVEN_BACK: End(NEVER, NOT_FOR_THIS, delays=False),
    reasons.REFUSED: End(ALWAYS, AT_ONCE, delays=False),
    reasons.NACK: USUAL,
    reasons.CLOSED: End(ATTEMPTED, WHEN_USED_UP, delays=True),
    reasons.LEFT_OUT: End(ATTEMPTED, WHEN_USED_UP, delays=True),
    reasons.STOLEN: USUAL,
    reasons.DISCONNECTED: USUAL,
    reasons.TIMEOUT: USUAL,
    reasons.PROTOCOL_ERROR: USUAL,
    reasons.ADMINISTRATION: USUAL,
    reasons.SHUTDOWN: End(ALWAYS, NOT_FOR_THIS, delays=False),
    reasons.LIMIT: End(ALWAYS, NOT_FOR_THIS, delays=False),
    # The broker's own fault.
    reasons.UNREADABLE: End(NEVER, NOT_FOR_THIS, delays=False),
}

# How credit returns.
UNMETERED: Final = 0
"""Deliveries use up no credit."""
BY_SETTLEMENT: Final = 1
"""Each settlement returns what its delivery used up."""
BY_GRANT: Final = 2
"""Only the command `Credit` returns credit."""
