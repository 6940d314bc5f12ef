"""Times, names and bodies as text that a terminal or a JSON reader can take."""

from base64 import b64encode
from datetime import UTC, datetime


def moment(microseconds: int) -> str:
    """A time of the journal as text: UTC, to the microsecond."""
    try:
        when = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{microseconds}us"
    return f"{when:%Y-%m-%d %H:%M:%S}.{microseconds % 1_000_000:06d}"


def printable(text: str) -> str:
    """The text with escapes for what is no character: peers choose names, terminals obey them."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def body_fields(body: bytes) -> dict[str, str]:
    """A body as JSON can hold it: `body` if it is text, else `body_base64`."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode("ascii")}
