"""The report of a drill as one HTML page without scripts, other files or network.

Every text is escaped, because names and errors may come from journals. Must never know a drill.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from daybook.tools.drills.reports.plots import histogram, line, text_of
from daybook.tools.drills.reports.report import Report, Spread

FINDINGS_MAX: Final = 500

PROMISES: Final = {
    "P1": "nothing is said before it is written",
    "P2": "the journal is the state",
    "P3": "a restart costs the same however long the history is",
    "P4": "memory does not grow with the backlog",
    "P5": "delivery counts survive crashes",
    "P6": "history can be asked anything",
    "P7": "history cannot be changed unseen",
    "P8": "damage is refused or reported, never papered over",
    "bug": "a program fails with an explanation, never with a traceback",
    "drill": "a drill that proves nothing has failed",
}

STYLE: Final = """
:root{--ink:#1f2430;--soft:#5d6675;--line:#d9dee6;--paper:#fff;--tint:#f5f7fa;--main:#2f6db5;
--good:#1c7a43;--bad:#b3261e;--band:#f3c9c5}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#a3adbb;--line:#3a424f;--paper:#171b21;
--tint:#20262e;--main:#7fb0ea;--good:#63c58c;--bad:#ff8a80;--band:#5a2f2c}}
*{box-sizing:border-box}body{margin:0 auto;padding:32px 24px 64px;max-width:860px;color:var(--ink);
background:var(--paper);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 10px}p{margin:6px 0}
.soft{color:var(--soft)}.verdict{border-left:6px solid;padding:12px 16px;margin:20px 0;
background:var(--tint);font-size:17px}.good{color:var(--good)}.bad{color:var(--bad)}
table{border-collapse:collapse;width:100%;font-size:14px}th,td{text-align:left;
padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.k{width:32%;color:var(--soft)}
code{font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.finding{border:1px solid var(--line);border-left:4px solid var(--bad);padding:8px 12px;
margin:10px 0}
.finding code{display:block;background:var(--tint);padding:6px 8px;margin-top:6px}
figure{margin:14px 0 22px}figcaption{color:var(--soft);font-size:13px}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
svg .right{text-anchor:end}svg .middle{text-anchor:middle}svg .name{font-size:12px}
svg .marked{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--paper);
stroke-width:3px}svg .grid{stroke:var(--line);stroke-width:.7}
svg .axis,svg .tick{stroke:var(--soft)}svg .bar,svg .dot{fill:var(--main)}
svg .line{fill:none;stroke:var(--main);stroke-width:1.6}svg .band{fill:var(--band)}
svg .mark{stroke:var(--ink);stroke-dasharray:4 3}
@media print{body{max-width:none;padding:0}figure,.finding,tr{break-inside:avoid}}
"""


def page_of(report: Report) -> str:
    """Return the page."""
    title = f"daybook drill {report.drill}"
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p class=soft>{escape(report.about)}</p>",
        _verdict(report),
        *_tried(report),
        *_plots(report),
        *_findings(report),
        *_texts("Not tried by this drill", report.could_not),
        *_texts("Notes", report.notes),
        _table("Asked", {**report.asked, "seed": report.seed}),
        _table("Machine", report.machine),
        _table("Versions", report.versions),
        _table("Configuration", report.configuration),
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _verdict(report: Report) -> str:
    word = "No faults found" if report.right else report.result.capitalize()
    style = "good" if report.right else "bad"
    unproved = f"Nothing was proved: {escape(report.unproved)}.<br>" if report.unproved else ""
    return (
        f'<div class="verdict {style}"><strong>{word}</strong> in {report.extent}.<br>{unproved}'
        f"<span class=soft>Begun {escape(report.begun)}, took {report.seconds:,.1f} s.</span></div>"
    )


def _tried(report: Report) -> Iterable[str]:
    yield "<h2>Cases tried</h2><table><tr><th>what<th class=n>times<th class=n>right</tr>"
    for each in report.tried:
        style = "" if each.right == each.count else " bad"
        yield (
            f"<tr><td>{escape(each.what)}<td class=n>{each.count:,}"
            f'<td class="n{style}">{each.right:,}</tr>'
        )
    yield "</table>"
    if report.figures:
        yield _table("Figures", report.figures)


def _plots(report: Report) -> Iterable[str]:
    spreads = [each for each in report.spreads if each.count]
    if spreads:
        heads = ("least", "median", "90 %", "99 %", "most")
        yield "<h2>Distributions</h2><table><tr><th>what<th class=n>number"
        yield "".join(f"<th class=n>{each}" for each in heads) + "</tr>"
        for each in spreads:
            yield _row(each)
        yield "</table>"
        for each in spreads:
            if each.bars is not None and each.count > 1:
                yield _figure(histogram(each))
    for drawn in report.lines:
        if drawn.points:
            yield _figure(line(drawn), drawn.name)


def _row(each: Spread) -> str:
    values = (each.least, each.p50, each.p90, each.p99, each.most)
    cells = "".join(f"<td class=n>{text_of(value)}" for value in values)
    name = escape(f"{each.name} ({each.unit})")
    return f"<tr><td>{name}<td class=n>{each.count:,}{cells}</tr>"


def _figure(drawing: str, caption: str = "") -> str:
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{said}{drawing}</figure>"


def _findings(report: Report) -> Iterable[str]:
    if not report.findings:
        return
    yield "<h2>Findings</h2>"
    for each in report.findings[:FINDINGS_MAX]:
        promise = f"{each.promise}: {PROMISES.get(each.promise, '')}".rstrip(": ")
        where = f" <span class=soft>{escape(each.where)}</span>" if each.where else ""
        again = f"<code>{escape(each.again)}</code>" if each.again else ""
        yield (
            f"<div class=finding><strong>{escape(promise)}</strong>{where}"
            f"<p>{escape(each.what)}</p>{again}</div>"
        )
    if len(report.findings) > FINDINGS_MAX:
        yield f"<p>The JSON file has {len(report.findings) - FINDINGS_MAX:,} more.</p>"


def _texts(title: str, texts: list[str]) -> Iterable[str]:
    if texts:
        yield f"<h2>{title}</h2>"
        yield "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in texts) + "</ul>"


def _table(title: str, rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td class=k>{escape(str(key))}<td><code>{escape(_shown(value))}</code></tr>"
        for key, value in rows.items()
    )
    return f"<h2>{title}</h2><table>{lines}</table>"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
