"""The messages of a queue, and one of them: headers with their types, and the body as text, JSON,
XML or bytes, a large one by pieces. Bodies are shown, never executed.
"""

from base64 import b64decode
from itertools import islice
from typing import Final

from starlette.responses import Response

from daybook.client.control import ControlError
from daybook.console.console_config import ConsoleError
from daybook.console.pages.lists import command_of
from daybook.console.visits import BAD_REQUEST, Page, Visit, mistake
from daybook.engine.messages.headers import is_of_applications
from daybook.engine.names.names import plain
from daybook.server.administration.bodies import forms_of
from daybook.server.administration.deaths import death_in
from daybook.server.administration.ways import way_of

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
    return visit.page(
        "messages.html", title=f"Messages of {plain(name)}", queue=name, answer=answer,
        said=[_said(row["headers"] or {}) for row in answer["messages"]],
        deaths=deaths if any(deaths) else [],
        asked=asked, wrong=wrong, code=BAD_REQUEST if wrong else 200,
        command="" if wrong else command_of(visit, "browse", **asked),
        offered=[] if wrong else await _offered(visit, name),
    )  # fmt: skip


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
    body = row["body"].encode() if "body" in row else b64decode(row["body_base64"])
    return visit.page(
        "message.html", title=f"Message {wanted}", queue=name, row=row,
        forms=forms_of(body, is_whole=row["pieces"] == 1),
        acts=[way_of(f"queue {each}") for each in await _offered(visit, name)],
        command=command_of(visit, "queue peek", **asked),
    )  # fmt: skip


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/messages", messages, ["GET"]), ("/message", message, ["GET"]),
)  # fmt: skip
