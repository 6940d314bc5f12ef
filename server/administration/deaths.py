"""Deaths of messages, as the broker wrote them into dead letters and expired messages, and their
groups. Reads the state in slices, without changing it. Must never know the asker.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from daybook.engine.core.queue_names import find_queue
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
)
from daybook.engine.facts.values import Value
from daybook.engine.messages.content import view_of
from daybook.engine.messages.conversions import text_of
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.server.administration import views
from daybook.server.administration.walks import Walk
from daybook.server.process.ordered_lists import Order, in_order, next_offset
from daybook.server.process.seen import Seen
from daybook.server.process.slices import SLICE, Slices, rows_of
from daybook.texts import moment

LOOKED_AT_MAX: Final = 10_000
"""How many messages are looked at for one answer."""
GROUPS_MAX: Final = 10_000
"""How many groups of a whole queue are kept, and how many hours."""
FIELDS: Final = {
    "reason": DEATH_REASON,
    "queue": DEATH_QUEUE,
    "address": DEATH_ADDRESS,
    "error": DEATH_ERROR,
    "user": DEATH_USER,
    "ended": DEATH_ENDED,
}
"""The criteria for groups, and the header of each."""
PERIODS: Final = {"hour": 3_600_000, "day": 86_400_000}
"""The periods for groups by the time of the death, in milliseconds."""
CRITERIA: Final = (*FIELDS, *PERIODS)
NUMBERS: Final = {
    "count": DEATH_COUNT,
    "time": DEATH_TIME,
    "attempts": DEATH_ATTEMPTS,
    "consumer": DEATH_CONSUMER,
}


DEAD_LETTERS: Final = "dead letters"
EXPIRED: Final = "expired messages"
"""The kinds of messages that settings send to an address."""
GRAVE_ORDERS: Final[dict[str, Callable[[Queue], int]]] = {
    each: views.QUEUE_ORDERS[each] for each in ("messages", "ready", "in_flight", "bytes")
}
"""The columns by which queues of dead letters are sorted, and the number in each."""


def listing_graves(
    state: State, seen: Seen[Queue], offset: int, limit: int, order: Order
) -> Slices[dict[str, Any] | Refusal]:
    """A page of the queues at dead letter addresses and expiry addresses that are seen."""
    found: list[Queue] = []
    if order.objects() is None:
        for address in (yield from views.dead_ends(state)):
            found += yield from seen.of(address.queues())
    page = yield from in_order(found, offset, limit, order, GRAVE_ORDERS)
    rows = yield from rows_of(
        page.objects, lambda queue: _grave(state, queue) if seen.has(queue) else {}
    )
    return page.answer("queues", rows)


def _grave(state: State, queue: Queue) -> dict[str, Any]:
    """Return the row of a queue of dead letters."""
    address = queue.address.name
    sent = {
        DEAD_LETTERS: state.settings.is_for_dead_letters(address),
        EXPIRED: state.settings.is_for_expired(address),
    }
    return {
        "queue": queue.name, "address": address,
        "sent_here": [what for what, is_so in sent.items() if is_so],
        "messages": queue.message_count, "ready": queue.ready_count,
        "in_flight": queue.in_flight_count, "bytes": queue.bytes,
    }  # fmt: skip


def death_in(headers: dict[str, str]) -> dict[str, Any] | None:
    """Return the death that headers describe, None without one."""
    return _death(headers.get, (*FIELDS, *NUMBERS))


def _death(said: Callable[[str], Value | None], fields: Iterable[str]) -> dict[str, Any] | None:
    """Return some fields of the death that headers describe, None without one."""
    if said(DEATH_REASON) is None:
        return None
    found: dict[str, Any] = {}
    for field in fields:
        value = said(FIELDS.get(field) or NUMBERS[field])
        text = text_of(value) if value is not None else ""
        is_number = text.isascii() and text.isdigit()
        found[field] = text if field in FIELDS else int(text) if is_number else 0
    return found


def grouped(deaths: Iterable[dict[str, Any] | None], field: str) -> list[dict[str, Any]]:
    """Return a row for each value of a field, those with the most messages first, or for each
    period, in order; that of messages that did not die is None. Times are in milliseconds since
    1970."""
    groups = Groups(field)
    for death in deaths:
        groups.add(death)
    return groups.rows()


class Groups:
    """Messages counted by a field of their deaths, or by a period."""

    def __init__(self, field: str) -> None:
        self._field: Final = field
        self._length: Final = PERIODS.get(field, 0)
        self._found: Final[dict[str | int | None, list[int]]] = {}

    def add(self, death: dict[str, Any] | None) -> None:
        """Count a message, None for one that did not die."""
        if death is None:
            self._found.setdefault(None, [0])[0] += 1
            return
        time = death["time"]
        value = time // self._length if self._length else str(death[self._field])
        group = self._found.get(value)
        if group is None:
            self._found[value] = [1, time, time]
            return
        group[0] += 1
        group[1:] = min(group[1], time), max(group[2], time)

    def rows(self) -> list[dict[str, Any]]:
        """Return the groups: those with the most messages first, periods in order."""
        rows = []
        for value, (messages, *times) in self._found.items():
            name = self._name_of(value) if isinstance(value, int) else value
            first, last = times or (None, None)
            rows.append(
                {self._field: name, "messages": messages, "first_time": first, "last_time": last}
            )
        return _in_order(rows, self._field)

    def _name_of(self, number: int) -> str:
        """Return the beginning of a period."""
        begin = moment(number * self._length * 1000)
        return begin[: len("2026-11-28" if self._field == "day" else "2026-11-28 15:00")]


def _in_order(rows: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return groups in order: periods by time, others with the most messages first."""
    if field in PERIODS:
        return sorted(rows, key=lambda row: (row[field] is None, row[field] or ""))
    return sorted(rows, key=lambda row: (-row["messages"], str(row[field])))


