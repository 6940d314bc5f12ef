"""How a message died: why, where, when, after how many attempts, at whose hands, and how often.

A death is when a message leaves a queue for a dead letter or expiry address, or finds no queue at
its own. Deaths are facts of the journal (`details.Origin`), counted by reason and queue over all
that becomes of the message, also when it is sent back and dies again. Headers show them. Must never
know how a message leaves.
"""

from typing import Final

import msgspec

from daybook.engine.facts import reasons
from daybook.engine.facts.details import Death
from daybook.engine.facts.own_headers import (
    DEATH_ADDRESS,
    DEATH_ATTEMPTS,
    DEATH_CONSUMER,
    DEATH_COUNT,
    DEATH_ENDED,
    DEATH_ERROR,
    DEATH_QUEUE,
    DEATH_REASON,
    DEATH_TIME,
    DEATH_USER,
    DEATHS,
)
from daybook.engine.facts.values import Value
from daybook.engine.names.names import plain, unnumbered

DELIVERY_LIMIT: Final = "delivery-limit"
REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
NO_ROUTE: Final = "no-route"

DEATHS_MAX: Final = 10
"""How many pairs of a reason and a queue a message remembers; the oldest are forgotten."""
CONDITION_LENGTH_MAX: Final = 200
"""How many characters of a condition are kept."""
ERROR_LENGTH_MAX: Final = 1000
"""How many characters of the text of a consumer are kept."""

_FIELDS: Final = ("reason", "address", "queue", "count", "time")
"""The fields of each death in the list of all."""


def death(
    reason: str,
    address: str,
    queue: str,
    time: int,
    *,
    attempts: int = 0,
    ended: int = reasons.NO_REASON,
    consumer: int = 0,
    user: str = "",
    error: str = "",
) -> Death:
    """Return a first death: full names, and microseconds since 1970; `ended` is the reason for
    which the last delivery ended."""
    return Death(
        reason=reason, address=plain(address), queue=plain(queue), time=time // 1000,
        attempts=attempts, ended=reasons.REASONS[ended][0], consumer=consumer, user=user,
        error=error[:ERROR_LENGTH_MAX],
    )  # fmt: skip


def counted(before: tuple[Death, ...], newest: Death) -> tuple[Death, ...]:
    """Return all deaths of a message, the newest first, each pair of reason and queue once."""
    place = (newest.reason, newest.address, newest.queue)
    same = [each for each in before if (each.reason, each.address, each.queue) == place]
    others = [each for each in before if (each.reason, each.address, each.queue) != place]
    count = sum(each.count for each in same) + 1
    return (msgspec.structs.replace(newest, count=count), *others)[:DEATHS_MAX]


def _as_known(death: Death) -> Death:
    """Return a death with the name by which clients know the queue."""
    return msgspec.structs.replace(death, queue=unnumbered(death.queue))


def listed(deaths: tuple[Death, ...]) -> dict[str, Value]:
    """Return the property that lists all deaths, none if there are none."""
    if not deaths:
        return {}
    rows = [{name: getattr(each, name) for name in _FIELDS} for each in map(_as_known, deaths)]
    return {DEATHS: msgspec.json.encode(rows).decode()}


def shown(deaths: tuple[Death, ...]) -> dict[str, Value]:
    """Return the properties that show the newest death, and list all."""
    if not deaths:
        return {}
    newest = _as_known(deaths[0])
    found: dict[str, Value] = {
        DEATH_REASON: newest.reason,
        DEATH_ADDRESS: newest.address,
        DEATH_QUEUE: newest.queue,
        DEATH_COUNT: newest.count,
        DEATH_TIME: newest.time,
        DEATH_ATTEMPTS: newest.attempts,
    }
    more: dict[str, Value] = {
        DEATH_ENDED: newest.ended,
        DEATH_CONSUMER: newest.consumer,
        DEATH_USER: newest.user,
        DEATH_ERROR: newest.error,
    }
    return found | {name: value for name, value in more.items() if value} | listed(deaths)
