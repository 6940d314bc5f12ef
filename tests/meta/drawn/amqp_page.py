"""The tables of docs/amqp.md: primitive types, sections, and composite types.

`make map` (python -m tests.meta.drawn.amqp_page) redraws them; a test compares.
"""

from collections.abc import Sequence

from daybook.engine.messages.amqp.composites import Field
from daybook.engine.messages.amqp.constructors import FIXED, TYPES, Constructor, kind_of, width_of
from daybook.engine.messages.amqp.content_codec import FRAMINGS
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTION_COMPOSITES
from daybook.engine.messages.amqp.sections import SECTIONS
from daybook.protocols.amqp.wire.table import COMPOSITES
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table

PAGE = tree.ROOT / "docs" / "amqp.md"


def draw_types() -> str:
    """Return the table of primitive types."""
    rows = [
        (f"`{row.name}`", row.python.__name__, ", ".join(map(_constructor, row.constructors)))
        for row in TYPES
    ]
    return _part(("type", "in Python", "constructors, the shortest one first"), rows)


def _constructor(each: Constructor) -> str:
    width = width_of(each.code)
    if kind_of(each.code) == FIXED:
        size = f"{width} bytes" if width != 1 else "1 byte"
    else:
        size = f"a size of {width} byte{'s' * (width > 1)}"
    return f"`0x{each.code:02x}` {each.label + ', ' if each.label else ''}{size}"


def draw_sections() -> str:
    """Return the table of sections."""
    rows = [
        (f"`0x{each.code:02x}`", each.name, each.type, "any number" if each.may_repeat else "1")
        for each in SECTIONS
    ]
    return _part(("descriptor", "section", "type", "at most"), rows)


def draw_framings() -> str:
    """Return the table of the encodings of bodies that are stored apart."""
    names = {each.code: each.name for each in SECTIONS}
    rows = [
        (str(number), f"`{names[each.section]}`", f"`0x{each.constructor:02x}`",
         "a text" if each.is_text else "bytes")
        for number, each in FRAMINGS.items()
    ]  # fmt: skip
    return _part(("first byte", "section", "constructor", "body"), rows)


def draw_composites() -> str:
    """Return the table of composite types."""
    rows = [
        (f"`0x{row.code:02x}`", f"`{row.symbol}`", ", ".join(map(_field, row.fields)))
        for row in (*COMPOSITES.rows, *SECTION_COMPOSITES.rows)
    ]
    return _part(("descriptor", "symbol", "fields"), rows)


def _field(field: Field) -> str:
    kind = "any" if field.kind.name == "*" else field.kind.name
    words = [field.name, kind if kind != field.name else ""]
    if field.kind.is_multiple:
        words.append("multiple")
    if field.is_mandatory:
        words.append("mandatory")
    if field.default not in (None, ()):
        default = str(field.default).lower() if isinstance(field.default, bool) else field.default
        words.append(f"= {default}")
    return " ".join(filter(None, words))


def _part(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(["", *table(titles, rows), ""])


PARTS = (
    Drawn(PAGE, "types", draw_types),
    Drawn(PAGE, "sections", draw_sections),
    Drawn(PAGE, "framings", draw_framings),
    Drawn(PAGE, "composites", draw_composites),
)

if __name__ == "__main__":
    for part in PARTS:
        part.redraw()
