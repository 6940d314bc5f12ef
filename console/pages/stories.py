"""The story of a message: what happened to it, across queues, crashes and copies, as the command
`journal trail` shows it; and the events of the journal, as `journal inspect` lists them.
"""

from typing import Any, Final

from starlette.responses import Response

from daybook.console.visits import BAD_REQUEST, Page, Refused, Visit
from daybook.engine.facts.events import BY_NUMBER

EVENTS: Final = 100
TEXTS: Final = ("queue", "address")


async def story(visit: Visit) -> Response:
    """Show the story of a message, or ask which."""
    message = visit.number("message")
    told = await visit.history("story", message=message) if message else None
    return visit.page(
        "story.html", title=f"Story of message {message}" if message else "Story of a message",
        told=told, message=message,
        command=visit.journal("trail", str(visit.broker.directory), str(message)) if told else "",
    )  # fmt: skip


async def drawing(visit: Visit) -> Response:
    """Return the picture of a story."""
    message = visit.number("message")
    if not message:
        raise Refused(BAD_REQUEST, "name a message, by its id")
    text = await visit.history("drawing", message=message)
    # An image of a page runs nothing, and neither does this alone, by the policy of the console.
    return Response(text, media_type="image/svg+xml")


async def events(visit: Visit) -> Response:
    """Show events of the journal that fit a question."""
    question: dict[str, Any] = {name: visit.query.get(name, "") for name in TEXTS}
    question["from_lsn"] = max(1, visit.number("from", 1))
    if visit.at:
        question["to_lsn"] = visit.at
    question["message"] = visit.number("message")
    question["connection"] = visit.number("connection")
    kinds = [each for each in visit.query.getlist("kind") if each]
    if kinds:
        question["kinds"] = kinds
    told = await visit.history("events", question=question, limit=EVENTS)
    return visit.page(
        "events.html", title="Events", told=told, question=question, chosen=kinds,
        kinds=sorted(each.name for each in BY_NUMBER.values()),
        command=_command(visit, question, kinds),
    )  # fmt: skip


def _command(visit: Visit, question: dict[str, Any], kinds: list[str]) -> str:
    words: list[str] = []
    for name, flag in (("queue", "--queue"), ("address", "--address"), ("message", "--message"),
                       ("connection", "--connection"), ("from_lsn", "--from")):  # fmt: skip
        if question[name] not in ("", 0, 1):
            words += [flag, str(question[name])]
    if visit.at:
        words += ["--to", str(visit.at)]
    for kind in kinds:
        words += ["--kind", kind]
    return visit.inspect(*words, "--limit", str(EVENTS))


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/story", story, ["GET"]), ("/story.svg", drawing, ["GET"]), ("/events", events, ["GET"]),
)  # fmt: skip
