"""Forms: a page for each command that changes something, made of the fields of its request.

A form is filled in, then shown again with the command and what it concerns, and carried out when
that is confirmed. The broker judges and journals it, by the user's rights and name.
"""

from typing import Any, Final, get_args, get_origin

import msgspec
from starlette.responses import Response

from daybook.client.control import ControlError
from daybook.console.pages.lists import command, place_of
from daybook.console.visits import (
    BAD_REQUEST,
    DIGITS_MAX,
    FORBIDDEN,
    NOT_FOUND,
    Page,
    Refused,
    Visit,
    checked_form,
)
from daybook.engine.facts.definitions import Attribute
from daybook.server.administration.request_rows import Argument, Attributes, Option
from daybook.server.administration.ways import (
    Found,
    Mark,
    done,
    every_way,
    marks_of,
    passed_over,
    way_of,
)

GROUPS: Final = ("queue", "address", "divert", "settings", "connection")


class Field(msgspec.Struct, frozen=True):
    """A field of a form: its name, the widget that shows it, and what it may have."""

    name: str
    widget: str
    label: str
    help: str = ""
    choices: tuple[str, ...] = ()
    default: Any = ""
    is_required: bool = False
    least: int | None = None
    most: int | None = None


def fields_of(found: Found) -> list[Field]:
    """Return the fields of a form."""
    told: list[Field] = []
    for name, (kind, mark) in marks_of(found.row, found.way).items():
        if name in found.way.fixed:
            continue
        if isinstance(mark, Attributes):
            told += [_field(each, str, its) for each, its in mark.more.items()]
            told += [_attribute(each, mark.definition is None) for each in mark.attributes]
        else:
            told.append(_field(name, kind, mark))
    return told


def _field(name: str, kind: Any, mark: Mark) -> Field:
    assert isinstance(mark, Argument | Option)
    label = name.replace("_", " ")
    if isinstance(mark, Argument):
        is_many = get_origin(kind) in (tuple, dict)
        hint = "one KEY=VALUE in each line" if get_origin(kind) is dict else "one in each line"
        return Field(
            name, "lines" if is_many else "number" if kind is int else "text", label,
            hint if is_many else "", is_required=not mark.metavar.startswith("["),
            least=mark.least if kind is int else None, most=mark.most,
        )  # fmt: skip
    widget = "check" if kind is bool else "number" if int in (kind, *get_args(kind)) else "text"
    if mark.choices:
        widget = "choices" if get_origin(kind) is tuple else "choice"
    return Field(name, widget, label, mark.doc, mark.choices, is_required=mark.is_required)


def _attribute(attribute: Attribute, is_change: bool) -> Field:
    """Return the field of an attribute; in a change, what is left empty stays as it is."""
    default = "" if is_change or attribute.default is None else attribute.default
    kinds = {bool: "switch" if is_change else "check", int: "number", tuple: "lines"}
    widget = "choice" if attribute.choices else kinds.get(attribute.kind, "text")
    return Field(
        attribute.field, widget, attribute.key, attribute.doc, attribute.choices,
        "" if isinstance(default, tuple) else default, least=attribute.least,
    )  # fmt: skip


