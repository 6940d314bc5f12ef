"""Describing an event: as a line for people, as an object for programs.

Derived from the table of events: which columns a kind fills, what its reasons mean, which fields
its detail has. A kind that is added to the table is shown without a change here.
"""

from base64 import b64encode
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from daybook.engine.facts import details, events
from daybook.engine.facts.events import (
    ADDRESS,
    BY_NUMBER,
    COLUMNS,
    CONNECTION,
    CONSUMER,
    DELIVERY_COUNT,
    FLAGS,
    FORMAT,
    KIND,
    MESSAGE,
    PERSISTENT,
    PRIORITY,
    QUEUE,
    REASON,
    RELATED,
    TIME,
    Row,
)
from daybook.engine.facts.formats import LINES, number_of
from daybook.engine.facts.kinds import OF_LINKS, REFUSALS, WITH_CHUNKS
from daybook.engine.facts.reasons import REASONS
from daybook.engine.messages.annotations import readable
from daybook.engine.messages.content import UnknownFormat, View, codec_of, is_known
from daybook.engine.messages.headers import as_dict
from daybook.engine.messages.message import DEFAULT_PRIORITY
from daybook.history.names import Names
from daybook.history.replays.fate_words import REPLAY_OF
from daybook.history.scan import Event
from daybook.recovery.signing.redaction import NOTHING, Redaction
from daybook.texts import (
    body_fields,
    counted,
    moment,
    moments_in,
    printable,
    without_redacted,
)

TOLD_APART: Final = frozenset({"queues", "chunks", "body_bytes", "omitted_bytes", "link"})
"""Fields of details that are described separately."""

NAMED_BY_COLUMNS: Final = frozenset({"name", "host", "owner", "user", "peer", "subscription"})
"""Fields of details that the phrases for columns contain already."""

CRASHED: Final = "the broker before did not stop: it was killed, or the machine failed"
"""The words about a start after a crash, wherever it is described (`history.changes`)."""

CAME_FROM: Final = "came_from"
"""The field of details that says what a message was on another broker."""


def came_from_words(stop: str) -> str:
    """Return which message of which data directory a message was before."""
    data_id, message, _ = (*stop.split("/"), "", "")[:3]
    return f"came from message {message} of the data directory {data_id}"


def kind_name(kind: int) -> str:
    """Name of a kind; its number if this version does not know it."""
    known = BY_NUMBER.get(kind)
    return known.name if known is not None else f"kind {kind}"


def reason_name(reason: int) -> str:
    """Name of a reason; its number if this version does not know it."""
    return REASONS[reason][0] if reason in REASONS else f"reason {reason}"


def who(row: Row, names: Names) -> str:
    """Return whom an event is about: the consumer and its connection, or the connection, or
    nobody."""
    words = []
    if row[CONSUMER] and row[KIND] in OF_LINKS:
        name = names.connections.get(row[CONNECTION])
        label = f"connection {row[CONNECTION]}"
        peer = f"{name} ({label})" if name else label
        # A message comes from another peer than it goes to.
        return peer if row[KIND] == events.FORWARDED else f"link {row[CONSUMER]} of {peer}"
    if row[CONSUMER]:
        subscription = names.consumers.get(row[CONSUMER])
        label = f" (subscription '{subscription}')" if subscription else ""
        words.append(f"consumer {row[CONSUMER]}{label}")
        name = names.connections.get(row[CONNECTION])
        words += [name] if name else []
    elif row[CONNECTION]:
        name = names.connections.get(row[CONNECTION])
        label = f"connection {row[CONNECTION]}"
        words.append(f"{name} ({label})" if name else label)
    return " of ".join(words)


def detail_of(event: Event) -> dict[str, Any]:
    """Return the fields of the detail that differ from their default."""
    known = BY_NUMBER.get(event.row[KIND])
    if known is None or known.detail is None:
        return {}
    decoded = events.decode_detail(event.row[KIND], event.detail)
    fields: dict[str, Any] = msgspec.to_builtins(readable(decoded))
    return fields


def sentence(
    event: Event,
    names: Names,
    redacted: Redaction = NOTHING,
    before: dict[str, Any] | None = None,
    *,
    is_crash: bool = False,
) -> str:
    """Return what happened as a sentence, without LSN, time and kind.

    `redacted` says what an export is without. `before` has the values that an event changed, by
    the fields of its detail (`history.changes.Former`); without them all values are shown.
    `is_crash` says that a start follows a crash (`history.changes.is_after_a_crash`).
    """
    row = event.row
    detail = detail_of(event)
    extras = _extras(row, event, detail, redacted) if before is None else _changes(event, before)
    parts = [*_places(row, detail, names), *extras]
    text = ", ".join(parts)
    reason = _because(row)
    if reason:
        text = f"{text}: {reason}" if text else reason
    return printable(f"{text}; {CRASHED}" if is_crash else text)


