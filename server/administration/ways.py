"""The ways in which requests are sent, for all that show them: the fields that a way takes, the
sentence about what was done, and the command line that sends the same.

The command line makes its commands from this, and the console its forms (ADR 94, ADR 112). Must
never know how a request is transported, nor a single request.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from daybook.engine.facts.definitions import Attribute
from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.request_rows import (
    COUNTED,
    Answer,
    Argument,
    Attributes,
    Change,
    Fields,
    Option,
    Request,
    Way,
)
from daybook.texts import counted

Mark = Argument | Option | Attributes
PROGRAM: Final = "daybook"
_WRONG: Final = re.compile(
    r"(?:Expected `(?P<kind>\w+)(?: \| \w+)*`(?: (?P<sign>>=|<=) (?P<bound>-?\d+))?"
    r"(?:, got `[^`]*`)?"
    r"|Object missing required field `(?P<missing>\w+)`|(?P<other>.*?))"
    r"(?: - at `\$(?:.*\.)?(?P<field>\w+)(?:\[[^`]*\])*`)?",
    re.DOTALL,
)
"""The words of msgspec about a wrong value, and its place."""
_KINDS: Final = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text",
    "array": "a list", "object": "a list of KEY=VALUE",
}  # fmt: skip
_BOUNDS: Final = {">=": "at least", "<=": "at most"}


class Found(NamedTuple):
    """A way, with the request that it sends."""

    tag: str
    row: type[Request]
    way: Way


def every_way() -> Iterator[Found]:
    """Yield each way of each request."""
    for tag, row in REQUESTS.items():
        for way in row.ways:
            yield Found(tag, row, way)


def way_of(command: str) -> Found | None:
    """Return the way of a command, without the name of the program; None if there is none."""
    return next((found for found in every_way() if found.way.command == command), None)


def marks_of(row: type[Request], way: Way) -> dict[str, tuple[Any, Mark]]:
    """Return the fields that a way takes, with their types and marks."""
    found: dict[str, tuple[Any, Mark]] = {}
    for field, hint in get_type_hints(row, include_extras=True).items():
        for mark in get_args(hint)[1:]:
            if isinstance(mark, Argument | Option | Attributes) and field in (
                way.fields or (field,)
            ):
                found[field] = get_args(hint)[0], mark
    return found


def is_many(kind: Any) -> bool:
    """Whether a field takes several values; one that may also take a single value does."""
    return get_origin(kind) is tuple or any(
        get_origin(get_args(each)[0] if get_origin(each) is Annotated else each) is tuple
        for each in get_args(kind)
    )


def lone(kind: Any, values: Any) -> Any:
    """Return the value of a field that takes several values, or a single one as itself."""
    takes_one = get_origin(kind) is not tuple
    return values[0] if takes_one and len(values) == 1 else values


def done(way: Way, request: Fields, answer: Answer) -> str:
    """Return the sentence about a change that was made, or that was not needed."""
    row = REQUESTS[request["do"]]
    if answer.get("exists"):
        return "it exists already and was not changed"
    if answer.get("lsn") == 0 and issubclass(row, Change) and row.is_idempotent:
        return "already set; nothing changed"
    if answer.get("begun"):
        return way.begun.format_map(request)
    if callable(way.done):
        return way.done(request)
    counts = {what: _count_of(answer.get(what), what) for what in COUNTED}
    for what in ("acted", "messages"):
        counts[what] = counted(answer.get(what, 0), "message")
    counts["closed"] = counted(answer.get("closed", 0), "connection")
    return way.done.format_map(dict(request) | counts)


def _count_of(count: int | None, what: str) -> str:
    if count is None:
        return ""
    if count == 0:
        return COUNTED[what]
    return f": {counted(count, 'message')} {what.replace('_', ' ')}"


def passed_over(answer: Answer) -> list[str]:
    """Return lines about messages with which nothing was done, and why."""
    if not answer.get("passed_over"):
        return []
    were = "it was" if answer["passed_over"] == 1 else "they were"
    # A broker of an earlier version does not say why.
    return [
        f"{counted(answer['passed_over'], 'message')} stayed as {were}",
        *(f"  {counted(count, 'message')}: {why}" for why, count in answer.get("why", {}).items()),
    ]


def command_line(way: Way, request: Fields, *more: str) -> str:
    """Return the command that sends a request; `more` are words behind it."""
    words = [PROGRAM, *way.command.split()]
    behind: list[str] = []
    for field, (kind, mark) in marks_of(REQUESTS[request["do"]], way).items():
        value = request.get(field)
        if value in (None, "", (), [], {}, False) or field in way.fixed:
            continue
        if isinstance(mark, Attributes):
            words += _attribute_words(mark, value, behind)
        elif isinstance(mark, Argument):
            behind += _argument_words(kind, value)
        else:
            words += _option_words(mark, kind, value)
    # An argument could begin like an option.
    behind = ["--", *behind] if any(word.startswith("-") for word in behind) else behind
    return shlex.join([*words, *more, *behind])


def _argument_words(kind: Any, value: Any) -> list[str]:
    if get_origin(kind) is dict:
        return [f"{key}={each}" for key, each in value.items()]
    return [str(each) for each in value] if get_origin(kind) is tuple else [str(value)]


def _option_words(mark: Option, kind: Any, value: Any) -> list[str]:
    if kind is bool:
        return [mark.flag]
    values = value if isinstance(value, list | tuple) else (value,)
    return [word for each in values for word in (mark.flag, str(each))]


def _attribute_words(mark: Attributes, value: Fields, behind: list[str]) -> list[str]:
    """Return the options for attributes that differ from their default; arguments go behind."""
    words: list[str] = []
    for field, each in mark.more.items():
        if isinstance(each, Argument):
            behind.append(str(value.get(field, "")))
        else:
            words += [each.flag, str(value.get(field, ""))]
    for attribute in mark.attributes:
        if attribute.field in value and _is_said(mark, attribute, value[attribute.field]):
            words += _words_of(attribute, value[attribute.field])
    return words


def _is_said(mark: Attributes, attribute: Attribute, value: Any) -> bool:
    return mark.definition is None or value != attribute.default


def _words_of(attribute: Attribute, value: Any) -> list[str]:
    if attribute.kind is bool:
        return [f"--{attribute.key}" if value else f"--not-{attribute.key}"]
    values = value if isinstance(value, list | tuple) else (value,)
    return [word for each in values for word in (f"--{attribute.key}", str(each))]


def what_is_wrong(error: msgspec.ValidationError, label_of: Callable[[str], str]) -> str:
    """Describe the wrong field of a request; `label_of` returns the name of a field where it was
    filled in."""
    found = _WRONG.fullmatch(str(error))
    if found is None:
        return str(error)
    label = label_of(found["field"] or found["missing"] or "the request")
    if found["missing"]:
        return f"{label} is needed"
    if found["bound"]:
        return f"{label} must be {_BOUNDS[found['sign']]} {int(found['bound']):,}"
    if found["kind"] in _KINDS:
        return f"{label} must be {_KINDS[found['kind']]}"
    return f"{label} is wrong: {found['other'] or found['kind']}"
