"""A trail as a picture: the lanes of its queues, and how long it was in which place.

Two forms: an SVG drawing with time running down, and a Mermaid sequence diagram for pages that
render one. Both are made of the steps of `history.trail` alone. Must never know a journal.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from daybook.engine.facts.events import CONSUMER, KIND
from daybook.engine.facts.kinds import LIVES, OF_LINKS, TAKING
from daybook.engine.facts.life import IN_FLIGHT, ON_HOLD, ON_SCHEDULE, READY
from daybook.history.descriptions import CRASHED
from daybook.history.trail import Lane, Step, Trail
from daybook.texts import moment, printable

COLOURS: Final = {
    READY: "#8aa4c8", IN_FLIGHT: "#2f7d4f", ON_SCHEDULE: "#c79a2b", ON_HOLD: "#b0463c",
}  # fmt: skip
"""The colour of each place in a queue."""
_ROW: Final = 46
_END_LINE: Final = 24
_LANE: Final = 26
_LEFT: Final = 204
_TOP: Final = 84
_LINE: Final = 15
_TEXT_WIDTH: Final = 700
_LINE_CHARS: Final = 100
"""How many characters of a sentence fit into a line of the drawing."""
_LINES_MAX: Final = 8
"""How many lines of a sentence are drawn; a pointer shows the rest."""
_OTHERS_MAX: Final = 8
"""How many messages that were made from the first one are in the title."""
_UNITS: Final = (
    (86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"),
    (1_000, "ms"), (1, "us"),
)  # fmt: skip


def between(earlier: int, later: int) -> str:
    """Return the time between two steps in the largest unit that fits, such as `+1.5 s`.

    Times are microseconds; a clock that was set back gives a minus.
    """
    span = later - earlier
    sign = "-" if span < 0 else "+"
    for unit, name in _UNITS:
        if abs(span) >= unit:
            return f"{sign}{abs(span) / unit:.4g} {name}"
    return f"{sign}0"


class Spans(NamedTuple):
    """A lane of the picture: a message in a queue, and its place after each step, "" for none."""

    lane: Lane
    places: tuple[str, ...]


def spans_of(told: Trail) -> list[Spans]:
    """Return the lanes of a trail in the order in which they began."""
    lanes: dict[Lane, None] = {}
    for step in told.steps:
        lanes.update(dict.fromkeys(lane for lane, _ in step.places))
    return [
        Spans(lane, tuple(dict(step.places).get(lane, "") for step in told.steps)) for lane in lanes
    ]


# ---- SVG


def svg(told: Trail) -> str:
    """Return the trail as an SVG drawing: times on the left, then a lane for each queue, and what
    happened."""
    lanes = spans_of(told)
    words_at = _LEFT + _LANE * max(len(lanes), 1) + 24
    tops = _tops(told)
    ending = [line for text in _ending(told) for line in _lines_of(text)]
    height = tops[-1] + _END_LINE * len(ending) + 30
    width = words_at + _TEXT_WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1c2430">',
        _DARK,
        f'<rect class="paper" fill="#ffffff" width="{width}" height="{height}"/>',
        f'<text {_look("title")} x="16" y="30">{_text(_title(told))}</text>',
        *_legend(16),
    ]
    for number, spans in enumerate(lanes):
        parts += _lane(spans, _LEFT + _LANE * number + _LANE // 2, tops)
    for number, step in enumerate(told.steps):
        before = told.steps[number - 1] if number else None
        parts += _row(step, before, tops[number], words_at, lanes)
    for number, text in enumerate(ending):
        y = tops[-1] + _END_LINE * number
        parts.append(f'<text {_look("now")} x="{words_at}" y="{y}">{_text(text)}</text>')
    parts.append("</svg>")
    return "\n".join(parts)


_LOOKS: Final = {
    "title": 'font-size="18" font-weight="600"',
    "time": 'font-family="ui-monospace, monospace" font-size="12"',
    "gap": 'fill="#6b7685" font-size="12"',
    "kind": 'font-weight="600"',
    "words": 'fill="#475160" font-size="12"',
    "now": 'font-weight="600"',
}
"""The attributes of each class of texts: a policy may refuse the styles of a drawing."""
_DARK: Final = """<style>
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0 } .paper { fill: #14181f } .gap, .words { fill: #9aa6b6 } }
</style>"""


def _look(name: str) -> str:
    """Return the attributes of a class of texts."""
    return f'class="{name}" {_LOOKS[name]}'


def _title(told: Trail) -> str:
    first, *others = told.messages
    named = ", ".join(map(str, others[:_OTHERS_MAX]))
    if len(others) > _OTHERS_MAX:
        named += f" and {len(others) - _OTHERS_MAX:,} more"
    more = f", with {named} made from it" if others else ""
    return f"Message {first}{more}"


def _ending(told: Trail) -> Iterator[str]:
    if told.missing:
        yield f"earlier history is unavailable: {told.missing}"
    if told.ended:
        yield f"later history is unavailable: {told.ended}"
    for message, where in told.now:
        yield f"now: message {message} {where}"


def _tops(told: Trail) -> list[int]:
    """Return where each step is drawn, and where what is behind them begins."""
    tops = [_TOP + 16]
    for step in told.steps:
        tops.append(tops[-1] + _ROW + _LINE * (len(_lines_of(_words_of(step))) - 1))
    return tops


def _words_of(step: Step) -> str:
    return "; ".join((step.text, *(each.text for each in step.consequences)))


def _lines_of(words: str) -> list[str]:
    """Return a sentence in lines; one at least."""
    return textwrap.wrap(
        printable(words), _LINE_CHARS, max_lines=_LINES_MAX, placeholder=" ...",
        break_on_hyphens=False,
    ) or [""]  # fmt: skip


def _legend(x: int) -> Iterator[str]:
    for place, colour in COLOURS.items():
        yield f'<rect x="{x}" y="46" width="14" height="14" fill="{colour}"/>'
        yield f'<text {_look("words")} x="{x + 20}" y="58">{_text(place)}</text>'
        x += 34 + 8 * len(place)


def _lane(spans: Spans, x: int, tops: Sequence[int]) -> Iterator[str]:
    """Yield the bars of a lane: one for each time in one place, down to the next step."""
    begun = 0
    for number in range(1, len(spans.places) + 1):
        at_end = number == len(spans.places)
        place = spans.places[begun]
        if not at_end and spans.places[number] == place:
            continue
        if place:
            top, bottom = tops[begun], tops[number] - (0 if not at_end else _ROW // 2)
            name = printable(f"message {spans.lane.message} in queue {spans.lane.queue}: {place}")
            yield (
                f'<rect x="{x - 6}" y="{top}" width="12" height="{bottom - top}" '
                f'fill="{COLOURS.get(place, "#777777")}"><title>{_text(name)}</title></rect>'
            )
        begun = number


def _row(step: Step, before: Step | None, y: int, x: int, lanes: Sequence[Spans]) -> Iterator[str]:
    """Yield the time of a step, its mark in the lane, and what happened."""
    time = step.told["time"]
    shown = moment(time)
    day = shown[:11] if before is None or moment(before.told["time"])[:11] != shown[:11] else ""
    yield f'<text {_look("time")} x="16" y="{y + 4}">{day}{shown[11:]}</text>'
    if before is not None and before.told["time"] != time:
        gap = between(before.told["time"], time)
        yield f'<text {_look("gap")} x="16" y="{y - _ROW // 2 + 6}">{gap}</text>'
    for number, spans in enumerate(lanes):
        if spans.lane.message == step.told["message"] and (
            not step.told["queue"] or spans.lane.queue == step.told["queue_name"]
        ):
            at = _LEFT + _LANE * number + _LANE // 2
            yield f'<circle cx="{at}" cy="{y}" r="4" fill="#ffffff" stroke="#1c2430"/>'
    attempt = f", attempt {step.told['delivery_count']}" if step.told["delivery_count"] else ""
    yield (
        f'<text {_look("kind")} x="{x}" y="{y}">{_text(step.told["kind"])}{attempt}'
        f"<tspan {_look('words')}> event {step.event.lsn}</tspan></text>"
    )
    words = _words_of(step)
    lines = "".join(
        f'<tspan x="{x}" y="{y + 17 + _LINE * number}">{_text(line)}</tspan>'
        for number, line in enumerate(_lines_of(words))
    )
    yield f"<text {_look('words')}>{lines}<title>{_text(words)}</title></text>"


def _text(words: str) -> str:
    return escape(printable(words), {'"': "&quot;"})


# ---- Mermaid


def mermaid(told: Trail) -> str:
    """Return the trail as a Mermaid sequence diagram: peers and queues, and what passed between
    them."""
    people: dict[str, str] = {}
    body: list[str] = []
    before: Step | None = None
    for step in told.steps:
        if before is not None:
            gap = between(before.told["time"], step.told["time"])
            if not gap.endswith((" us", "+0")):
                place = next(iter(people.values()))
                body.append(f"  Note over {place}: {gap}")
        body += _arrows(step, people)
        before = step
    heads = [f"  participant {key} as {_label(name)}" for name, key in people.items()]
    tail = [f"  Note over {next(iter(people.values()))}: {_label(each)}" for each in _ending(told)]
    return "\n".join(["sequenceDiagram", *heads, *body, *(tail if people else [])])


def _arrows(step: Step, people: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a step, and add its peers and queues to `people`."""
    told = step.told
    queues = [lane.queue for lane, _ in step.places if lane.message == told["message"]]
    named = [told["queue_name"]] if told["queue_name"] else sorted(set(queues))
    who = told["who"]
    label = _label(
        f"{step.event.lsn} {told['kind']}"
        + (f", attempt {told['delivery_count']}" if told["delivery_count"] else "")
        + (f" ({told['reason']})" if told["reason"] else "")
    )
    keys = [_key(f"queue {name}", people) for name in named]
    if not who:
        for key in keys or [_key("broker", people)]:
            yield f"  {key}->>{key}: {label}"
            if step.is_crash:
                yield f"  Note over {key}: {_label(CRASHED)}"
        for each in step.consequences if not keys else ():
            yield f"  Note over {_key('broker', people)}: {_label(each.text)}"
        return
    peer = _key(who, people)
    for key in keys or [_key("broker", people)]:
        arrow = f"{key}->>{peer}" if _is_to_peer(step) else f"{peer}->>{key}"
        yield f"  {arrow}: {label}"
    for each in step.consequences:
        yield f"  Note over {peer}: {_label(each.text)}"


def _is_to_peer(step: Step) -> bool:
    """Whether a step goes from the broker to a peer: a delivery, or a look of a browser."""
    row = step.event.row
    others = row[CONSUMER] > 0 and row[KIND] not in LIVES and row[KIND] not in OF_LINKS
    return row[KIND] in TAKING or others


def _key(name: str, people: dict[str, str]) -> str:
    return people.setdefault(name, f"P{len(people) + 1}")


def _label(text: str) -> str:
    """Return a text without what means something to Mermaid."""
    return printable(text).translate(_MEANINGFUL)


_MEANINGFUL: Final = str.maketrans(
    {"#": "#35;", ";": "#59;", "<": "#60;", ">": "#62;", ":": "#58;", "\n": " "}
)