def _because(row: Row) -> str:
    """Return the reason in words. Words about attempts are used only for deliveries."""
    if not row[REASON]:
        return ""
    words = REASONS[row[REASON]][1] if row[REASON] in REASONS else reason_name(row[REASON])
    known = BY_NUMBER.get(row[KIND])
    if known is not None and "delivery_count" not in known.columns:
        words = words.partition(";")[0]
    return words


def _places(row: Row, detail: dict[str, Any], names: Names) -> list[str]:
    """Describe the columns: message, attempt, queue or address, peer, other message."""
    parts = []
    if row[MESSAGE]:
        parts.append(f"message {row[MESSAGE]}")
    if row[DELIVERY_COUNT]:
        parts.append(f"attempt {row[DELIVERY_COUNT]}")
    queues = [row[QUEUE]] if row[QUEUE] else list(detail.get("queues", ()))
    if queues:
        listed = ", ".join(f"'{names.queue(queue)}'" for queue in queues)
        parts.append(f"{'queue' if len(queues) == 1 else 'queues'} {listed}")
    if row[ADDRESS] and [names.queue(queue) for queue in queues] != [names.address(row[ADDRESS])]:
        parts.append(f"address '{names.address(row[ADDRESS])}'")
    if row[KIND] == events.FORWARDED and row[CONSUMER]:
        parts.append(f"to link {row[CONSUMER]}")
    if who(row, names):
        parts.append(who(row, names))
    known = events.BY_NUMBER.get(row[KIND])
    if row[KIND] == events.FORWARDED and detail.get("link"):
        parts.append(f"by the link of event {detail['link']}")
        parts.append(f"which took message {row[RELATED]} from the queue")
    elif row[RELATED] and known is not None and known.related:
        parts.append(f"{known.related} {row[RELATED]}")
    elif row[RELATED]:
        origin = row[RELATED] < row[MESSAGE]
        parts.append(f"{'made from' if origin else 'went on as'} message {row[RELATED]}")
    return parts


def _extras(row: Row, event: Event, detail: dict[str, Any], redacted: Redaction) -> list[str]:
    """Describe the heaps: sizes, and the fields of the detail."""
    parts = []
    if row[KIND] in WITH_CHUNKS:
        parts.append(_size(event, detail, redacted))
        if detail.get("chunks"):
            parts.append(_chunks(detail["chunks"]))
        if row[PRIORITY] != DEFAULT_PRIORITY:
            parts.append(f"priority {row[PRIORITY]}")
    if row[KIND] == events.CHUNK_RECEIVED:
        redacted_body = "bodies" in _left_out(event, redacted)
        parts.append("body redacted" if redacted_body else counted(event.body_bytes, "byte"))
    known = BY_NUMBER.get(row[KIND])
    has_flags = known is None or "flags" in known.columns
    if row[MESSAGE] and has_flags and not row[FLAGS] & PERSISTENT:
        parts.append("not persistent")
    if row[KIND] == events.ADMINISTERED:
        return [*parts, _asked(detail)]
    for name, value in detail.items():
        if name in ("expires", "due"):
            parts.append(f"{name} {moment(value * 1000)}")
        elif name == CAME_FROM:
            parts.append(came_from_words(value))
        elif name == "origin":
            parts.append(_origin(value))
        elif row[KIND] == events.SETTINGS_CHANGED and isinstance(value, dict):
            parts += _settings(name, value)
        elif name not in TOLD_APART and not _is_named(row, name):
            parts.append(_field(name, value))
    if event.headers and row[FLAGS] & FORMAT != LINES:
        parts.append(_format(row[FLAGS]))
    if row[KIND] in REFUSALS:
        parts.append(f"{detail.get('user') or '?'} from {detail.get('peer') or '?'}")
    return parts


def _changes(event: Event, before: dict[str, Any]) -> Iterator[str]:
    """Describe a change by the old and the new value of each attribute or setting."""
    decoded = events.decode_detail(event.row[KIND], event.detail)
    after: dict[str, Any] = {name: getattr(decoded, name) for name in changed_by(decoded)}
    for name in SETTINGS:
        yield from _changed_settings(name, before.get(name, {}), after.pop(name, {}))
    for name, value in after.items():
        if name not in before or before[name] != value:
            yield f"{name.replace('_', ' ')} {_value(before.get(name))} -> {_value(value)}"
    if getattr(decoded, "deleting", False):
        yield "deleting"


