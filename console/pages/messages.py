"""The messages of a queue, and one of them: headers with their types, and the body as text, JSON,
XML or bytes, a large one by pieces. Bodies are shown, never executed.
"""

import logging
from base64 import b64decode
from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from daybook.client.control import ControlError
from daybook.console.brokers import Answer
from daybook.console.console_config import ConsoleError
from daybook.console.pages.lists import command_of
from daybook.console.pages.manual import documents
from daybook.console.visits import BAD_REQUEST, NOT_FOUND, Page, Refused, Visit, mistake
from daybook.engine.messages.headers import is_of_applications
from daybook.engine.names.names import plain
from daybook.pipeline.sql.saved import HAS_TEXT
from daybook.server.administration.bodies import forms_of
from daybook.server.administration.deaths import death_in
from daybook.server.administration.ways import way_of

log = logging.getLogger("daybook.console")

ROWS: Final = 50
SAID_MAX: Final = 5
SAID_CHARS_MAX: Final = 160
OF_BROKERS: Final = ("_AMQ_", "_DAYBOOK_", "x-opt-")
"""The beginnings of headers that brokers give to a message."""
ACTS: Final = ("move", "copy", "retry", "expire", "remove", "priority")


async def messages(visit: Visit) -> Response:
    """Show a page of the messages of a queue."""
    name = visit.query.get("queue", "")
    asked = {
        "do": "browse", "queue": name, "offset": visit.number("offset"), "limit": ROWS,
        "filter": visit.query.get("filter", ""),
    }  # fmt: skip
    wrong = ""
    try:
        answer = await visit.look(asked)
    except (ConsoleError, ControlError) as error:
        if not asked["filter"]:
            raise
        wrong = mistake(error)
        answer = {"messages": [], "in_queue": None}
    deaths = [death_in(row["headers"] or {}) for row in answer["messages"]]
    fits_none = bool(asked["filter"]) and not wrong and not answer["messages"]
    # Those before, or further behind, may fit.
    has_acts = not wrong and (not fits_none or asked["offset"] or answer["next_offset"])
    return visit.page(
        "messages.html", title=f"Messages of {plain(name)}", queue=name, answer=answer,
        said=[_said(row["headers"] or {}) for row in answer["messages"]],
        deaths=deaths if any(deaths) else [],
        asked=asked, wrong=wrong, code=BAD_REQUEST if wrong else 200,
        command="" if wrong else command_of(visit, "browse", **asked),
        offered=await _offered(visit, name) if has_acts else [],
        fits_none=fits_none, of_bodies=_of_bodies(name), manuals=documents(),
    )  # fmt: skip


def _of_bodies(queue: str) -> str:
    """Return a query that finds messages of a queue by their bodies, which filters do not see."""
    quoted = queue.replace("'", "''")
    return (
        "SELECT message, time, address FROM events\n"
        f"WHERE kind = 'Routed' AND list_contains(queues, '{quoted}')\n"
        f"      AND {HAS_TEXT}"
    )


def _said(headers: dict[str, str]) -> str:
    """Return the first headers that an application gave a message, in a line."""
    own = (
        f"{name}={value}"
        for name, value in headers.items()
        if is_of_applications(name) and not name.startswith(OF_BROKERS)
    )
    line = ", ".join(islice(own, SAID_MAX))
    return line if len(line) <= SAID_CHARS_MAX else line[: SAID_CHARS_MAX - 1] + "…"


async def _offered(visit: Visit, queue: str) -> list[str]:
    """Return what the user may do with messages of a queue."""
    await visit.learn(queue=queue)
    return [each for each in ACTS if visit.may(f"queue {each}")]


async def message(visit: Visit) -> Response:
    """Show one message of a queue, with a piece of its body."""
    name, wanted = visit.query.get("queue", ""), visit.number("message")
    asked = {"do": "peek", "queue": name, "message": wanted, "piece": visit.number("piece", 1)}
    row = await visit.look(asked)
    piece = _piece_in(row)
    return visit.page(
        "message.html", title=f"Message {wanted}", queue=name, row=row,
        forms=forms_of(piece, is_whole=row["pieces"] == 1), lacks_body=_lacks_body(row),
        acts=[way_of(f"queue {each}") for each in await _offered(visit, name)],
        command=command_of(visit, "queue peek", **asked),
    )  # fmt: skip


async def body(visit: Visit) -> Response:
    """Return the body of a message as a file, of which one piece at a time is in memory."""
    name, wanted = visit.query.get("queue", ""), visit.number("message")
    asked: Answer = {"do": "peek", "queue": name, "message": wanted, "piece": 1}
    first = await visit.look(asked)
    if _lacks_body(first):
        raise Refused(
            NOT_FOUND,
            "the past has only the headers of a large message; `journal inspect --bodies` shows"
            " its body",
        )
    headers = {"content-disposition": f'attachment; filename="message-{wanted}.bin"'}
    return Download(
        _pieces(visit, asked, first), media_type="application/octet-stream", headers=headers
    )


class Download(StreamingResponse):
    """A file in pieces. Where one cannot be had, the connection ends without the end of the file,
    so that no browser takes a part for the whole."""

    async def stream_response(self, send: Send) -> None:
        """See StreamingResponse."""
        try:
            await super().stream_response(send)
        except (ConsoleError, ControlError) as error:
            # uvicorn closes the connection of a response that is not complete.
            log.warning("a file was broken off: %s", error)


async def _pieces(visit: Visit, asked: Answer, first: Answer) -> AsyncIterator[bytes]:
    """Yield the pieces of a body. Raises the errors of asking, and Refused."""
    yield _piece_in(first)
    for number in range(2, first["pieces"] + 1):
        row = await visit.look(asked | {"piece": number})
        if _lacks_body(row):
            raise Refused(NOT_FOUND, "the broker ended, and the past has no large bodies")
        yield _piece_in(row)


def _piece_in(row: Answer) -> bytes:
    return row["body"].encode() if "body" in row else b64decode(row["body_base64"])


def _lacks_body(row: Answer) -> bool:
    """Whether a message has a body, and the past does not have that."""
    return bool(row["body_bytes"]) and row.get("body") == ""


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/messages", messages, ["GET"]), ("/message", message, ["GET"]),
    ("/message/body", body, ["GET"]),
)  # fmt: skip
