"""Times, names and bodies as text that is safe for terminals and JSON readers."""

import pwd
import re
from base64 import b64encode
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

SPANS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
"""The units of time spans, and how many seconds each has."""

_TIMES: Final = re.compile(
    r"\b(?:_DAYBOOK_DEATH_TIME|JMSTimestamp|JMSExpiration)\s*(?:[<>]=?|<>|=)\s*([1-9]\d{9,14})\b"
)


def moment(microseconds: int) -> str:
    """Return a time of the journal as text: UTC, to the microsecond."""
    try:
        when = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{microseconds}us"
    return f"{when:%Y-%m-%d %H:%M:%S}.{microseconds % 1_000_000:06d}"


def span(seconds: float) -> str:
    """Return a time span in its two largest units."""
    left = int(seconds)
    told: list[str] = []
    for unit, length in SPANS:
        count, left = divmod(left, length)
        if count or told or length == 1:
            told.append(f"{count} {unit}")
    return " ".join(told[:2])


def printable(text: str) -> str:
    """Return the text with control characters escaped: peers choose names, and terminals obey
    them."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body in a form for JSON: `body` if it is text, else `body_base64`."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode("ascii")}


def without_redacted(told: dict[str, Any], redacted: Collection[str]) -> dict[str, Any]:
    """Return the description of a message with null for what an export is without.

    `redacted` has names of what was left out, bodies or headers. A size in the detail of an event
    is known in any case.
    """
    if not redacted:
        return told
    known = told.get("detail") or {}
    gone: dict[str, Any] = {"redacted": sorted(redacted)}
    if "bodies" in redacted:
        gone["body_bytes"] = known.get("body_bytes")
        gone |= {each: None for each in ("body", "body_base64") if each in told}
    if "headers" in redacted and "headers" in told:
        gone["headers"] = None
    return told | gone


def user_name(number: int) -> str:
    """Return a user of this machine with its number: `ada (uid 1000)`."""
    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        # A container may have users without names.
        return f"uid {number}"


def moments_in(text: str) -> dict[str, str]:
    """Return the times that a filter compares headers with, in milliseconds since 1970, each with
    its moment in UTC."""
    return {each: moment(int(each) * 1000) for each in _TIMES.findall(text)}


def counted(number: int, thing: str) -> str:
    """Return a number with what it counts: `1 byte`, `2,000 bytes`."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