def request_in(found: Found, given: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the request in the fields of a form. Raises ValueError with what would be right."""
    texts = {name: [value for each, value in given if each == name] for name, _ in given}
    for field in fields_of(found):
        if field.is_required and not "".join(texts.get(field.name, [])).strip():
            raise ValueError(f"{field.label} is needed")
    asked: dict[str, Any] = {"do": found.tag} | found.way.fixed
    for name, (kind, mark) in marks_of(found.row, found.way).items():
        if name in found.way.fixed:
            continue
        if isinstance(mark, Attributes):
            asked[name] = _attributes_in(mark, texts)
            continue
        value = _value(kind, texts.get(name, []))
        if value not in ("", (), {}):
            asked[name] = value
    try:
        whole = msgspec.convert(asked, found.row, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    told: dict[str, Any] = msgspec.to_builtins(whole)
    way = found.way
    if way.one_of and not any(told.get(each) for each in way.one_of):
        raise ValueError(way.missing or f"one of {', '.join(way.one_of)} is needed")
    if way.either and all(told.get(each) for each in way.either):
        raise ValueError(f"{' and '.join(way.either)} exclude each other")
    return told


def _attributes_in(mark: Attributes, texts: dict[str, list[str]]) -> dict[str, Any]:
    told: dict[str, Any] = {name: texts.get(name, [""])[-1].strip() for name in mark.more}
    is_change = mark.definition is None
    for each in mark.attributes:
        value = _value(each.kind, texts.get(each.field, []))
        if each.kind is bool and not is_change:
            told[each.field] = value == "yes"
        elif value not in ("", ()):
            told[each.field] = _attribute_value(each, value)
    if is_change and not told:
        raise ValueError("name at least one attribute; what is left empty stays as it is")
    return told


def _attribute_value(attribute: Attribute, value: Any) -> Any:
    """Return the value of an attribute in its type. Raises ValueError."""
    if attribute.kind is bool:
        return value == "yes"
    if attribute.kind is int:
        try:
            return int(value if len(value) <= DIGITS_MAX else "too long")
        except ValueError:
            text = f"{attribute.key} must be a whole number, and is '{value[:40]}'"
            raise ValueError(text) from None
    return value


def _value(kind: Any, given: list[str]) -> Any:
    """Return the value of a field, still as text where it is one."""
    origin = get_origin(kind)
    if origin is dict:
        return dict(_pair(line) for line in _lines(given))
    if origin is tuple or kind is tuple:
        return tuple(_lines(given))
    text = given[-1].strip() if given else ""
    return text.replace(",", "") if kind is int else text


def _lines(given: list[str]) -> list[str]:
    return [line.strip() for each in given for line in each.splitlines() if line.strip()]


def _pair(line: str) -> tuple[str, str]:
    key, sign, value = line.partition("=")
    if not sign:
        raise ValueError(f"'{line[:100]}' is not KEY=VALUE")
    return key.strip(), value.strip()


def forms_of(group: str) -> list[Found]:
    """Return the commands of a group that change something and are made from the table."""
    return [
        found
        for found in every_way()
        if found.way.command.startswith(f"{group} ") and found.way.table is None and found.way.done
    ]


def _found(visit: Visit) -> Found:
    path = visit.request.path_params
    found = way_of(f"{path['group']} {path['name']}")
    if found is None or found.way.table is not None or not found.way.done:
        raise Refused(NOT_FOUND, "there is no such command; `daybook --help` lists all")
    if visit.at:
        raise Refused(BAD_REQUEST, "the past cannot be changed; go back to now first")
    return found


async def form(visit: Visit) -> Response:
    """Show an empty form, or one with what a link says."""
    found = _found(visit)
    return _form_page(visit, found, [*visit.query.multi_items()])


def _form_page(
    visit: Visit, found: Found, given: list[tuple[str, str]], *, why: str = "", code: int = 200
) -> Response:
    texts: dict[str, list[str]] = {}
    for name, value in given:
        texts.setdefault(name, []).append(value)
    return visit.page(
        "form.html", title=f"{found.way.command.capitalize()}", code=code, found=found,
        fields=fields_of(found), texts=texts, why=why, place=place_of(found.row),
        help=(found.way.doc or found.row.__doc__ or "").strip(),
    )  # fmt: skip


async def submit(visit: Visit) -> Response:
    """Show what a form will do, or do it when that is confirmed."""
    found = _found(visit)
    given = await checked_form(visit)
    is_confirmed = ("confirmed", "yes") in given
    given = [(name, value) for name, value in given if name != "confirmed"]
    try:
        asked = request_in(found, given)
    except ValueError as error:
        return _form_page(visit, found, given, why=str(error), code=BAD_REQUEST)
    line = command(visit, found.way, asked)
    if not is_confirmed:
        return visit.page(
            "confirm.html", title=f"{found.way.command.capitalize()}?", found=found, given=given,
            asked=asked, command=line, concerns=await _concerned(visit, asked),
        )  # fmt: skip
    try:
        answer = await visit.broker.change(visit.identity, asked)
    except ControlError as error:
        code = FORBIDDEN if error.code == "not-allowed" else BAD_REQUEST
        return _form_page(visit, found, given, why=str(error), code=code)
    if found.way.nothing and not answer["closed"]:
        return _form_page(visit, found, given, why=found.way.nothing, code=BAD_REQUEST)
    return visit.page(
        "done.html", title="Done", sentence=done(found.way, asked, answer), found=found,
        notes=passed_over(answer), command=line, answer=answer, asked=asked,
        place=place_of(found.row),
    )  # fmt: skip


async def _concerned(visit: Visit, asked: dict[str, Any]) -> str:
    """Return how many messages the queue has that is concerned, "" if none is."""
    name = asked.get("queue", "")
    if not name:
        return ""
    try:
        [row] = (await visit.look({"do": "queue", "queue": name}))["queues"]
    except ControlError:
        # There is no such queue, or it may be changed but not looked at: the broker says which.
        return ""
    return f"queue {name} has {row['messages']:,} messages, {row['in_flight']:,} in flight"


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/do/{group}/{name}", form, ["GET"]), ("/do/{group}/{name}", submit, ["POST"]),
)  # fmt: skip
