"""The time machine: a moment of the history is chosen, and every page shows the broker as it was.

A moment is an event (its LSN); the time that is chosen leads to the last event until then.
"""

from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from daybook.client.control import ControlError
from daybook.console.console_config import ConsoleError
from daybook.console.rendering import query
from daybook.console.visits import (
    BAD_REQUEST,
    Page,
    Refused,
    Visit,
    mistake,
    time_in,
    without_broker,
)
from daybook.history.differences import KEYS, named
from daybook.times import is_event

STEPS: Final = 1000
"""How many places a slider has."""


@without_broker
async def past(visit: Visit) -> Response:
    """Show the whole span of the history, with its marks."""
    return await _shown(visit)


async def _shown(visit: Visit, wrong: str = "") -> Response:
    """Return the page, with the newest marks or those before an event; `wrong` is the mistake in
    what was typed into it."""
    end = visit.number("marks")
    span = await visit.history("span", before=end)
    moment = None
    if visit.at:
        moment = await visit.history("moment", lsn=visit.at)
        visit.shown_lsn = moment["lsn"]
    at = moment or span["last"]
    beside = await visit.history("beside", lsn=at["lsn"]) if at else None
    data = ("--data", str(visit.broker.directory))
    return visit.page(
        "past.html", title="Time machine", span=span, moment=moment, wrong=wrong, end=end,
        code=BAD_REQUEST if wrong else 200, typed=visit.query if wrong else {},
        slider=slider_of(span, at["time"]) if at else None, beside=beside,
        command=visit.journal("marks", *data, *(("--before", str(end)) if end else ())),
        also=[visit.inspect("--at", str(at["lsn"]))] if at else [],
    )  # fmt: skip


@without_broker
async def go(visit: Visit) -> Response:
    """Lead to the event of a moment: an LSN, a time, or a place on the slider."""
    try:
        return await _led(visit)
    except (ConsoleError, ControlError) as error:
        return await _shown(visit, mistake(error))


async def _led(visit: Visit) -> Response:
    asked = _asked(visit)
    found = await visit.history("moment", **asked)
    if visit.query.get("to") == "compare":
        before = visit.number("before", visit.at)
        return RedirectResponse(
            visit.url("compare") + query(before=before, after=found["lsn"]), 303
        )
    # The page says so if the journal ends before an event.
    at = max(found["lsn"], asked.get("lsn", 0))
    return RedirectResponse(visit.url("past") + query(at=at), 303)


def _asked(visit: Visit) -> dict[str, Any]:
    """Return the moment that was asked for, an event or a time; one field takes both. Raises
    Refused."""
    either = visit.query.get("moment", "").strip()
    lsn = visit.number("moment" if is_event(either) else "lsn")
    if lsn:
        return {"lsn": lsn}
    place = visit.number("place")
    # A place on the slider is a millisecond, with all of its events.
    return {"time": place * 1000 + 999 if place else time_in(either or visit.query.get("time", ""))}


def slider_of(span: dict[str, Any], chosen: int) -> dict[str, Any]:
    """Return the places of a slider over a span and of its marks, in milliseconds since 1970: each
    step is about as long as the others, however many events it has."""
    first, last = span["first"]["time"] // 1000, span["last"]["time"] // 1000
    step = max(1, (last - first) // STEPS)
    steps = -(-(last - first) // step)

    def place(time: int) -> int:
        found: int = first + step * min(steps, -(-(time // 1000 - first) // step))
        return found

    # A browser draws no marks between the places.
    times = [time for each in span["marks"] for time in (each["time"], each.get("begun"))]
    marks = sorted({place(each) for each in times if each and each // 1000 >= first})
    return {
        "first": first, "last": first + steps * step, "step": step, "at": place(chosen),
        "marks": marks,
    }  # fmt: skip


@without_broker
async def compare(visit: Visit) -> Response:
    """Show what changed between two moments."""
    before, after = visit.number("before"), visit.number("after")
    if not before or not after:
        raise Refused(BAD_REQUEST, "two moments are needed: before and after, as LSNs")
    before, after = min(before, after), max(before, after)
    told = await visit.history("compare", before=before, after=after)
    differing = [(what, KEYS[what][0], told[what]) for what in KEYS if any(told[what].values())]
    more = sum(told["more"][each] for each in (*KEYS, "settings"))
    ends = [str(told[end]["lsn"]) for end in ("from", "to")]
    return visit.page(
        "compare.html", is_of_moment=False, title="What changed", told=told, differing=differing,
        named=named, more_differing=more,
        command=visit.journal("diff", str(visit.broker.directory), *ends),
    )  # fmt: skip


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/past", past, ["GET"]), ("/go", go, ["GET"]), ("/compare", compare, ["GET"]),
)  # fmt: skip
