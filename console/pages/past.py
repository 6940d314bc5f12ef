"""The time machine: a moment of the history is chosen, and every page shows the broker as it was.

A moment is an event (its LSN); the time that is chosen leads to the last event until then.
"""

from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from daybook.console.rendering import query
from daybook.console.visits import BAD_REQUEST, Page, Refused, Visit

MICROSECONDS: Final = 1_000_000


async def past(visit: Visit) -> Response:
    """Show the whole span of the history, with its marks."""
    span = await visit.history("span")
    moment = None
    if visit.at:
        moment = await visit.history("moment", lsn=visit.at)
    return visit.page(
        "past.html", title="Time machine", span=span, moment=moment,
        command=visit.inspect("--at", str(visit.at or span["last"]["lsn"] if span["last"] else 1)),
    )  # fmt: skip


async def go(visit: Visit) -> Response:
    """Lead to the event of a moment: an LSN, a time, or a place on the slider."""
    lsn, text = visit.number("lsn"), visit.query.get("time", "")
    arguments: dict[str, Any] = {"lsn": lsn} if lsn else {"time": _time(text)}
    found = await visit.history("moment", **arguments)
    if visit.query.get("to") == "compare":
        return RedirectResponse(
            visit.url("compare") + query(before=visit.number("before"), after=found["lsn"]), 303
        )
    return RedirectResponse(visit.url("past") + query(at=found["lsn"]), 303)


def _time(text: str) -> int:
    """Return a time in microseconds since 1970; without a zone it is UTC. Raises Refused."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Refused(
            BAD_REQUEST, f"'{text[:40]}' is not a time; write it like 2026-11-28T15:04:05"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * MICROSECONDS)


async def compare(visit: Visit) -> Response:
    """Show what changed between two moments."""
    before, after = visit.number("before"), visit.number("after")
    if not before or not after:
        raise Refused(BAD_REQUEST, "two moments are needed: before and after, as LSNs")
    before, after = min(before, after), max(before, after)
    told = await visit.history("compare", before=before, after=after)
    return visit.page(
        "compare.html", title="What changed", told=told,
        command=visit.journal("diff", str(visit.broker.directory), str(before), str(after)),
    )  # fmt: skip


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/past", past, ["GET"]), ("/go", go, ["GET"]), ("/compare", compare, ["GET"]),
)  # fmt: skip
