"""The story of a message: what happened to it, across queues, crashes and copies, as the command
`journal trail` shows it; and the events of the journal, as `journal inspect` lists them.
"""

from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from daybook.console.jobs.history import STORIES_MAX
from daybook.console.rendering import query
from daybook.console.visits import BAD_REQUEST, Page, Refused, Visit, without_broker
from daybook.engine.facts.events import BY_NUMBER

EVENTS: Final = 100
TEXTS: Final = ("queue", "address")


@without_broker
async def story(visit: Visit) -> Response:
    """Show the story of a message; or those with a header, of which a single one is shown at once;
    or ask which."""
    header = _trimmed(visit.query.get("header", ""))
    if "=" in visit.query.get("message", ""):
        # The first field has what belongs into the second.
        return RedirectResponse(visit.url("story") + query(header=visit.query["message"]), 303)
    message = visit.number("message")
    if header and not message:
        return await _stories(visit, header)
    told = await visit.history("story", message=message) if message else None
    return visit.page(
        "story.html", title=f"Story of message {message}" if message else "Story of a message",
        told=told, message=message, header="", found=None, is_of_moment=False,
        command=visit.journal("trail", str(visit.broker.directory), str(message)) if told else "",
    )  # fmt: skip


def _trimmed(header: str) -> str:
    """Return a header without the blanks that people type or paste around its parts."""
    return "=".join(part.strip() for part in header.split("=", 1))


async def _stories(visit: Visit, header: str) -> Response:
    begin = max(1, visit.number("from"))
    found = await visit.history("stories", header=header, begin=begin)
    if len(found["stories"]) == 1 and not found["notes"] and begin == 1:
        return RedirectResponse(
            visit.url("story") + query(message=found["stories"][0]["message"]), 303
        )
    return visit.page(
        "story.html", title="Story of a message", told=None, message=0, header=header, found=found,
        is_of_moment=False, begin=begin,
        command=visit.journal(
            "trail", str(visit.broker.directory), "--header", header,
            *(("--from", str(begin)) if begin > 1 else ()), "--limit", str(STORIES_MAX),
        ),
    )  # fmt: skip


@without_broker
async def drawing(visit: Visit) -> Response:
    """Return the picture of a story."""
    message = visit.number("message")
    if not message:
        raise Refused(BAD_REQUEST, "name a message, by its id")
    text = await visit.history("drawing", message=message)
    # An image of a page runs nothing, and neither does this alone, by the policy of the console.
    return Response(text, media_type="image/svg+xml")


@without_broker
async def events(visit: Visit) -> Response:
    """Show events of the journal that fit a question: from one on, or the newest ones first."""
    question: dict[str, Any] = {name: visit.query.get(name, "") for name in TEXTS}
    begin, end = visit.number("from"), visit.number("to")
    question["from_lsn"] = max(1, begin)
    ends = [each for each in (await visit.bound() if visit.at else 0, end) if each]
    if ends:
        question["to_lsn"] = min(ends)
    question["message"] = visit.number("message")
    question["connection"] = visit.number("connection")
    kinds = [each for each in visit.query.getlist("kind") if each]
    if kinds:
        question["kinds"] = kinds
    is_newest = not begin
    told = await visit.history("events", question=question, limit=EVENTS, last=is_newest)
    return visit.page(
        "events.html", title="Events", told=told, question=question, chosen=kinds, begin=begin,
        end=end, is_newest=is_newest,
        asked={name: question[name] for name in (*TEXTS, "message", "connection")}
        | {"kind": kinds[0] if kinds else "", "at": visit.at},
        kinds=sorted(each.name for each in BY_NUMBER.values()),
        command=_command(visit, question, kinds, "--last" if is_newest else "--limit"),
    )  # fmt: skip


def _command(visit: Visit, question: dict[str, Any], kinds: list[str], most: str) -> str:
    words: list[str] = []
    for name, flag in (("queue", "--queue"), ("address", "--address"), ("message", "--message"),
                       ("connection", "--connection"), ("from_lsn", "--from")):  # fmt: skip
        if question[name] not in ("", 0, 1):
            words += [flag, str(question[name])]
    if "to_lsn" in question:
        words += ["--to", str(question["to_lsn"])]
    for kind in kinds:
        words += ["--kind", kind]
    return visit.inspect(*words, most, str(EVENTS))


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/story", story, ["GET"]), ("/story.svg", drawing, ["GET"]), ("/events", events, ["GET"]),
)  # fmt: skip
