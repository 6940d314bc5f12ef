"""How a queue grew in the last hour or day: the numbers of the charts on its page, counted from the
journal as `journal growth` counts them, as far as that takes a second.
"""

from typing import Any, Final

from starlette.responses import JSONResponse, Response

from daybook.console.visits import BAD_REQUEST, Page, Refused, Visit, without_broker
from daybook.history.totals import HOUR, MINUTE

SPANS: Final = {"hour": ("1h", HOUR), "day": ("1d", 24 * HOUR)}
"""The spans that a page shows: for the command, and in microseconds."""
COUNT_SECONDS: Final = 1.0
MICROSECONDS: Final = 1_000_000


def span_of(visit: Visit) -> str:
    """Return the span that was asked for. Raises Refused."""
    span = visit.query.get("span") or next(iter(SPANS))
    if span not in SPANS:
        raise Refused(BAD_REQUEST, f"span must be one of {', '.join(SPANS)}")
    return span


def command_of_growth(visit: Visit, queue: str, span: str) -> str:
    """Return the command that prints the same numbers."""
    moment = visit.shown_lsn or visit.at
    at = ("--at", str(moment)) if moment else ()
    data = ("--data", str(visit.broker.directory))
    return visit.journal("growth", *data, *at, "--since", SPANS[span][0], "--", queue)


def command_of_minutes(visit: Visit) -> str:
    """Return the command that prints how many messages came and went in the last hour."""
    return visit.journal("growth", "--data", str(visit.broker.directory))


@without_broker
async def growth(visit: Visit) -> Response:
    """Return the steps of the span as columns, for charts, and what to know about them."""
    span = SPANS[span_of(visit)][1]
    [row] = (await visit.look({"do": "queue", "queue": visit.query.get("queue", "")}))["queues"]
    lsn, time = visit.shown_lsn, visit.now
    if lsn:
        time = (await visit.history("moment", lsn=lsn))["time"]
    told = await visit.history(
        "growth", queue=row["id"], messages=row["messages"], lsn=lsn, time=time, span=span,
        seconds=COUNT_SECONDS,
    )  # fmt: skip
    return JSONResponse(
        _columns(told["steps"]) | {"note": " ".join(told["notes"])},
        headers={"cache-control": "no-store"},
    )


def _columns(steps: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the steps as columns, each at its end, with its messages a minute. The first step has
    its begin, too, so that there is a line."""
    columns: dict[str, list[float]] = {"time": [], "messages": [], "came": [], "left": []}
    for each in steps:
        minutes = max(each["end"] - each["begin"], 1) / MINUTE
        came, left = (round(each[key] / minutes, 2) for key in ("entered", "left"))
        before = max(each["messages"] - each["entered"] + each["left"], 0)
        points = [(each["end"], each["messages"])]
        if not columns["time"]:
            points.insert(0, (each["begin"], before))
        for time, messages in points:
            row = (time / MICROSECONDS, messages, came, left)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (("/queue/growth", growth, ["GET"]),)
