"""Queries in SQL over the history: a table of the answer, a chart of it, and files; the same as
`journal sql`.

A short query is in the URL, so that it can be shared; a long one is in the form alone.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from daybook.console.charts import CHARTS, Chart, charted
from daybook.console.console_config import AskerError
from daybook.console.rendering import query
from daybook.console.visits import (
    BAD_REQUEST,
    NEWEST,
    Page,
    Refused,
    Visit,
    checked_form,
    without_broker,
)
from daybook.pipeline.sql.errors import heading_of, place_of
from daybook.pipeline.sql.saved import SAVED
from daybook.texts import printable

ROWS: Final = 1_000
SHARED_CHARS_MAX: Final = 2_000
"""The longest query in a URL."""
LIMIT: Final = re.compile(
    r"\blimit\s+([0-9]{1,9})(?:\s+offset\s+[0-9]+)?[\s;]*\Z", re.IGNORECASE | re.ASCII
)
"""The LIMIT of a whole query, where that ends with it."""
FORMS: Final = ("csv", "json")
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
MICROSECONDS: Final = 1_000_000
HOLDS: Final = "sql"
"""A worker that answered a query has DuckDB in memory, and gets the next one."""


@without_broker
async def show(visit: Visit) -> Response:
    """Show the answer to the query in the URL, if there is one."""
    return await _shown(visit, visit.query.get("q", ""), visit.query.get("chart", ""))


@without_broker
async def ask(visit: Visit) -> Response:
    """Lead to the URL of a query, or show the answer to one that is too long for that."""
    fields = dict(await checked_form(visit))
    sql, chart = _lines(fields.get("q", "")), fields.get("chart", "")
    if len(sql) <= SHARED_CHARS_MAX:
        return RedirectResponse(visit.url("sql") + query(q=sql, chart=chart), 303)
    return await _shown(visit, sql, chart)


@without_broker
async def export(visit: Visit) -> Response:
    """Return the whole answer as a file."""
    fields = dict(await checked_form(visit))
    form = fields.get("form", "")
    if form not in FORMS:
        raise Refused(BAD_REQUEST, f"form must be one of {', '.join(FORMS)}")
    sql = _lines(fields.get("q", ""))
    text = await visit.history("export", holds=HOLDS, sql=sql, form=form)
    headers = {"content-disposition": f'attachment; filename="answer.{form}"'}
    return Response(text.encode(), media_type="application/octet-stream", headers=headers)


def _lines(text: str) -> str:
    """Return a text of a form, in which browsers end lines in their own way."""
    return text.replace("\r\n", "\n")


async def _shown(visit: Visit, sql: str, chart: str) -> Response:
    if chart not in CHARTS:
        raise Refused(BAD_REQUEST, f"chart must be one of {', '.join(CHARTS[1:])}")
    answer: dict[str, Any] | None = None
    wrong, place = "", None
    if sql.strip():
        try:
            answer = await visit.history("answer", holds=HOLDS, sql=sql, most=ROWS)
        except AskerError as error:
            wrong, place = str(error), place_of(str(error))
    return visit.page(
        "sql.html", title="SQL", code=BAD_REQUEST if wrong else 200, sql=sql, answer=answer,
        is_of_moment=False, wrong=wrong, place=place, wrong_heading=heading_of(wrong), chart=chart,
        drawn=charted(answer, chart) if answer else Chart(),
        limit=_limit_reached(answer, sql) if answer else 0,
        saved=await _saved(visit), tables=await _tables(visit),
        is_short=len(sql) <= SHARED_CHARS_MAX, command=_command(visit, sql) if answer else "",
    )  # fmt: skip


def _limit_reached(answer: dict[str, Any], sql: str) -> int:
    """Return the LIMIT at the end of a query if its answer has as many rows, else 0."""
    found = LIMIT.search(sql)
    limit = int(found[1]) if found is not None else 0
    return limit if limit and limit == len(answer["rows"]) + answer["more"] else 0


async def _saved(visit: Visit) -> list[tuple[str, str, str]]:
    """Return the saved queries, about the last hour of the history, with their charts."""
    try:
        newest = await visit.history("moment", lsn=NEWEST)
    except AskerError:
        # The journal has no events yet.
        return []
    last = datetime.fromtimestamp(newest["time"] // MICROSECONDS, UTC)
    until = last.replace(second=0) + MINUTE
    return [(each.question, each.sql(until - HOUR, until), each.chart) for each in SAVED]


_known: Final[list[dict[str, Any]]] = []
"""The tables, which are the same for each broker, once a worker said them."""


async def _tables(visit: Visit) -> list[dict[str, Any]]:
    if not _known:
        try:
            _known[:] = await visit.history("tables", holds=HOLDS)
        except AskerError:
            # The extra is missing, as the answer to a query says.
            return []
    return _known


def _command(visit: Visit, sql: str) -> str:
    """Return the command with the same answer, for a shell like bash: a query of several lines is
    in its form for those."""
    words = ["sql", "--data", str(visit.broker.directory), "--limit", str(ROWS)]
    if sql.isprintable():
        return visit.journal(*words, "--", sql)
    escaped = printable(sql.replace("\\", "\\\\").replace("'", "\\'"))
    return f"{visit.journal(*words, '--')} $'{escaped}'"


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/sql", show, ["GET"]), ("/sql", ask, ["POST"]), ("/sql/file", export, ["POST"]),
)  # fmt: skip
