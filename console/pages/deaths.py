"""Dead letters: the messages of a queue in groups, by why, where and with whom they died.

The deaths are those that the broker wrote into the messages; the same as `daybook queue messages
--group-by`.
"""

from typing import Any, Final

from starlette.responses import Response

from daybook.client.control import ControlError
from daybook.console.pages.lists import command_of
from daybook.console.visits import BAD_REQUEST, FORBIDDEN, STATUSES, Page, Refused, Visit
from daybook.server.administration.deaths import (
    CRITERIA,
    PERIODS,
    begin_of,
    chosen_by,
    days_of,
)
from daybook.texts import counted

PLACES_MAX: Final = 96
"""How many hours a chart has; it has days where there are more."""
PLACES_LEAST: Final = 12
"""A chart with few bars has room for so many, so that they are not wide."""
KEPT_IN: Final = ("dead-letter-address", "expiry-address")
"""The settings that say where messages go when they die."""
ANY_NAME: Final = "any"
"""A name that most configurations have no settings of its own for."""


async def deaths(visit: Visit) -> Response:
    """Show the groups of the messages in a queue."""
    field = visit.query.get("by", "reason")
    if field not in CRITERIA:
        raise Refused(BAD_REQUEST, f"by must be one of {', '.join(CRITERIA)}")
    queues = await _kept_in(visit)
    name = visit.query.get("queue") or (queues[0] if queues else "")
    answer: dict[str, Any] = {}
    if visit.query.get("queue"):
        answer = await visit.look({"do": "deaths", "queue": name, "by": field})
        await visit.learn(queue=name)
    groups = answer.get("groups", [])
    return visit.page(
        "deaths.html", title="Dead letters", queue=name, queues=queues, fields=CRITERIA,
        by=field, groups=groups, answer=answer, filters=_filters(groups, field),
        command=_command(visit, name, field) if answer else "",
        chart=_chart(answer.get("hours", [])),
    )  # fmt: skip


async def _kept_in(visit: Visit) -> list[str]:
    """Return the names of the queues where dead letters and expired messages are; none for a user
    who may not see the settings of any address: the queue is named in the form."""
    try:
        told = await visit.look({"do": "settings", "address": ANY_NAME})
    except ControlError as error:
        if STATUSES.get(error.code) != FORBIDDEN:
            raise
        return []
    found = [row["value"] for row in told["settings"] if row["key"] in KEPT_IN and row["value"]]
    return list(dict.fromkeys(map(str, found)))


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


def _filters(groups: list[dict[str, Any]], field: str) -> list[str]:
    """Return the filter for each group, "" for messages that did not die."""
    return [chosen_by(field, group[field]) if group[field] is not None else "" for group in groups]


def _command(visit: Visit, name: str, field: str) -> str:
    if visit.at:
        return visit.inspect("--at", str(visit.at), "--queue", name)
    return command_of(visit, "queue messages", do="deaths", queue=name, by=field)


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (("/dead-letters", deaths, ["GET"]),)