class Sums:
    """The groups of a whole queue, added up from answers about its parts.

    Bounded: groups beyond the first GROUPS_MAX are only counted, as messages in other groups. A
    queue may change between two answers; messages that moved to a part that was asked before are
    not counted.
    """

    def __init__(self, field: str) -> None:
        self._field: Final = field
        self._found: Final[dict[str, dict[str | None, dict[str, Any]]]] = {
            "groups": {},
            "hours": {},
        }
        self._in_others = 0
        self._looked_at = 0
        self._last: dict[str, Any] = {}

    def add(self, answer: dict[str, Any]) -> int | None:
        """Add the answer about a part; return where the next part begins, None at the end."""
        for row in answer["groups"]:
            if not _add(self._found["groups"], row, self._field):
                self._in_others += row["messages"]
        for row in answer["hours"]:
            _add(self._found["hours"], row, "hour")
        self._looked_at += answer["looked_at"]
        self._last = answer
        following: int | None = answer["next_offset"]
        return following

    def answer(self) -> dict[str, Any]:
        """Return the sums, as the answer about a part is."""
        groups, hours = (list(each.values()) for each in self._found.values())
        return self._last | {
            "groups": _in_order(groups, self._field), "hours": _in_order(hours, "hour"),
            "looked_at": self._looked_at, "in_other_groups": self._in_others,
        }  # fmt: skip


def _add(found: dict[str | None, dict[str, Any]], row: dict[str, Any], field: str) -> bool:
    """Add a group to those with the same value; return whether there was room for it."""
    known = found.get(row[field])
    if known is None:
        if len(found) >= GROUPS_MAX:
            return False
        found[row[field]] = dict(row)
        return True
    known["messages"] += row["messages"]
    for key, choose in (("first_time", min), ("last_time", max)):
        if row[key] is not None:
            known[key] = choose(known[key], row[key])
    return True


def days_of(hours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return groups by day, from those by hour."""
    found: dict[str | None, dict[str, Any]] = {}
    for each in hours:
        day = each["hour"][: len("2026-11-28")] if each["hour"] is not None else None
        first = found.setdefault(
            day, {"day": day, "messages": 0, "first_time": each["first_time"], "last_time": None}
        )
        first["messages"] += each["messages"]
        first["last_time"] = each["last_time"]
    return list(found.values())


def grouping(
    state: State, name: str, field: str, filter_text: str, limit: int, offset: int = 0
) -> Slices[dict[str, Any] | Refusal]:
    """Count messages of a queue by a field of their deaths, and by hour; at most so many are looked
    at, behind the first `offset`, in the order in which they are shown. Raises StoreError."""
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    matcher = views.matcher_of(state, filter_text)
    if isinstance(matcher, Refusal):
        return matcher
    groups = Groups(field)
    hours = groups if field == "hour" else Groups("hour")
    fields = ("time", field) if field in FIELDS else ("time",)
    looked = 0
    walk = Walk(queue)
    yield from walk.pass_over(offset, limit)
    while looked < limit:
        some = walk.some(min(limit - looked, views.READ_AT_ONCE))
        if not some or state.queues.get(queue.id) is not queue:
            break
        for entry in views.with_content(state, some):
            looked += 1
            if matcher is None or matcher.matches(entry.message):
                death = _death(view_of(entry.message).get, fields)
                groups.add(death)
                if hours is not groups:
                    hours.add(death)
        yield SLICE
    following = next_offset(offset, looked, queue.message_count)
    return {
        "queue": queue.name,
        "groups": groups.rows(),
        "hours": hours.rows(),
        "looked_at": looked,
        "in_queue": queue.message_count,
        "left": max(0, queue.message_count - offset - looked),
        "next_offset": following if following and following <= views.OFFSET_MAX else None,
    }


def begin_of(value: str) -> int:
    """Return the begin of a period in milliseconds since 1970."""
    return int(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()) * 1000


def next_page(name: str, offset: int, end: int, chosen_by: str = "") -> dict[str, Any]:
    """Return the request for the next page of a queue of which the messages up to a place are
    looked at."""
    most = min(views.PAGE_MAX, end - offset)
    return {
        "do": "browse", "queue": name, "offset": offset, "limit": most, "filter": chosen_by,
        "look_at": most,
    }  # fmt: skip


def chosen_by(field: str, value: str) -> str:
    """Return the filter for the messages of a group; those of the group "" died, and may not have
    the header at all."""
    if field in PERIODS:
        begin = begin_of(value)
        return f"{DEATH_TIME} >= {begin} AND {DEATH_TIME} < {begin + PERIODS[field]}"
    name = FIELDS[field]
    if not value:
        return f"{DEATH_REASON} IS NOT NULL AND ({name} IS NULL OR {name} = '')"
    quoted = value.replace("'", "''")
    return f"{name} = '{quoted}'"


def died_between(begin: int | None, end: int | None) -> str:
    """Return the filter for the messages that died from one time on and before another, in
    milliseconds since 1970; None sets no limit, and without any the filter is empty."""
    limits = ((">=", begin), ("<", end))
    return both(*(f"{DEATH_TIME} {sign} {time}" for sign, time in limits if time is not None))


def both(*filters: str) -> str:
    """Return the filter for messages that all of some filters choose; each of these is one of this
    module, or empty."""
    return " AND ".join(filter(None, filters))
