"""Dead letters: the messages of a queue in groups, by why, where and with whom they died.

The deaths are those that the broker wrote into the messages; the same as `daybook queue messages
--group-by`.
"""

import shlex
from typing import Any, Final

from starlette.responses import Response

from daybook.console.visits import BAD_REQUEST, Page, Refused, Visit
from daybook.server.administration.deaths import (
    FIELDS,
    LOOKED_AT_MAX,
    chosen_by,
    death_in,
    grouped,
    next_page,
)

KEPT_IN: Final = ("dead-letter-address", "expiry-address")
"""The settings that say where messages go when they die."""
ANY_NAME: Final = "any"
"""A name that most configurations have no settings of its own for."""


async def deaths(visit: Visit) -> Response:
    """Show the groups of the messages in a queue."""
    field = visit.query.get("by", "reason")
    if field not in FIELDS:
        raise Refused(BAD_REQUEST, f"by must be one of {', '.join(FIELDS)}")
    queues = await _kept_in(visit)
    name = visit.query.get("queue") or (queues[0] if queues else "")
    groups: list[dict[str, Any]] = []
    answer: dict[str, Any] = {}
    if visit.query.get("queue"):
        answer, groups = await _groups(visit, name, field)
    return visit.page(
        "deaths.html", title="Dead letters", queue=name, queues=queues, fields=tuple(FIELDS),
        by=field, groups=groups, answer=answer, filters=_filters(groups, field),
        command=_command(visit, name, field) if answer else "",
    )  # fmt: skip


async def _kept_in(visit: Visit) -> list[str]:
    """Return the names of the queues where dead letters and expired messages are."""
    told = await visit.look({"do": "settings", "address": ANY_NAME})
    found = [row["value"] for row in told["settings"] if row["key"] in KEPT_IN and row["value"]]
    return list(dict.fromkeys(map(str, found)))


async def _groups(
    visit: Visit, name: str, field: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    answer: dict[str, Any] = {}
    offset: int | None = 0
    while offset is not None and offset < LOOKED_AT_MAX:
        answer = await visit.look(next_page(name, offset, LOOKED_AT_MAX))
        rows += [{"death": death_in(row["headers"])} for row in answer["messages"]]
        offset = answer["next_offset"]
    return answer, grouped(rows, field)


def _filters(groups: list[dict[str, Any]], field: str) -> list[str]:
    """Return the filter for each group, "" for messages that did not die."""
    return [chosen_by(field, group[field]) if group[field] is not None else "" for group in groups]


def _command(visit: Visit, name: str, field: str) -> str:
    if visit.at:
        return visit.inspect("--at", str(visit.at), "--queue", name)
    words = ["daybook", "queue", "messages", *visit.broker.options(), "--group-by", field]
    return shlex.join([*words, "--", name])


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (("/dead-letters", deaths, ["GET"]),)
