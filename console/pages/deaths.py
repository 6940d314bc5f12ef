"""Dead letters: the messages of a queue in groups, by why, where and with whom they died.

The deaths are those that the broker wrote into the messages; the same as `daybook queue messages
--group-by`. Without a queue, the queues of dead letters: the same as `daybook queue dead-letters`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from daybook.client.control import ControlError
from daybook.console.console_config import ConsoleError
from daybook.console.pages.lists import command_of
from daybook.console.rendering import event, render
from daybook.console.visits import (
    BAD_REQUEST,
    UNAVAILABLE,
    Page,
    Refused,
    Visit,
    failure,
    mistake,
    time_in,
)
from daybook.engine.refusals import Code
from daybook.server.administration.deaths import (
    CRITERIA,
    PERIODS,
    Sums,
    begin_of,
    both,
    chosen_by,
    days_of,
    died_between,
)
from daybook.texts import counted

PLACES_MAX: Final = 96
"""How many hours a chart has; it has days where there are more."""
PLACES_LEAST: Final = 12
"""A chart with few bars has room for so many, so that they are not wide."""
OF_GRAVES: Final = {"do": "dead-letters", "sort": "messages", "descending": True}
"""The request for the queues of dead letters and expired messages."""
GRAVES_MAX: Final = 100
"""How many of them are shown, and suggested."""
SPANS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("the last hour", {"from": "1 hour ago"}), ("today", {"from": "today"}),
    ("yesterday", {"from": "yesterday", "to": "today"}), ("any time", {}),
)  # fmt: skip
"""Ranges of time that are one step away, as people would type them."""
ROWS_OF_SUMS_MAX: Final = 1_000
"""How many groups of a whole queue are shown."""
SUMS_MAX: Final = 5
"""How many whole queues are added up at a time."""
RENEWED_SECONDS: Final = 2.0
"""How often a page shows the sums so far."""
REST_SECONDS_MAX: Final = 1.0
"""Between two parts the broker has as long for others as the part took, up to this."""


_adding: set[int] = set()


async def deaths(visit: Visit) -> Response:
    """Show the groups of the messages in a queue; without a queue, those with dead letters."""
    field = _field(visit)
    graves = await _graves(visit)
    named = visit.query.get("queue", "")
    name = named or _only(graves["queues"])
    begin, end = visit.query.get("from", ""), visit.query.get("to", "")
    offset = visit.number("offset")
    asked = {"do": "deaths", "queue": name, "by": field} | ({"offset": offset} if offset else {})
    answer: dict[str, Any] = {}
    wrong = chosen = ""
    try:
        chosen = died_between(*_range(begin, end))
        answer = await visit.look(asked | {"filter": chosen}) if name else {}
    except Refused as error:
        wrong = mistake(error)
    if answer:
        await visit.learn(queue=name)
    is_sum = bool(visit.query.get("whole")) and not offset
    words = ("--whole",) if is_sum else ()
    of_groups = (
        command_of(visit, "queue messages", *words, **asked, filter=chosen) if answer else ""
    )
    of_graves = command_of(visit, "queue dead-letters", **OF_GRAVES) if not named else ""
    return visit.page(
        "deaths.html", title="Dead letters", graves=graves, named=named, fields=CRITERIA,
        spans=SPANS, begin=begin, end=end, adding=is_sum and answer.get("next_offset"),
        command=of_groups or of_graves, also=[of_graves] if of_groups else [],
        wrong=wrong, code=BAD_REQUEST if wrong else 200,
        **_shown(visit, asked, answer, chosen, is_sum=is_sum),
    )  # fmt: skip


async def _graves(visit: Visit) -> dict[str, Any]:
    """Return the queues of dead letters and expired messages that the user may browse, those with
    the most messages first."""
    try:
        return await visit.look(OF_GRAVES | {"limit": GRAVES_MAX})
    except ControlError as error:
        if error.code != Code.INVALID.value:
            raise
        # A broker of an earlier version does not list them.
        return {"queues": [], "total": None}


def _only(graves: list[dict[str, Any]]) -> str:
    """Return the one queue that has messages, "" if none has, or several do."""
    full = [row["queue"] for row in graves if row["messages"]]
    return full[0] if len(full) == 1 else ""


def _field(visit: Visit) -> str:
    """Return the criterion for groups. Raises Refused."""
    field = visit.query.get("by", "reason")
    if field not in CRITERIA:
        raise Refused(BAD_REQUEST, f"by must be one of {', '.join(CRITERIA)}")
    return field


def _shown(
    visit: Visit, asked: dict[str, Any], answer: dict[str, Any], chosen: str, *, is_sum: bool
) -> dict[str, Any]:
    """Return what the template of groups shows."""
    groups = answer.get("groups", [])
    others = answer.get("in_other_groups", 0)
    matching = sum(group["messages"] for group in groups) + others
    if is_sum:
        others += sum(group["messages"] for group in groups[ROWS_OF_SUMS_MAX:])
        groups = groups[:ROWS_OF_SUMS_MAX]
    return {
        "queue": asked["queue"], "by": asked["by"], "offset": asked.get("offset", 0),
        "answer": answer, "groups": groups, "filters": _filters(groups, asked["by"], chosen),
        "chosen": chosen, "matching": matching, "others": others, "is_sum": is_sum, "trouble": "",
        "chart": _chart(answer.get("hours", [])),
        "span": {key: visit.query.get(key, "") for key in ("from", "to")},
    }  # fmt: skip


async def whole(visit: Visit) -> Response:
    """Send the groups of the whole queue while they are added up (server-sent events)."""
    if len(_adding) >= SUMS_MAX:
        raise Refused(UNAVAILABLE, "too many queues are added up; try again in a moment")
    asked = {"do": "deaths", "queue": visit.query.get("queue", ""), "by": _field(visit)}
    chosen = died_between(*_range(visit.query.get("from", ""), visit.query.get("to", "")))
    first = await visit.look(asked | {"filter": chosen})
    await visit.learn(queue=asked["queue"])
    return StreamingResponse(_sums(visit, asked, chosen, first), media_type="text/event-stream")


async def _sums(
    visit: Visit, asked: dict[str, Any], chosen: str, first: dict[str, Any]
) -> AsyncIterator[bytes]:
    """Ask for part after part, and yield the sums from time to time and at the end."""
    sums, trouble = Sums(asked["by"]), ""
    _adding.add(id(visit))
    try:
        following, shown = sums.add(first), time.monotonic()
        while following is not None:
            begun = time.monotonic()
            if visit.console.session_of(visit.request, uses=False) is not visit.session:
                trouble = "your session is over"
                break
            try:
                part = await visit.look(asked | {"filter": chosen, "offset": following})
            except (ConsoleError, ControlError) as error:
                trouble = failure(error)[1]
                break
            following = sums.add(part)
            now = time.monotonic()
            if following is not None and now - shown >= RENEWED_SECONDS:
                shown = now
                yield _event(visit, _shown(visit, asked, sums.answer(), chosen, is_sum=True))
            await asyncio.sleep(min(now - begun, REST_SECONDS_MAX))
        told = _shown(visit, asked, sums.answer(), chosen, is_sum=True)
        yield _event(visit, told | {"trouble": trouble})
        yield event("over")
    finally:
        _adding.discard(id(visit))


def _event(visit: Visit, values: dict[str, Any]) -> bytes:
    here = visit.url("dead-letters")
    return event(
        "groups", render("death_groups.html", visit=visit, at=visit.at, here=here, **values)
    )


def _range(begin: str, end: str) -> tuple[int | None, int | None]:
    """Return a range of time in milliseconds since 1970. Raises Refused."""
    first, last = (time_in(each) // 1000 if each.strip() else None for each in (begin, end))
    if first is not None and last is not None and last <= first:
        raise Refused(BAD_REQUEST, f"no time is from '{begin[:40]}' on and before '{end[:40]}'")
    return first, last


def _chart(hours: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the groups by hour as bars, by day if these are too many; None without deaths."""
    for period, length in PERIODS.items():
        every = hours if period == "hour" else days_of(hours)
        groups = [each for each in every if each[period] is not None]
        if not groups:
            return None
        begin, end = (begin_of(groups[place][period]) for place in (0, -1))
        places = (end - begin) // length + 1
        if places <= PLACES_MAX or period == "day":
            break
    highest = max(each["messages"] for each in groups)
    bars = [
        {
            "place": (begin_of(each[period]) - begin) // length,
            "height": round(100 * each["messages"] / highest, 2),
            "title": f"{each[period]}: {counted(each['messages'], 'message')}",
        }
        for each in groups
    ]
    return {
        "period": period, "bars": bars, "places": max(places, PLACES_LEAST), "highest": highest,
        "first": groups[0][period], "last": groups[-1][period],
    }  # fmt: skip


def _filters(groups: list[dict[str, Any]], field: str, chosen: str) -> list[str]:
    """Return the filter for each group of what is chosen, "" for messages that did not die."""
    return [
        both(chosen_by(field, group[field]), chosen) if group[field] is not None else ""
        for group in groups
    ]


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/dead-letters", deaths, ["GET"]), ("/dead-letters/whole", whole, ["GET"]),
)  # fmt: skip
