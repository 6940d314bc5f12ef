"""Forms: a page for each command that changes something, made of the fields of its request.

A form is filled in, then shown again with the command and what it concerns, and carried out when
that is confirmed. The broker judges and journals it, by the user's rights and name.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args, get_origin
from urllib.parse import urlencode

import msgspec
from starlette.responses import RedirectResponse, Response

from daybook.client.control import ControlError, Unanswered
from daybook.console.pages.lists import command, place_of
from daybook.console.pages.manual import documents
from daybook.console.rendering import MENU
from daybook.console.sessions import Confirmation
from daybook.console.visits import (
    BAD_REQUEST,
    DIGITS_MAX,
    FORBIDDEN,
    NOT_FOUND,
    TARGET_CHARS_MAX,
    UNAVAILABLE,
    UNSENT,
    Page,
    Refused,
    Visit,
    checked_form,
    is_silent,
    status_of,
)
from daybook.engine.core.permission_checks import refusal
from daybook.engine.facts.definitions import Attribute
from daybook.engine.settings.permissions import MANAGE
from daybook.server.administration.request_rows import Argument, Attributes, Option, Request
from daybook.server.administration.ways import (
    Found,
    Mark,
    done,
    every_way,
    is_many,
    lone,
    marks_of,
    passed_over,
    way_of,
    what_is_wrong,
)
from daybook.texts import counted

_FLAG: Final = re.compile(r"--[a-z][a-z-]*")
_COMMAND: Final = re.compile(r"`(?:daybook )?([a-z][a-z -]*)`")
_WHOLE: Final = re.compile(rf"[+-]?[0-9]{{1,{DIGITS_MAX}}}")
TICKED: Final = "yes"
"""What a box sends that is ticked."""
EMPTIED: Final = ".empty"
"""Ends the name of the box that makes a text empty; no field has a dot in its name."""
TABLES: Final = {"queue": "queues", "address": "addresses"}
"""The objects that forms look at, and the key of their row in an answer."""
PLACES: Final = ("queue", "address")
"""The fields that say where a form acts: the first one that it has does."""
PRESETS: Final = {"rate": ("1/s", "10/s", "100/s", "1000/s")}
"""Proposals for fields of free text; people may write anything else."""
CONTENTS: Final = {"queue_count": "queue", "messages": "message", "consumers": "consumer"}
"""What a queue or an address has that may go with it, by the keys of its row."""
CLOSING: Final = "close-connections"
"""The request that closes connections."""
HELD: Final = (
    "messages that they hold return to their queues, or go to the dead letter address if that was"
    " their last attempt"
)
CLIENTS_SAID: Final = 10
"""How many clients the confirmation of a closing describes."""
QUEUES_SAID: Final = 10
"""How many queues it names for each of them."""
DELETIONS: Final = {"delete-queue": "queue", "delete-address": "address"}
"""Requests that the broker refuses for what is in the object, which is the field named here."""


DESTROYS: Final = (
    "queue purge", "queue remove", "queue expire", "queue delete", "address delete",
)  # fmt: skip
"""Commands whose messages do not come back: Enter does not confirm them by itself."""
TO_OTHERS: Final = ("queue move", "queue copy")
"""Commands with another queue, which has to exist."""
DO_IT: Final = "Do it"
"""The button of a confirmation, where the command has no verb that a queue or an address takes."""


CONFLICT: Final = 409
CONFIRM: Final = "/confirm"
"""The end of the path of a question."""
ONCE: Final = "once"
"""The field, and the part of a URL, that says which confirmation is meant; no request has it."""


class Done(msgspec.Struct, frozen=True):
    """What was done, as its page says it: `name` is that of the queue or address, if it is about
    one, `lsn` an event of it; `goes_on` if it has only begun."""

    sentence: str
    notes: tuple[str, ...]
    lsn: int | None
    name: str
    command: str
    goes_on: bool


class Failed(msgspec.Struct, frozen=True):
    """Why something was not done, or perhaps not; `code` is the status of HTTP."""

    why: str
    code: int


class Field(msgspec.Struct, frozen=True):
    """A field of a form: its name, the widget that shows it, and what it may have; `flag` is its
    option on the command line. `empties` stands beside the box that takes the text of an attribute
    away, "" where there is no such box; `presets` are proposed, and not the only ones."""

    name: str
    widget: str
    label: str
    help: str = ""
    choices: tuple[str, ...] = ()
    default: Any = ""
    is_required: bool = False
    least: int | None = None
    most: int | None = None
    flag: str = ""
    empties: str = ""
    presets: tuple[str, ...] = ()


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
        has_lines = get_origin(kind) in (tuple, dict)
        hint = "one KEY=VALUE in each line" if get_origin(kind) is dict else "one in each line"
        return Field(
            name, "lines" if has_lines else "number" if kind is int else "text", label,
            hint if has_lines else "", is_required=not mark.metavar.startswith("["),
            least=mark.least if kind is int else None, most=mark.most,
        )  # fmt: skip
    widget = "check" if kind is bool else "number" if int in (kind, *get_args(kind)) else "text"
    if mark.choices:
        widget = "choices" if get_origin(kind) is tuple else "choice"
    elif is_many(kind):
        widget = "lines"
    return Field(
        name, widget, label, mark.doc, mark.choices, is_required=mark.is_required, flag=mark.flag,
        presets=PRESETS.get(name, ()),
    )  # fmt: skip


def _attribute(attribute: Attribute, is_change: bool) -> Field:
    """Return the field of an attribute; in a change, what is left empty stays as it is."""
    about, empties = attribute.doc, ""
    if is_change and _has_free_text(attribute):
        about, _, empty = about.rstrip(".").partition("; empty: ")
        about, empties = f"{about}.", f"make it empty{': ' * bool(empty)}{empty}"
    default = "" if is_change or attribute.default is None else attribute.default
    kinds = {bool: "switch" if is_change else "check", int: "number", tuple: "lines"}
    widget = "choice" if attribute.choices else kinds.get(attribute.kind, "text")
    return Field(
        attribute.field, widget, attribute.key, about, attribute.choices,
        "" if isinstance(default, tuple) else default, least=attribute.least, empties=empties,
    )  # fmt: skip


def _has_free_text(attribute: Attribute) -> bool:
    return attribute.kind is str and not attribute.choices


def in_words_of_the_form(text: str, found: Found) -> str:
    """Return a text that was written for the command line, with its options as the fields of a
    form, and its commands as pages and buttons."""
    labels = {field.flag: field.label for field in fields_of(found) if field.flag}
    told = _FLAG.sub(lambda flag: f"'{labels[flag[0]]}'" if flag[0] in labels else flag[0], text)
    return _COMMAND.sub(lambda words: _page_of(words[1]) or words[0], told)


def _page_of(command: str) -> str:
    """Return how people find a command here, "" for one that has no page."""
    found = way_of(command) or way_of(f"queue {command}")
    if found is None:
        return ""
    if found.way.table is not None:
        page = f"the page {found.tag.replace('-', ' ').capitalize()}"
        # A list of one object is not in the menu.
        return f"{page} of the queue" if place_of(found.row) else page
    return f"'{found.way.command.partition(' ')[2].replace('-', ' ')}'"


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
        labels = {field.name: field.label for field in fields_of(found)}
        raise ValueError(what_is_wrong(error, lambda name: labels.get(name, name))) from error
    told: dict[str, Any] = msgspec.to_builtins(whole)
    way = found.way
    if way.one_of and not any(told.get(each) for each in way.one_of):
        missing = in_words_of_the_form(way.missing, found)
        raise ValueError(missing or f"one of {', '.join(way.one_of)} is needed")
    if way.either and all(told.get(each) for each in way.either):
        raise ValueError(f"{' and '.join(way.either)} exclude each other")
    flaw = whole.flaw()
    if flaw:
        raise ValueError(flaw)
    return told


def _attributes_in(mark: Attributes, texts: dict[str, list[str]]) -> dict[str, Any]:
    told: dict[str, Any] = {name: texts.get(name, [""])[-1].strip() for name in mark.more}
    is_change = mark.definition is None
    for each in mark.attributes:
        value = _value(each.kind, texts.get(each.field, []))
        if is_change and _has_free_text(each) and TICKED in texts.get(each.field + EMPTIED, []):
            if value:
                raise ValueError(f"{each.key} has a new text, or is made empty, not both")
            told[each.field] = ""
        elif each.kind is bool and not is_change:
            told[each.field] = value == "true"
        elif value not in ("", ()):
            told[each.field] = _attribute_value(each, value)
    if is_change and not told:
        raise ValueError("name at least one attribute; what is left empty stays as it is")
    return told


def _attribute_value(attribute: Attribute, value: Any) -> Any:
    """Return the value of an attribute in its type. Raises ValueError."""
    if attribute.kind is bool:
        return value == "true"
    if attribute.kind is int:
        # `int` also takes digits of other scripts, and lines between digits.
        if _WHOLE.fullmatch(value) is None:
            raise ValueError(f"{attribute.key} must be a whole number, and is '{value[:40]}'")
        return int(value)
    return value


def _value(kind: Any, given: list[str]) -> Any:
    """Return the value of a field, still as text where it is one."""
    origin = get_origin(kind)
    if origin is dict:
        return dict(_pair(line) for line in _lines(given))
    if is_many(kind) or kind is tuple:
        values = tuple(_lines(given))
        return lone(kind, values) if kind is not tuple else values
    text = given[-1].strip() if given else ""
    if kind is bool and text == TICKED:
        return "true"
    return text.replace(",", "") if kind is int else text


def _lines(given: list[str]) -> list[str]:
    return [line.strip() for each in given for line in each.splitlines() if line.strip()]


def _pair(line: str) -> tuple[str, str]:
    key, sign, value = line.partition("=")
    if not sign:
        raise ValueError(f"'{line[:100]}' is not KEY=VALUE")
    return key.strip(), value.strip()


def every_form() -> Iterator[Found]:
    """Yield the ways that have a form."""
    return (found for found in every_way() if _has_form(found))


def _has_form(found: Found) -> bool:
    return found.way.table is None and bool(found.way.done)


def _found(visit: Visit) -> Found:
    path = visit.request.path_params
    found = way_of(f"{path['group']} {path['name']}")
    if found is None or not _has_form(found):
        raise Refused(NOT_FOUND, "there is no such command; `daybook --help` lists all")
    if visit.at:
        raise Refused(BAD_REQUEST, "the past cannot be changed; go back to now first")
    return found


async def _check_right(visit: Visit, found: Found, given: list[tuple[str, str]]) -> None:
    """Refuse a form that the broker would refuse to this user, before anybody fills it in or
    confirms it. The broker judges each form that is sent again. Raises Refused and ControlError."""
    is_everywhere = found.row.place is Request.place
    names = {field.name for field in fields_of(found)} if not is_everywhere else set()
    place = next((each for each in PLACES if each in names), "")
    name = dict(given).get(place, "").strip()
    # A broker that does not run says nothing about rights; the form says that it does not run.
    is_known = await visit.learn(**({place: name} if name else {}))
    if not is_known or visit.may(found.way.command):
        return
    user, needed = visit.identity.user, found.row.named or MANAGE
    if not name:
        where = "for all addresses" if is_everywhere else "for an address"
        raise Refused(
            FORBIDDEN,
            f"user '{user}' may not use `{found.way.command}`; that needs the permission"
            f" '{needed}' {where}, which this user does not have",
        )
    address, queue = name, name if place == "queue" else None
    if queue is not None:
        try:
            [row] = (await visit.look({"do": "queue", "queue": name}))["queues"]
            address, queue = row["address"], row["queue"]
        except ControlError as error:
            # The broker does not say whether the queue exists: neither does the console.
            if error.code == "not-found":
                raise
    raise Refused(FORBIDDEN, refusal(user, needed, address, queue).text)


async def form(visit: Visit) -> Response:
    """Show an empty form, or one with what a link says."""
    found = _found(visit)
    given = [*visit.query.multi_items()]
    await _check_right(visit, found, given)
    if ("chosen", "yes") in given and not any(name == "message" for name, _ in given):
        raise Refused(BAD_REQUEST, "choose at least one message: go back, and tick its box")
    return await _form_page(visit, found, given)


async def _form_page(
    visit: Visit, found: Found, given: list[tuple[str, str]], *, why: str = "", code: int = 200
) -> Response:
    texts: dict[str, list[str]] = {}
    for name, value in given:
        texts.setdefault(name, []).append(value)
    fields = fields_of(found)
    # A broker that did not answer is not asked again.
    now = await _now(visit, found, texts) if code != UNAVAILABLE else {}
    for field in fields:
        if field.widget == "choices" and field.name in now:
            texts.setdefault(field.name, list(now[field.name]))
    return visit.page(
        "form.html", title=_title(found), code=code, found=found, fields=fields, texts=texts,
        now={name: _in_words(value) for name, value in now.items()}, emptied=EMPTIED,
        why=why, place=place_of(found.row), manuals=documents(), action=_path(visit, found),
        help=in_words_of_the_form((found.way.doc or found.row.__doc__ or "").strip(), found),
    )  # fmt: skip


async def _now(visit: Visit, found: Found, texts: dict[str, list[str]]) -> dict[str, Any]:
    """Return what the fields of an update have now, as far as the user may see it."""
    place = place_of(found.row)
    name = texts.get(place, [""])[-1].strip()
    if not found.way.command.endswith(" update") or not name:
        return {}
    row = await _row_of(visit, place, name)
    names = (field.name for field in fields_of(found) if field.name != place)
    return {name: row[name] for name in names if name in row}


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _title(found: Found) -> str:
    """Return the title of a form: that of its place in the menu, if it is there."""
    return dict(MENU).get(found.way.command, found.way.command.capitalize())


def _sentence(found: Found, asked: dict[str, Any], answer: dict[str, Any]) -> str:
    """Return what was done. What goes on is followed on a page, not by a command."""
    way = found.way
    begun = in_words_of_the_form(way.begun, found)
    return done(msgspec.structs.replace(way, begun=begun), asked, answer)


async def submit(visit: Visit) -> Response:
    """Lead to the question what a form will do, or do it when that is confirmed."""
    found = _found(visit)
    given = await checked_form(visit)
    is_confirmed, goes_back = ("confirmed", "yes") in given, ("back", "yes") in given
    token = dict(given).get(ONCE, "")
    given = [(name, value) for name, value in given if name not in ("confirmed", "back", ONCE)]
    if goes_back:
        return _led(visit, found, "", given) or await _form_page(visit, found, given)
    try:
        asked = request_in(found, given)
    except ValueError as error:
        return await _form_page(visit, found, given, why=str(error), code=BAD_REQUEST)
    if not is_confirmed:
        led = _led(visit, found, CONFIRM, given)
        return led or await _question(visit, found, asked, given)
    outcome = await _once(visit, found, asked, visit.session.confirmation(token, visit.broker.name))
    if isinstance(outcome, Failed):
        return await _form_page(visit, found, given, why=outcome.why, code=outcome.code)
    query = urlencode({ONCE: token})
    return RedirectResponse(f"{_path(visit, found)}/done?{query}", 303)


def _path(visit: Visit, found: Found) -> str:
    """Return the path of a form."""
    group, _, name = found.way.command.partition(" ")
    return visit.url(f"do/{group}/{name}")


def _led(
    visit: Visit, found: Found, page: str, given: list[tuple[str, str]]
) -> RedirectResponse | None:
    """Return the way to a page of a form with what was given, so that a browser can go back to it;
    None if that is too long for a URL."""
    target = f"{_path(visit, found)}{page}?{urlencode(given)}"
    return RedirectResponse(target, 303) if len(target) <= TARGET_CHARS_MAX else None


async def question(visit: Visit) -> Response:
    """Show what a form will do, and ask whether to do it."""
    found = _found(visit)
    given = [*visit.query.multi_items()]
    try:
        asked = request_in(found, given)
    except ValueError as error:
        return await _form_page(visit, found, given, why=str(error), code=BAD_REQUEST)
    return await _question(visit, found, asked, given)


async def _question(
    visit: Visit, found: Found, asked: dict[str, Any], given: list[tuple[str, str]]
) -> Response:
    await _check_right(visit, found, given)
    concerns, objection = await _consequences(visit, found, asked)
    return visit.page(
        "confirm.html", title=f"{_title(found)}?", found=found, given=given,
        once=visit.session.new_confirmation(visit.broker.name), action=_path(visit, found),
        said=said_in(fields_of(found), given), command=command(visit, found.way, asked),
        concerns=concerns, objection=objection,
        destroys=found.way.command in DESTROYS, does=label_of(found, asked),
    )  # fmt: skip


def label_of(found: Found, asked: dict[str, Any]) -> str:
    """Return the label of the button that carries out a request: what it does, and with what."""
    group, _, verb = found.way.command.partition(" ")
    name = asked.get(place_of(found.row), "")
    if group not in PLACES or not name or not verb.isalpha() or verb == "priority":
        return DO_IT
    if "message" not in marks_of(found.row, found.way):
        return f"{verb.capitalize()} {group} {name}"
    named = asked.get("message")
    if named:
        return f"{verb.capitalize()} {counted(len(lone_or_many(named)), 'message')}"
    which = "matching messages" if asked.get("filter") else "messages"
    return f"{verb.capitalize()} {which} of queue {name}"


def lone_or_many(named: Any) -> tuple[int, ...]:
    """Return the ids of messages in a request, which has one of them, or some."""
    return tuple(named) if isinstance(named, tuple | list) else (named,)


async def _once(
    visit: Visit, found: Found, asked: dict[str, Any], confirmation: Confirmation | None
) -> "Done | Failed":
    """Carry out what is confirmed, unless that was done before; return the outcome."""
    if confirmation is None:
        return Failed(
            "this question was asked too long ago, and nothing was changed; confirm it again",
            CONFLICT,
        )
    if confirmation.takes():
        outcome: Done | Failed = Failed(
            "the console does not know whether this was carried out; look before you send it again",
            UNAVAILABLE,
        )
        try:
            outcome = await _carry_out(visit, found, asked)
        finally:
            confirmation.end(outcome)
    told: Done | Failed = await confirmation.wait()
    return told


async def _carry_out(visit: Visit, found: Found, asked: dict[str, Any]) -> "Done | Failed":
    try:
        answer = await visit.broker.change(visit.identity, asked)
    except ControlError as error:
        why = str(error)
        if isinstance(error, Unanswered):
            why += "; it may still be carried out, so look before you send this again"
        elif is_silent(error):
            why += f"; {UNSENT}"
        return Failed(why, status_of(error))
    if found.way.nothing and not answer["closed"]:
        return Failed(in_words_of_the_form(found.way.nothing, found), BAD_REQUEST)
    place = place_of(found.row)
    return Done(
        _sentence(found, asked, answer), tuple(passed_over(answer)), answer.get("lsn"),
        asked[place] if place else "", command(visit, found.way, asked),
        bool(answer.get("begun")),
    )  # fmt: skip


async def result(visit: Visit) -> Response:
    """Show what a confirmed form did. To load this page again changes nothing."""
    found = _found(visit)
    token = visit.query.get(ONCE, "")
    confirmation = visit.session.confirmation(token, visit.broker.name)
    outcome = confirmation.outcome if confirmation is not None else None
    if not isinstance(outcome, Done):
        text = "the outcome of this is not kept any more; the page Events has what was changed"
        raise Refused(NOT_FOUND, text)
    return visit.page(
        "done.html", title="Done", done=outcome, found=found, command=outcome.command,
        place=place_of(found.row),
    )  # fmt: skip


def said_in(fields: list[Field], given: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the labels of the fields that differ from an empty form, and what they have."""
    told: list[tuple[str, str]] = []
    for field in fields:
        texts = [value for name, value in given if name == field.name]
        if field.widget == "check":
            default, text = ("yes" if each else "no" for each in (field.default, "yes" in texts))
        else:
            default = str(field.default)
            lines = _lines(texts if field.widget in ("lines", "choices") else texts[-1:])
            text = ", ".join(lines)
        if text not in ("", default):
            told.append((field.label, text))
        if field.empties and (field.name + EMPTIED, TICKED) in given:
            told.append((field.label, "(empty)"))
    return told


