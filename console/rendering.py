"""Templates, and how values are shown: everything is escaped, and nothing is trusted (ADR 112).

Names, headers and bodies were written by clients. Control and direction characters are shown as
escapes, as on the command line. Must never know requests.
"""

import re
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from daybook.history.trail_drawing import between
from daybook.server.administration.units import cell, heading, unit_of_setting
from daybook.texts import counted, moment, moments_in, printable, span
from daybook.version import VERSION

FOLDER: Final = Path(__file__).resolve().parent
SCALE: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
KIBI: Final = 1024
_MANUAL: Final = re.compile(r"docs/([a-z-]+)\.md")

MENU: Final = (
    ("queue create", "Create a queue"), ("address create", "Create an address"),
    ("divert create", "Create a divert"), ("settings set", "Set settings"),
)  # fmt: skip
"""The commands whose forms are in the menu, and how they are called there."""


def _final(value: Any) -> Any:
    """Return what is put into a page for a value."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def size(count: int | float | None) -> str:
    """Return bytes in a readable unit."""
    if count is None:
        return ""
    left = float(count)
    for unit in SCALE:
        if left < KIBI or unit == SCALE[-1]:
            return f"{left:,.0f} {unit}" if unit == "B" else f"{left:,.1f} {unit}"
        left /= KIBI
    raise AssertionError("the last unit fits")


def when(microseconds: int | None) -> str:
    """Return a time of the journal."""
    return moment(microseconds) if microseconds is not None else ""


def second_of(microseconds: int) -> str:
    """Return a time to the second, in the form of an input for dates and times."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}"


def body(text: str) -> str:
    """Return a text with its lines and tabs; other control characters are shown as escapes."""
    return "\n".join(
        "\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n")
    )


def safe_text(text: str) -> Markup:
    """Return a text that keeps its lines: escaped for HTML, and not changed otherwise."""
    return escape(text)


def full_stop(text: Any) -> str:
    """Return a sentence with one full stop at its end, whether it has one or not."""
    return f"{str(text).rstrip('. ')}."


def linked(text: str, pages: Container[str], url: str) -> Markup:
    """Return a text in which the names of pages of the documentation lead to them, under a URL, as
    far as they are here."""

    def link(found: re.Match[str]) -> str:
        there = found[1] in pages
        return f'<a href="{escape(url)}/{found[1]}">{found[0]}</a>' if there else found[0]

    # The links are of the text that is escaped; a name of a page has nothing to escape.
    return Markup(_MANUAL.sub(link, str(escape(printable(text)))))


def query(**parts: Any) -> str:
    """Return the query of a link, without what is empty."""
    found = {key: value for key, value in parts.items() if value not in (None, "", 0, False)}
    return f"?{urlencode(found)}" if found else ""


def event(name: str, text: str = "") -> bytes:
    """Return a server-sent event; `over` ends a stream."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=_final, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "cell": cell, "size": size, "span": span, "when": when, "heading": heading, "body": body,
        "counted": counted, "full_stop": full_stop, "linked": linked,
        "safe_text": safe_text, "second": second_of, "path": lambda text: quote(text, safe=""),
    }  # fmt: skip
    made.globals |= {
        "query": query, "version": VERSION, "between": between, "unit_of_setting": unit_of_setting,
        "menu": MENU, "moments_in": moments_in,
    }  # fmt: skip
    return made


_templates: Final = _environment()


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return _templates.get_template(template).render(**values)
