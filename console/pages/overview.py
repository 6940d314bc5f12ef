"""The overview of a broker: what is wrong, rates and levels of the last hour, memory, disk.

Shows the newest sample that the console took for everybody, so looking costs the broker nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeGuard

import msgspec
from starlette.responses import JSONResponse, Response, StreamingResponse

from daybook.client.control import ControlError
from daybook.console.console_config import ConsoleError
from daybook.console.menu import SEES
from daybook.console.pages.growth import command_of_minutes
from daybook.console.pages.lists import command_of
from daybook.console.pages.manual import documents
from daybook.console.rendering import event, render
from daybook.console.samples import LEVELS, Sample, Samples
from daybook.console.visits import FORBIDDEN, Page, Refused, Visit, without_broker
from daybook.server.administration.units import COUNTED
from daybook.server.monitoring.health import EXIT_WARNING, check_problems, problems
from daybook.server.monitoring.rates import FREE, RATES, WRITTEN, DiskForecast, disk_forecast

STREAMS_MAX: Final = 500
"""How many pages renew themselves at a time; more must be loaded again by hand."""
SILENCE_SECONDS: Final = 20.0
GIVE_UP_SECONDS: Final = 5.0
COUNT_SECONDS: Final = 1.0
"""How long the journal is read for what was before the first sample."""
COUNTS: Final = (
    ("connections", "list/connections"), ("consumers", "list/consumers"),
    ("addresses", "list/addresses"), ("queues", "list/queues"), ("messages_ready", ""),
    ("messages_in_flight", ""), ("messages_scheduled", ""), ("messages_held", ""),
    ("dead_letters_waiting", "dead-letters"), ("messages_dead_lettered", "dead-letters"),
    ("messages_unrouted", "list/addresses"),
)  # fmt: skip
"""The figures in the row at the top, and the page that each leads to."""
PARTS: Final = ("figures", "memory")
"""The parts of the page that renew themselves, and their templates."""
RATES_SECONDS: Final = 60
"""For how long the command measures that this page shows: enough for the disk, too."""
MICROSECONDS: Final = 1_000_000
NEEDS_ALL: Final = "the overview needs the permission 'browse' for all addresses"

_streams: set[int] = set()


@without_broker
async def overview(visit: Visit) -> Response:
    """Show the overview; who may not read everything is asked for a queue or an address."""
    await visit.renew()
    if not visit.at and SEES not in visit.rights():
        # The broker would note a refusal for each look at this page.
        return visit.page("partial.html", title=visit.broker.name, why=NEEDS_ALL)
    try:
        values = await _values(visit)
    except ControlError as error:
        if error.code != "not-allowed":
            raise
        return visit.page("partial.html", title=visit.broker.name, why=str(error))
    # Without a broker only `health` says the same: that none runs.
    name = "status" if values["status"]["running"] else "health"
    measured = [command_of(visit, "status", "--rates", str(RATES_SECONDS), do="status")]
    return visit.page(
        "overview.html", title=visit.broker.name,
        command=command_of(visit, name, do="status"),
        also=measured if name == "status" and not visit.at else [],
        minutes=command_of_minutes(visit) if visit.sees_history else "", **values,
    )  # fmt: skip


async def _values(visit: Visit) -> dict[str, Any]:
    """Return what the overview shows: the newest sample; for who may not read everything, and for
    other moments, the answer of the broker."""
    samples = visit.console.samples.get(visit.broker.name)
    if visit.at or samples is None or not visit.sees_history:
        status = {"running": True} | await visit.look({"do": "status"})
        return _told(status, None)
    if samples.status is None and _has(samples):
        # Asking again would make this page wait for a broker that does not answer.
        return _told({"running": False}, samples)
    if samples.status is None:
        try:
            status = {"running": True} | await visit.look({"do": "status"})
        except ControlError as error:
            return _told({"running": False}, samples) | {"trouble": str(error)}
        status["running"] = visit.is_running
        return _told(status, samples)
    return _told(samples.status, samples)


def _told(status: dict[str, Any], samples: Samples | None) -> dict[str, Any]:
    found = problems(status)
    if samples is not None and status["running"]:
        found += check_problems(samples.faults)
    return {
        "status": status,
        "counts": COUNTS,
        "counted": COUNTED,
        "documents": documents(),
        "rates": tuple(RATES),
        "problems": [each for each in found if each.code != EXIT_WARNING],
        "warnings": [each for each in found if each.code == EXIT_WARNING],
        "newest": samples.samples[-1].figures if _has(samples) else {},
        "forecast": forecast(samples.samples) if samples is not None else None,
        "crash": samples.recent_crash if samples is not None else {},
        "trouble": samples.trouble if samples is not None else "",
        "has_hour": samples is not None,
        "lacks": int(samples.lacks[1]) * MICROSECONDS if samples and samples.lacks else None,
        "sampled": int(samples.samples[-1].time * MICROSECONDS) if _has(samples) else None,
        "age": samples.age if samples is not None else 0.0,
    }


def _has(samples: Samples | None) -> TypeGuard[Samples]:
    """Whether there is a sample."""
    return samples is not None and bool(samples.samples)


def forecast(samples: Sequence[Sample]) -> DiskForecast:
    """Return when the disk is full if it fills as in the last hour."""
    figures = {name: key for name, key in LEVELS.items() if key in (FREE, *WRITTEN)}
    known = [
        each for each in samples if all(each.figures.get(name) is not None for name in figures)
    ]
    if not known:
        return disk_forecast({}, {}, 0.0)
    first, last = (
        {key: each.figures[name] for name, key in figures.items()} for each in (known[0], known[-1])
    )
    return disk_forecast(first, last, known[-1].time - known[0].time)


@without_broker
async def hour(visit: Visit) -> Response:
    """Return the samples of the last hour, for the charts."""
    await visit.renew()
    visit.need_history()
    samples = visit.console.samples[visit.broker.name]
    await _ask_journal(visit, samples)
    return JSONResponse(
        samples.columns() | {"rates": list(RATES), "levels": list(LEVELS)},
        headers={"cache-control": "no-store"},
    )


async def _ask_journal(visit: Visit, samples: Samples) -> None:
    """Learn once from the journal what was before the first sample, as far as it says so soon."""
    async with samples.asking:
        lacks = samples.lacks
        if samples.earlier is not None or lacks is None:
            return
        begin, first = (int(each * MICROSECONDS) for each in lacks)
        asked = {
            "directory": str(visit.broker.directory), "until": first, "span": first - begin,
            "seconds": COUNT_SECONDS,
        }  # fmt: skip
        # No page waits for this, so pages have the turn of the user, also on a disk that hangs.
        turn = f"{visit.broker.name}: the last hour"
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                told = await visit.console.pool.do("minutes", asked, who=turn)
        except ConsoleError:
            # There is no journal yet, or too much to do: the page says that this may be missing.
            return
        except TimeoutError:
            samples.earlier = []
            return
        samples.remember(
            (step["begin"] / MICROSECONDS, step["end"] / MICROSECONDS, step["counts"])
            for step in told["steps"]
        )


@without_broker
async def live(visit: Visit) -> Response:
    """Send the overview again whenever there is a new sample (server-sent events)."""
    samples = visit.console.samples.get(visit.broker.name)
    if samples is None or not visit.sees_history or len(_streams) >= STREAMS_MAX:
        return Response(status_code=204)
    return StreamingResponse(_events(visit, samples), media_type="text/event-stream")


async def _events(visit: Visit, samples: Samples) -> AsyncIterator[bytes]:
    _streams.add(id(visit))
    try:
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS), samples.renewed:
                    await samples.renewed.wait()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if visit.console.session_of(visit.request, uses=False) is not visit.session:
                yield event("over")
                return
            try:
                await visit.renew()
                yield await _newest(visit, samples)
            except (ControlError, ConsoleError):
                # Somebody who may not see this any more hears why when the page is loaded again.
                yield event("over")
                return
    finally:
        _streams.discard(id(visit))


async def _newest(visit: Visit, samples: Samples) -> bytes:
    """Return the event of the newest sample, made once for all pages. Raises ControlError and
    ConsoleError."""
    if not visit.sees_history:
        raise Refused(FORBIDDEN, "the overview is not for this user any more")
    newest = samples.samples[-1]
    if samples.shown is None or samples.shown[0] is not newest:
        samples.shown = newest, _event(await _values(visit), visit)
    return samples.shown[1]


def _event(values: dict[str, Any], visit: Visit) -> bytes:
    told = {"sample": msgspec.json.encode(values["newest"]).decode()}
    for part in PARTS:
        told[part] = render(f"{part}.html", visit=visit, at=0, broker=visit.broker, **values)
    return b"".join(event(name, text) for name, text in told.items())


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("", overview, ["GET"]), ("/hour", hour, ["GET"]), ("/live", live, ["GET"]),
)  # fmt: skip
