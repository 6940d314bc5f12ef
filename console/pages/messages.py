"""The messages of a queue, and one of them: headers with their types, and the body as text, JSON,
or bytes. Bodies are shown, never executed, and their beginning only (`views.BODY_BYTES_MAX`).
"""

import json
import shlex
from base64 import b64decode
from typing import Any, Final

from starlette.responses import Response

from daybook.console.visits import NOT_FOUND, Page, Refused, Visit
from daybook.engine.names.names import plain
from daybook.server.administration.ways import way_of

ROWS: Final = 50
HEX_BYTES_MAX: Final = 4096
HEX_WIDTH: Final = 16


async def messages(visit: Visit) -> Response:
    """Show a page of the messages of a queue."""
    name = visit.query.get("queue", "")
    asked = {
        "do": "browse", "queue": name, "offset": visit.number("offset"), "limit": ROWS,
        "filter": visit.query.get("filter", ""),
    }  # fmt: skip
    answer = await visit.look(asked)
    return visit.page(
        "messages.html", title=f"Messages of {plain(name)}", queue=name, answer=answer,
        asked=asked, command=_command(visit, asked),
    )  # fmt: skip


def _command(visit: Visit, asked: dict[str, Any]) -> str:
    if visit.at:
        return visit.inspect("--at", str(visit.at), "--queue", asked["queue"])
    words = ["daybook", "browse", *visit.broker.options()]
    for flag, value in (("--offset", asked["offset"]), ("--filter", asked["filter"])):
        words += [flag, str(value)] if value else []
    return shlex.join([*words, "--", asked["queue"]])


async def message(visit: Visit) -> Response:
    """Show one message of a queue, found where the list showed it."""
    name, wanted = visit.query.get("queue", ""), visit.number("message")
    offset = visit.number("offset")
    answer = await visit.look({"do": "browse", "queue": name, "offset": offset, "limit": ROWS})
    found = next((each for each in answer["messages"] if each["message"] == wanted), None)
    if found is None:
        raise Refused(
            NOT_FOUND,
            f"message {wanted} is not there any more; its story says where it went",
        )
    return visit.page(
        "message.html", title=f"Message {wanted}", queue=name, row=found, forms=_forms(found),
        acts=[way_of(f"queue {each}") for each in ("move", "copy", "retry", "expire", "remove")],
    )  # fmt: skip


def _forms(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the forms of a body that make sense: JSON in order, text, bytes."""
    told: list[tuple[str, str]] = []
    text = row.get("body")
    raw = text.encode() if text is not None else b64decode(row["body_base64"])
    if text and text.lstrip()[:1] in ("{", "["):
        try:
            told.append(("JSON", json.dumps(json.loads(text), indent=2, ensure_ascii=False)))
        except (ValueError, RecursionError):
            # Text that only begins like JSON, or is nested too deeply to be read.
            told = []
    if text is not None:
        told.append(("text", text))
    told.append(("hex", _hex(raw[:HEX_BYTES_MAX])))
    return told


def _hex(data: bytes) -> str:
    lines = []
    for begin in range(0, len(data), HEX_WIDTH):
        part = data[begin : begin + HEX_WIDTH]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{HEX_WIDTH * 3}} {letters}")
    return "\n".join(lines)


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/messages", messages, ["GET"]), ("/message", message, ["GET"]),
)  # fmt: skip