async def _consequences(visit: Visit, found: Found, asked: dict[str, Any]) -> tuple[str, str]:
    """Return what a request concerns, and why the broker will not do it as it is now; "" each if
    there is nothing to say."""
    if asked["do"] != CLOSING:
        return await _concerned(visit, asked), await _objection(visit, found, asked)
    try:
        rows = await _closed(visit, asked)
        nobody = "" if rows else in_words_of_the_form(found.way.nothing, found)
        return await _clients(visit, rows), nobody
    except ControlError:
        # The broker judges by other rights whether the user may close them.
        return "", ""


async def _concerned(visit: Visit, asked: dict[str, Any]) -> str:
    """Return which messages are concerned: those that are named, how many match now, or those that
    go with a queue or an address. "" if none are."""
    if asked["do"] in DELETIONS:
        return await _lost(visit, DELETIONS[asked["do"]], asked)
    name = asked.get("queue", "")
    if not name:
        return ""
    named = asked.get("message")
    if named:
        some = lone_or_many(named)
        return f"{counted(len(some), 'message')} of queue {name}: {', '.join(map(str, some))}"
    chosen_by = asked.get("filter", "")
    try:
        told = await visit.look({"do": "count", "queue": name, "filter": chosen_by})
    except ControlError:
        # There is no such queue, or it may be changed but not looked at: the broker says which.
        return ""
    text = _count_in_words(told["counts"][0], chosen_by)
    return f"{text}; {asked['limit']:,} at most are chosen" if asked.get("limit") else text


