"""The page docs/events.md, drawn from the one table of events.

`make map` (python -m tests.meta.drawn.events_page) redraws it; a test compares.
"""

from collections.abc import Sequence

from daybook.engine.facts import events, life, reasons
from daybook.engine.facts.formats import number_of
from daybook.engine.messages import content
from daybook.engine.messages.conversions import CONVERSIONS
from tests.meta import tree
from tests.support.models import transitions

PAGE = tree.ROOT / "docs" / "events.md"

INTRODUCTION = """\
# Events

Every decision of the broker is one of these events. This page is drawn from the table in
`engine/facts/events.py` by `make map`; numbers and columns never change, details grow by optional
fields.

An event is a row of integers, a *detail* (msgpack map, absent fields have their default), *headers*
(in the [format](#formats-of-headers) that the flags name) and a *body*. Its LSN is its position in
the journal. How these bytes are stored is in [journal-format.md](journal-format.md).
"""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return lines


def meaning(event: events.EventType) -> str:
    """Return the effect of an event on an entry, or on its subject."""
    if event.life is not None:
        before = " or ".join(event.life.before)
        return f"an entry {event.life.word}: {before} → {event.life.after}"
    return f"{event.subject} {event.change}".strip()


def diagram() -> list[str]:
    """Return the lines of a Mermaid diagram of all transitions, and the table of them."""
    names = {place: place.replace(" ", "_") for place in transitions.PLACES}
    arrows = ["stateDiagram-v2", f"    [*] --> {names[life.READY]}: Routed"]
    rows: list[tuple[str, ...]] = []
    for (place, given), (after, kinds) in transitions.TRANSITIONS.items():
        shown = ", ".join(events.BY_NUMBER[kind].name for kind in kinds)
        arrows.append(f"    {names[place]} --> {names[after]}: {shown or 'BrokerStarted'}")
        told = ", ".join(f"`{events.BY_NUMBER[kind].name}`" for kind in kinds)
        rows.append((place, given, after, told or "none of its own: `BrokerStarted`"))
    arrows = list(dict.fromkeys(arrows))
    arrows.append(f"    {names[life.GONE]} --> [*]")
    head = ("where it is", "what happens", "where it is then", "events")
    return ["```mermaid", *arrows, "```", "", *table(head, rows)]


def formats() -> list[tuple[str, ...]]:
    """Return the formats of headers that there are."""
    return [
        (str(number_of(codec.flags)), str(codec.flags), codec.name)
        for codec in content.CODECS.values()
    ]


def values() -> list[tuple[str, ...]]:
    """The rows of the table of types."""
    rows: list[tuple[str, ...]] = []
    for each in CONVERSIONS:
        text, plain = each.text(each.example), each.plain(each.example)
        shown = "unknown" if plain is None else f"{type(plain).__name__} `{plain!r}`"
        rows.append((each.amqp, f"`{text}`" if text else "empty", shown))
    return rows


def types_of_values() -> list[str]:
    """The part about types of values."""
    return [
        "## Types of values",
        "",
        "Properties, and bodies where the format says so, have the types of AMQP 1.0. Headers of",
        "another format, catalogs and SQL have them as text, the ids of senders included. Filters",
        "compare them as numbers, texts, bytes or truth values, and know nothing of lists and",
        "maps. A client that does not know the format gets such a body as its text in UTF-8, and",
        "bytes as they are; a large body always leaves as it arrived.",
        "",
        *table(("AMQP 1.0", "an example as text", "in a filter"), values()),
        "",
    ]


def draw() -> str:
    """Return the page."""
    columns = [
        (f"`{column.name}`", f"`{column.code}`", str(column.offset), column.doc)
        for column in events.COLUMNS
    ]
    kinds = [
        (
            str(event.number),
            f"`{event.name}`",
            event.doc,
            meaning(event),
            ", ".join(f"`{name}`" for name in event.columns),
            ", ".join(f"`{name}`" for name in event.detail.__struct_fields__)
            if event.detail
            else "",
        )
        for event in events.EVENT_TYPES
    ]
    listed = [
        (str(number), f"`{name}`" if name else "", doc)
        for number, (name, doc) in reasons.REASONS.items()
    ]
    return "\n".join(
        [
            INTRODUCTION,
            "## Columns",
            "",
            *table(("column", "type", "offset", "what it holds"), columns),
            "",
            "## Kinds",
            "",
            *table(("number", "kind", "what it says", "what it does", "columns", "detail"), kinds),
            "",
            "The fourth column is the life of an entry, a queue's reference to a message: where it",
            "is before and after the event. For other kinds it says what begins, changes or ends.",
            "An event that finds its entry elsewhere is a fault, which the audit names.",
            "",
            "Every event has `kind` and `time`. `Routed` has the headers and body of the message,",
            "unless its flags say that they were not journaled.",
            "",
            "## Formats of headers",
            "",
            "Headers stay as they arrived, and three bits of the flags (16, 32, 64) name their",
            "format. Numbers never change, and older journals have 0 throughout.",
            "",
            *table(("number", "flags", "format"), formats()),
            "",
            "A number that is not in the table belongs to a later version. This version keeps",
            "such headers, and does not guess what they say. A queue waits when its next message",
            "has them, and the log names the message and the format. `journal inspect --json`",
            "shows their bytes, and the column `headers` of SQL is null. Nothing is lost: the",
            "version that wrote the journal, or a newer one, delivers the messages.",
            "",
            *types_of_values(),
            "## The life of an entry",
            "",
            "An entry is a queue's reference to a message. An input that is not listed has no",
            "effect: it is refused, or not about entries in that place. A test carries out every",
            "pair.",
            "",
            *diagram(),
            "",
            "## Reasons",
            "",
            *table(("number", "reason", "what it says"), listed),
            "",
        ]
    )


def main() -> None:
    """Redraw the page."""
    PAGE.write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
