"""Lists: a page for each request that reads rows, and the page of one queue, of one address.

The columns, their help and the command are those of the table of administration; a request that is
added there has its page here.
"""

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from daybook.client.control import ControlError
from daybook.console.menu import EVERYBODY, READS, SEES, is_there
from daybook.console.pages.growth import SPANS, command_of_growth, span_of
from daybook.console.pages.manual import documents
from daybook.console.samples import LOOK_SECONDS
from daybook.console.visits import BAD_REQUEST, NOT_FOUND, Page, Refused, Visit
from daybook.engine.names.names import plain
from daybook.server.administration.admin_requests import CONSUMER_TABLE, REQUESTS
from daybook.server.administration.broker_requests import users_file
from daybook.server.administration.request_rows import (
    OnAddress,
    OnQueue,
    Option,
    Request,
    Table,
    Way,
)
from daybook.server.administration.retries import RUNNING
from daybook.server.administration.units import CREDIT, heading
from daybook.server.administration.ways import (
    Found,
    command_line,
    every_way,
    marks_of,
    way_of,
    what_is_wrong,
)

ROWS: Final = 100
"""How many rows a page shows, where the request can be asked for fewer."""
LEADING: Final = {
    "queue": "queue?queue=", "address": "address?address=", "message": "story?message=",
    "oldest_ready": "story?message=", "oldest_in_flight": "story?message=",
    "connection": "list/links?connection=", "connector": "list/auto-links?connector=",
}  # fmt: skip
"""Columns whose values lead to a page, and the beginning of its URL."""
OWN_PAGES: Final = frozenset({"queue", "address"})
"""Requests about one object, which has a page of its own; a list of it needs its name."""
PRESSING: Final = {
    "ready": ("ready", "bytes", "oldest_ready", "oldest_ready_since"),
    "oldest_in_flight": ("in_flight", "oldest_in_flight", "oldest_in_flight_since"),
}
"""Columns that a list shows first, after the names, so that no window cuts them off: those of the
first column here that the list has."""
RATE: Final = "settled_per_second"
"""The column with the rate of a consumer, which needs two looks, so that no request has it."""
OF_CONSUMERS: Final = (
    "consumer", "connection", "user", "client_id", "in_flight", "oldest_in_flight",
    "oldest_in_flight_since", RATE, "credit_messages", "credit_bytes", "ack_mode",
    "filter",
)  # fmt: skip
"""What the page of a queue shows of its consumers."""
CHANGED_BY: Final = {
    "users": ("user", "add", "LOGIN", "--role", "ROLE"),
    "roles": ("user", "role", "LOGIN", "--add", "ROLE"),
}
"""Lists of what the console does not change, and the command of the broker's machine that does."""
RATED_MAX: Final = 100
"""Of how many consumers a page shows a rate."""
RATED: Final = (
    f"A rate compares two looks, at least {LOOK_SECONDS:.0f} seconds apart: one that is missing"
    " comes with a next look at this page."
)
"""Why a rate is missing, in words."""
OF_QUEUES: Final = (
    "queue pause", "queue resume", "queue purge", "queue release", "queue deliver-scheduled",
    "queue retry", "queue stop-retry", "queue move", "queue copy", "queue expire", "queue remove",
    "queue priority", "queue update", "queue reset-groups", "queue delete", "queue drain",
)  # fmt: skip
OF_ADDRESSES: Final = (
    "address pause", "address resume", "address update", "address clear-id-cache",
    "address forget", "address delete", "settings set", "settings remove", "divert create",
)  # fmt: skip
OF_NAMES: Final = ("settings set", "settings remove", "divert create")
"""Commands for an address that does not exist."""
OPPOSITES: Final = {
    "queue pause": False, "queue resume": True, "address pause": False, "address resume": True,
}  # fmt: skip
"""Commands that are offered where `paused` is this: elsewhere they change nothing."""
NEEDED: Final = {
    "queue release": "held", "queue deliver-scheduled": "scheduled", "queue retry": "messages",
}  # fmt: skip
"""Commands that are offered where the queue has what this column counts."""
OWN_GROUPS: Final = ("queue", "address")
"""Commands about what the page shows, whose buttons need no more than their verb."""