SETTINGS: Final = ("settings", "live")
"""The fields of details that have settings by match and key."""
_CHANGED_BY_DEFAULT: Final[dict[type, tuple[str, ...]]] = {
    details.AddressDetail: ("routing_types",), details.QueueDetail: ("routing_type", "filter"),
    details.SettingsDetail: (*SETTINGS, "journal_non_persistent", "syntax"),
}  # fmt: skip
"""The fields that details change if they do not list any."""


def changed_by(detail: Any) -> tuple[str, ...]:
    """Return the fields of the detail of a change that have new values."""
    if getattr(detail, "deleting", False):
        return ()
    return getattr(detail, "changed", ()) or _CHANGED_BY_DEFAULT.get(type(detail), ())


def _changed_settings(name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    origin = " at run time" if name == "live" else ""
    for match in sorted({*before, *after}):
        old, new = before.get(match, {}), after.get(match, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield f"{match}{origin}: {key} {_value(old.get(key))} -> {_value(new.get(key))}"


def _value(value: Any) -> str:
    """Return one of two values."""
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value)) or "(none)"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _is_named(row: Row, name: str) -> bool:
    """Whether the phrase for a column has a field of the detail already."""
    if name == "client_id":
        return row[KIND] == events.CONNECTION_OPENED
    # Diverts have a name, and no column of their own.
    return name in NAMED_BY_COLUMNS and (name != "name" or bool(row[QUEUE] or row[ADDRESS]))


def _settings(name: str, matches: dict[str, Any]) -> Iterator[str]:
    """Describe the settings of each match."""
    origin = " at run time" if name == "live" else ""
    for match, values in matches.items():
        yield f"{match}{origin} ({', '.join(_asked_fields(values)) or 'nothing'})"


def _asked(detail: dict[str, Any]) -> str:
    """Describe the request of an administrator by its name and the fields that are set."""
    by, text = detail.get("by", "?"), detail.get("request", "")
    try:
        request = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        # A long one was cut.
        return f"{by} asked: {text}"
    what = str(request.pop("do", "?")).replace("-", " ")
    fields = ", ".join(_asked_fields(request))
    return f"{by} asked: {what}" + (f" ({fields})" if fields else "")


def _asked_fields(request: dict[str, Any]) -> Iterator[str]:
    for key, value in request.items():
        if isinstance(value, dict):
            yield from _asked_fields(value)
        elif value is True:
            yield key.replace("_", " ")
        elif value not in (None, "", 0, -1, [], False):
            many = isinstance(value, list)
            shown = " and ".join(map(str, value)) if many else str(value)
            times = ", ".join(f"{each} is {at}" for each, at in moments_in(shown).items())
            yield f"{key.replace('_', ' ')} {shown}" + (f" ({times})" if times else "")


def _size(event: Event, detail: dict[str, Any], redacted: Redaction) -> str:
    """Describe the size of headers and body, or what is known of it."""
    if "omitted_bytes" in detail:
        return f"{counted(detail['omitted_bytes'], 'byte')}, not journaled"
    body_bytes = detail.get("body_bytes", event.body_bytes)
    left_out = _left_out(event, redacted)
    if not left_out:
        return counted(len(event.headers) + body_bytes, "byte")
    known = "bodies" not in left_out or "body_bytes" in detail
    size = f"a body of {counted(body_bytes, 'byte')}, " if known else ""
    return f"{size}{' and '.join(sorted(left_out))} redacted"


def _left_out(event: Event, redacted: Redaction) -> Collection[str]:
    """Return what an export is without of the content that an event had."""
    row = event.row
    has_content = row[KIND] in WITH_CHUNKS or row[KIND] == events.CHUNK_RECEIVED
    if row[FLAGS] & events.BODY_OMITTED or not has_content:
        return ()
    return redacted.of(row[ADDRESS], is_large=bool(row[FLAGS] & events.LARGE))


def _format(flags: int) -> str:
    """Describe the format of headers."""
    if is_known(flags):
        return f"headers are {codec_of(flags).name}"
    return f"headers in content format {number_of(flags)}, unknown to this version"


def _headers(event: Event) -> dict[str, Any]:
    """Return headers by name; unparsed, if this version does not know their format."""
    flags = event.row[FLAGS]
    if not event.headers:
        return {"headers": {}}
    if is_known(flags):
        return {"headers": as_dict(View(flags, event.headers).lines())}
    return {
        "headers": None,
        "headers_format": number_of(flags),
        "headers_base64": b64encode(event.headers).decode("ascii"),
    }