def _count_in_words(row: dict[str, Any], chosen_by: str) -> str:
    if not chosen_by:
        text = f"queue {row['queue']} has {counted(row['in_queue'], 'message')}"
        return f"{text}, {row['in_flight']:,} in flight"
    verb = "matches" if row["matching"] == 1 else "match"
    text = f"{counted(row['matching'], 'message')} of queue {row['queue']} {verb} now"
    unseen = row["in_queue"] - row["in_flight"] - row["looked_at"]
    if unseen > 0:
        text += f" among the first {row['looked_at']:,}, and perhaps some of {unseen:,} more"
    return f"{text}; {row['in_flight']:,} in flight stay" if row["in_flight"] else text


async def _clients(visit: Visit, rows: list[dict[str, Any]]) -> str:
    """Return which clients lose their connections, as far as the user may see them; "" if none
    does. Raises ControlError."""
    told = [await _client(visit, row) for row in rows[:CLIENTS_SAID]]
    if len(rows) > CLIENTS_SAID:
        told.append(f"and {counted(len(rows) - CLIENTS_SAID, 'connection')} more")
    if any(row["in_flight"] for row in rows):
        told.append(HELD)
    return "; ".join(told)


async def _closed(visit: Visit, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the connections that match all that is given, as the broker chooses
    them."""
    ids, user, peer = frozenset(asked["ids"]), asked["user"], asked["peer"]
    found: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None and not (ids and len(found) == len(ids)):
        told = await visit.look({"do": "connections", "offset": offset, "search": user or ""})
        found += [
            row
            for row in told["connections"]
            if (not ids or row["connection"] in ids)
            and (user is None or row["user"] == user)
            and (peer is None or peer in (row["peer"], row["peer"].rpartition(":")[0]))
        ]
        offset = told["next_offset"]
    return found


async def _client(visit: Visit, row: dict[str, Any]) -> str:
    """Return who a connection belongs to, its queues, and how many messages it holds."""
    links = await visit.look({"do": "links", "connection": row["connection"]})
    queues = list(dict.fromkeys(each["queue"] for each in links["links"] if each["queue"]))
    names = ", ".join(queues[:QUEUES_SAID])
    if len(queues) > QUEUES_SAID:
        names += f" and {len(queues) - QUEUES_SAID:,} more"
    client = f", client id '{row['client_id']}'" if row["client_id"] else ""
    reads = f" consumes from {names} and" if queues else ""
    return (
        f"connection {row['connection']} of user '{row['user']}'{client}, from {row['peer']},"
        f"{reads} holds {counted(row['in_flight'], 'message')}"
    )


async def _lost(visit: Visit, place: str, asked: dict[str, Any]) -> str:
    """Return what goes with a queue or an address that is deleted, "" if nothing does."""
    row = await _row_of(visit, place, asked[place])
    parts = [counted(row[key], what) for key, what in CONTENTS.items() if row.get(key)]
    if not parts:
        return ""
    *others, last = parts
    has = f"{place} {asked[place]} has {', '.join(others)}{' and ' * bool(others)}{last}"
    goes = asked["force"] and not row.get("consumers")
    return f"{has}; everything in it is deleted, too" if goes else has


async def _objection(visit: Visit, found: Found, asked: dict[str, Any]) -> str:
    """Return why the broker will not do this as it is now: there is no such queue, or a queue or an
    address is not deleted with what it has; "" if it may."""
    named = [asked["queue"]] if asked.get("queue") else []
    named += [asked["target"]] if found.way.command in TO_OTHERS else []
    for each in named:
        if missing := await _no_queue(visit, each):
            return missing
    place = DELETIONS.get(asked["do"], "")
    row = await _row_of(visit, place, asked[place]) if place else {}
    if row.get("consumers"):
        verb = "is" if row["consumers"] == 1 else "are"
        return f"its {counted(row['consumers'], 'consumer')} {verb} still there"
    what = "queues" if row.get("queue_count") else "messages" if row.get("messages") else ""
    if not what or asked["force"]:
        return ""
    count = row["queue_count" if what == "queues" else what]
    needs = f"it has {counted(count, what[:-1])}, and is deleted with {what} only by force"
    return f"{needs}; go back, and tick 'force'"


async def _no_queue(visit: Visit, name: str) -> str:
    """Return that there is no such queue, in the words of the broker; "" if there is, or the broker
    does not say."""
    try:
        await visit.look({"do": "queue", "queue": name})
    except ControlError as error:
        return str(error) if error.code == "not-found" else ""
    return ""


async def _row_of(visit: Visit, place: str, name: str) -> dict[str, Any]:
    """Return a queue or an address as it is now; {} if there is none, or the user may not see
    it."""
    try:
        told = await visit.broker.look(visit.identity, {"do": place, place: name})
    except ControlError:
        return {}
    [row] = told[TABLES[place]]
    return dict(row)


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/do/{group}/{name}", form, ["GET"]), ("/do/{group}/{name}", submit, ["POST"]),
    (f"/do/{{group}}/{{name}}{CONFIRM}", question, ["GET"]),
    ("/do/{group}/{name}/done", result, ["GET"]),
)  # fmt: skip