def request_of(row: type[Request], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the request in a query. Raises Refused."""
    tag = str(row.__struct_config__.tag)
    names = [field.name for field in msgspec.structs.fields(row)]
    asked = {"do": tag} | {name: given[name] for name in names if given.get(name)}
    try:
        whole = msgspec.convert(asked, row, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(BAD_REQUEST, what_is_wrong(error, heading)) from error
    told: dict[str, Any] = msgspec.to_builtins(whole)
    return told


async def list_page(visit: Visit) -> Response:
    """Show the rows of a request."""
    found = _list_of(visit.request.path_params["tag"], visit.query)
    row, way = found.row, found.way
    assert way.table is not None
    fields = {field.name for field in msgspec.structs.fields(row)}
    given = dict(visit.query)
    if "limit" in fields:
        given.setdefault("limit", str(ROWS))
    asked = request_of(row, given)
    answer = await visit.look(asked)
    rows = answer[way.table.key]
    shaped = [way.table.shape(each) for each in rows] if way.table.shape is not None else rows
    columns, rated = _columns(way.table), ""
    if way.table is CONSUMER_TABLE and visit.is_live:
        shaped = _rated(visit, shaped)
        columns, rated = _with_rate(columns), _missing(shaped)
    marks = marks_of(row, way)
    sorts = _sorts(marks)
    if asked.get("sort") and asked["sort"] not in sorts:
        raise Refused(BAD_REQUEST, f"sort must be one of {', '.join(sorts)}")
    shown = {name: asked[name] for name in marks if asked.get(name)}
    return visit.page(
        "list.html", title=found.tag.replace("-", " ").capitalize(), found=found,
        help=(way.doc or row.__doc__ or "").strip(), columns=columns, rows=shaped,
        rated=rated,
        asked=asked, marks=marks, sorts=sorts, leading=_leading(visit), shown=shown,
        total=answer.get("total"), next_offset=answer.get("next_offset"),
        previous=_previous(asked), option=Option, documents=documents(),
        changed_by=await _changed_by(visit, found.tag),
        command=command(visit, way, asked, *(() if visit.broker.url else way.words(answer))),
    )  # fmt: skip


async def _changed_by(visit: Visit, tag: str) -> str:
    """Return the command that changes what a list has, "" if the console does."""
    if tag not in CHANGED_BY:
        return ""
    words = users_file(await visit.look({"do": "users", "limit": 1}))
    return shlex.join(["daybook", *CHANGED_BY[tag], *words])


def _rated(visit: Visit, consumers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return consumers with how many messages a second the first of them settle, None where that
    is not known yet."""
    rates, now = visit.console.rates_of_consumers[visit.broker.name], time.monotonic()
    return [
        row | {RATE: rates.of(str(row["consumer"]), row, now).get("settled")}
        if number < RATED_MAX
        else row | {RATE: None}
        for number, row in enumerate(consumers)
    ]


def _missing(consumers: Sequence[dict[str, Any]]) -> str:
    """Return why some rates are missing, "" if none are."""
    return RATED if any(row[RATE] is None for row in consumers[:RATED_MAX]) else ""


def _with_rate(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of consumers with their rate, before what is less pressing."""
    place = columns.index(PRESSING["oldest_in_flight"][-1]) + 1
    return (*columns[:place], RATE, *columns[place:])


def _leading(visit: Visit) -> dict[str, str]:
    """Return the columns whose values lead to a page that the user may see, and that can answer
    about the moment that is shown."""
    rights = visit.rights()
    needed = {"story": READS, "list": SEES}
    return {
        column: path
        for column, path in LEADING.items()
        if needed.get(re.split("[?/]", path)[0], EVERYBODY) in rights
        and is_there(path.partition("?")[0], is_live=visit.is_live)
    }


def every_list() -> Iterator[Found]:
    """Yield the requests that have a list."""
    return (found for found in every_way() if found.way.table is not None)


def _list_of(tag: str, given: Mapping[str, str]) -> Found:
    for found in every_list():
        if found.tag == tag:
            if tag in OWN_PAGES and not given.get(tag):
                break
            return found
    raise Refused(NOT_FOUND, f"there is no list '{tag[:40]}'; the navigation has all")


def _columns(table: Table) -> tuple[str, ...]:
    """Return the columns as a list shows them: names, what is pressing, and the rest."""
    every = (*table.columns, *table.more)
    firsts = next((PRESSING[each] for each in PRESSING if each in every), ())
    if not firsts:
        return every
    names = every[: every.index(firsts[0])]
    pressing = tuple(each for each in firsts if each in every)
    return (*names, *pressing, *(each for each in every if each not in names + pressing))


def _sorts(marks: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns by which the broker sorts."""
    if "sort" not in marks:
        return ()
    choices: tuple[str, ...] = marks["sort"][1].choices
    return choices


def _previous(asked: Mapping[str, Any]) -> int | None:
    """Return where the page before begins, None if this is the first."""
    offset = asked.get("offset", 0)
    return max(0, offset - asked.get("limit", 1000)) if offset else None


def command(visit: Visit, way: Way, asked: Mapping[str, Any], *more: str) -> str:
    """Return the command that gives the same answer, also of a past moment."""
    # The command line refuses an event that the journal does not have yet.
    moment = visit.at and (visit.shown_lsn or visit.at)
    if not visit.is_running and REQUESTS[asked["do"]].is_about_clients:
        # Commands about clients ask a broker only; the page shows those at the end of the journal.
        moment = visit.shown_lsn
    at = ("--at", str(moment)) if moment else ()
    return command_line(way, asked, *visit.broker.options(), *at, *more)


def command_of(visit: Visit, name: str, *more: str, **asked: Any) -> str:
    """Return the command of this name that sends a request, with `more` words."""
    found = way_of(name)
    assert found is not None, name
    return command(visit, found.way, asked, *more)


async def queue_page(visit: Visit) -> Response:
    """Show one queue: its counts, how it grew, its attributes, its consumers, and what can be done
    with it."""
    name, span = visit.query.get("queue", ""), span_of(visit)
    [row] = (await visit.look({"do": "queue", "queue": name}))["queues"]
    await visit.learn(queue=name, address=row["address"])
    settings = await _if_allowed(visit, do="settings", address=row["address"])
    consumers: list[dict[str, Any]] = []
    rates: dict[str, float] = {}
    if visit.is_running:
        consumers = await _consumers_of(visit, name)
    if visit.is_live:
        known = visit.console.rates_of_queues[visit.broker.name]
        rates = known.of(row["queue"], row, time.monotonic())
    commands = await _of_queue(visit, row["queue"])
    return visit.page(
        "queue.html", title=plain(name), row=row, rows_of_settings=settings.get("settings"),
        consumers=consumers, of_consumers=_of_consumers(visit), leading=_leading(visit),
        rates=rates, credit=CREDIT if visit.is_live else "",
        rated=_missing(consumers) if visit.is_live else "",
        why_unrated=RATED if visit.is_live and not rates else "",
        actions=_actions(visit, commands, row),
        is_sharded=visit.is_live and visit.may("queue drain") and "queue drain" in commands,
        diverts=await _diverts_of(visit, row["address"]), spans=tuple(SPANS), span=span,
        growth=command_of_growth(visit, row["queue"], span) if visit.sees_history else "",
        command=command_of(visit, "queue show", do="queue", queue=plain(name)),
    )  # fmt: skip


async def _consumers_of(visit: Visit, name: str) -> list[dict[str, Any]]:
    """Return the consumers of a queue, the first of them with how many messages a second they
    settle now."""
    consumers: list[dict[str, Any]] = (await visit.look({"do": "consumers-of", "queue": name}))[
        "consumers"
    ]
    assert CONSUMER_TABLE.shape is not None
    rows = _rated(visit, consumers) if visit.is_live else consumers
    return [CONSUMER_TABLE.shape(row) for row in rows]


def _of_consumers(visit: Visit) -> tuple[str, ...]:
    """Return the columns of consumers: the journal has no rates and no credit."""
    lack = () if visit.is_live else (RATE, "credit_messages", "credit_bytes")
    return tuple(each for each in OF_CONSUMERS if each not in lack)


async def address_page(visit: Visit) -> Response:
    """Show one address: its counts, how its queues are bound, and its settings with their
    origins."""
    name = visit.query.get("address", "")
    settings = await visit.look({"do": "settings", "address": name})
    row: dict[str, Any] = {}
    if settings["exists"]:
        [row] = (await visit.look({"do": "address", "address": name}))["addresses"]
    await visit.learn(address=name)
    diverts = await _diverts_of(visit, name)
    return visit.page(
        "address.html", title=plain(name), row=row, rows_of_settings=settings["settings"],
        name=name,
        diverts=diverts,
        actions=_actions(
            visit, OF_ADDRESSES if row else OF_NAMES, row | {"address": name, "match": name}
        ),
        leading=_leading(visit),
        command=command_of(visit, "settings show", do="settings", address=name),
        also=[command_of(visit, "address show", do="address", address=name)] if row else [],
    )  # fmt: skip


async def _of_queue(visit: Visit, name: str) -> tuple[str, ...]:
    """Return the commands for a queue; a retry can be stopped while one runs, and a sharded queue
    can be drained, as far as the user may know that."""
    if not visit.is_live:
        return OF_QUEUES
    without = set()
    if visit.may("queue stop-retry") and not await _is_retried(visit, name):
        without.add("queue stop-retry")
    if visit.may("queue drain") and not await _is_sharded(visit, name):
        without.add("queue drain")
    return tuple(each for each in OF_QUEUES if each not in without)


async def _is_retried(visit: Visit, name: str) -> bool:
    """Whether a retry of a queue runs, or the user may not know."""
    try:
        retries = (await visit.look({"do": "retries"}))["retries"]
    except ControlError:
        return True
    return any(each["queue"] == name and each["state"] == RUNNING for each in retries)


async def _is_sharded(visit: Visit, name: str) -> bool:
    """Whether a queue has shards, or the user may not know."""
    try:
        await visit.look({"do": "shards", "address": name})
    except ControlError as error:
        return error.code != "not-found"
    return True


async def _diverts_of(visit: Visit, name: str) -> list[dict[str, Any]]:
    """Return the diverts of an address; none for who may not list all."""
    if not visit.at and SEES not in visit.rights():
        return []
    diverts = (await _if_allowed(visit, do="diverts")).get("diverts", [])
    return [each for each in diverts if each["address"] == name]


async def _if_allowed(visit: Visit, **request: str) -> dict[str, Any]:
    """Return the answer to a request, empty for a user who may not ask that. Raises ControlError
    and ConsoleError."""
    try:
        return await visit.look(request)
    except ControlError as error:
        if error.code != "not-allowed":
            raise
        return {}


def _actions(
    visit: Visit, commands: tuple[str, ...], row: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what the user may do, with the fields that are known."""
    told = []
    for each in filter(visit.may, commands):
        if each in OPPOSITES and row.get("paused", OPPOSITES[each]) != OPPOSITES[each]:
            continue
        if each in NEEDED and not row.get(NEEDED[each], 1):
            continue
        found = way_of(each)
        assert found is not None, each
        names = [field.name for field in msgspec.structs.fields(found.row)]
        known = {name: row[name] for name in ("queue", "address", "match") if name in row}
        told.append(
            {
                "path": each.replace(" ", "/"),
                "title": _verb(each),
                "known": {name: value for name, value in known.items() if name in names},
            }
        )
    return told


def _verb(command: str) -> str:
    """Return what the button of a command says: its verb, and what is not what the page shows."""
    group, _, verb = command.partition(" ")
    verb = verb.replace("-", " ")
    return verb if group in OWN_GROUPS else f"{verb} {group}"


def place_of(row: type[Request]) -> str:
    """Return the field that says what a request is about, "" if it is about no place."""
    if issubclass(row, OnQueue):
        return "queue"
    return "address" if issubclass(row, OnAddress) else ""


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/list/{tag}", list_page, ["GET"]),
    ("/queue", queue_page, ["GET"]),
    ("/address", address_page, ["GET"]),
)