def _chunks(steps: list[int]) -> str:
    """Describe where the body of a large message is, from the differences in its Routed."""
    first, last = steps[0], sum(steps)
    if len(steps) == 1:
        return f"in chunk {first}"
    return f"in {len(steps)} chunks from {first} to {last}"


def _field(name: str, value: Any) -> str:
    label = name.replace("_", " ")
    if value is True:
        return label
    if isinstance(value, list | tuple):
        shown = (_pairs(each) if isinstance(each, dict) else str(each) for each in value)
        return f"{label} {' and '.join(shown)}"
    if isinstance(value, dict):
        return f"{label} {_pairs(value)}"
    return f"{label} '{value}'" if isinstance(value, str) else f"{label} {value}"


def _pairs(values: dict[Any, Any]) -> str:
    """Describe values by their names, in parentheses."""
    return f"({', '.join(_field(str(name), value) for name, value in values.items())})"


def _origin(origin: dict[str, Any]) -> str:
    """Describe where a copy comes from, with the reason by its name, and the times of deaths."""
    told = dict(origin)
    if "reason" in told:
        told["reason"] = reason_name(told["reason"])
    if "deaths" in told:
        told["deaths"] = [
            each | ({"time": moment(each["time"] * 1000)} if "time" in each else {})
            for each in told["deaths"]
        ]
    return _field("origin", told)


def line(
    event: Event,
    names: Names,
    redacted: Redaction = NOTHING,
    before: dict[str, Any] | None = None,
    *,
    is_crash: bool = False,
) -> str:
    """Return the line of the story for an event; the arguments are those of `sentence`."""
    kind = f"{kind_name(event.row[KIND]):<21}"
    text = sentence(event, names, redacted, before, is_crash=is_crash)
    return f"{event.lsn:>8}  {moment(event.row[TIME])}  {kind} {text}".rstrip()


def skipped_words(first_lsn: int, last_lsn: int) -> str:
    """Return the sentence for `Skipped` events that follow each other."""
    return (
        f"{last_lsn - first_lsn + 1:,} LSNs up to {last_lsn}; the broker before was killed and may "
        "have given them to clients, so nothing else gets them"
    )


def is_equal_request(event: Event, other: Event) -> bool:
    """Whether two events are equal requests of one administrator, like the parts of a retry."""
    return (
        event.row[KIND] == other.row[KIND] == events.ADMINISTERED and event.detail == other.detail
    )


def equal_requests(first: Event, last: Event, number: int) -> str:
    """Return the sentence for so many equal requests, from the first to the last one."""
    ends = (f"event {each.lsn} ({moment(each.row[TIME])})" for each in (first, last))
    asked = printable(_asked(detail_of(first)))
    return f"{asked}; {counted(number, 'equal request')}, from {' to '.join(ends)}"


def as_object(event: Event, names: Names, redacted: Redaction = NOTHING) -> dict[str, Any]:
    """Return everything about an event, for programs; `redacted` as for `sentence`."""
    row = event.row
    columns: dict[str, Any] = {
        column.name: value for column, value in zip(COLUMNS, row, strict=True)
    }
    columns["kind"] = kind_name(row[KIND])
    columns["reason"] = reason_name(row[REASON])
    told: dict[str, Any] = {"lsn": event.lsn, "at": moment(row[TIME]).replace(" ", "T") + "Z"}
    told |= columns
    told["address_name"] = names.address(row[ADDRESS]) if row[ADDRESS] else None
    told["queue_name"] = names.queue(row[QUEUE]) if row[QUEUE] else None
    told["who"] = who(row, names) or None
    told["detail"] = detail_of(event)
    told |= _headers(event)
    told["body_bytes"] = told["detail"].get("body_bytes", event.body_bytes)
    if event.body is not None:
        told |= body_fields(event.body)
    return without_redacted(told, _left_out(event, redacted))


def replayed_from(row: Row, headers: bytes) -> str:
    """Return the original of a replayed message as its header names it, "" for any other."""
    if not headers:
        # There are none, or they were not journaled.
        return ""
    with suppress(UnknownFormat):
        return str(View(row[FLAGS], headers).get(REPLAY_OF) or "")
    return ""


def replay_of(event: Event) -> Iterator[str]:
    """Yield a sentence if an event routed a replayed message."""
    origin = replayed_from(event.row, event.headers) if event.row[KIND] == events.ROUTED else ""
    if origin:
        message, _, data_id = origin.partition("@")
        yield f"a replay of message {message} of data directory {data_id}"
