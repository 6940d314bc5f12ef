"""The pictures of a trail: everything that the text tells, in forms that their readers accept."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from daybook.engine import commands
from daybook.history import trail
from daybook.history.event_finder import EventFinder
from daybook.history.trail_drawing import between, mermaid, spans_of, svg
from daybook.tools.journal_cli import cli

SVG = "{http://www.w3.org/2000/svg}"


def told(history: Any, name: str) -> trail.Trail:
    return trail.follow(EventFinder(_disk(history)), history[name], history.data)


def _disk(history: Any) -> Any:
    from daybook.journal.disk import RealDisk  # noqa: PLC0415

    return RealDisk(history.data / "journal")


@pytest.mark.parametrize(
    ("span", "text"),
    [(0, "+0"), (1, "+1 us"), (1500, "+1.5 ms"), (2_000_000, "+2 s"), (90_000_000, "+1.5 min"),
     (7_200_000_000, "+2 h"), (172_800_000_000, "+2 d"), (-3_000, "-3 ms")],
)  # fmt: skip
def test_a_span_is_in_the_largest_unit(span: int, text: str) -> None:
    assert between(10**15, 10**15 + span) == text


def test_lanes_tell_the_places_after_each_step(history: Any) -> None:
    lanes = spans_of(told(history, "dead"))
    assert [(each.lane.message, each.lane.queue) for each in lanes] == [
        (history["dead"], "orders"), (history["copy"], "DLQ"),
    ]  # fmt: skip
    assert lanes[0].places == ("ready", "in flight", "ready", "in flight", "", "")
    assert lanes[1].places == ("", "", "", "", "", "ready")


def test_a_message_of_several_queues_has_several_lanes(history: Any) -> None:
    lanes = spans_of(told(history, "several"))
    assert {each.lane.queue for each in lanes} == {"audit", "ledger"}


@pytest.mark.parametrize(
    "name", ["acknowledged", "dead", "several", "transient", "expired", "bulk"]
)
def test_the_drawing_is_well_formed_and_tells_each_step(history: Any, name: str) -> None:
    story = told(history, name)
    root = ElementTree.fromstring(svg(story))
    words = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    for step in story.steps:
        assert any(f"event {step.event.lsn}" in each for each in words)
        assert any(step.text in each for each in words)
    for message, where in story.now:
        assert f"now: message {message} {where}" in " ".join(words)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for bar in root.iter(f"{SVG}rect"):
        assert float(bar.get("height", "0")) > 0
        assert float(bar.get("y", "0")) + float(bar.get("height", "0")) <= height
        assert float(bar.get("x", "0")) <= width


def test_long_sentences_take_several_lines_and_stay_in_the_picture(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    connection = pen.connect("alice")
    message = pen.send(connection, "department." * 15 + "eu", b"x")
    after = pen.send(connection, "orders", b"y")
    pen.close()
    story = trail.follow(EventFinder(pen.disk), message, pen.data)
    root = ElementTree.fromstring(svg(story))
    [lines] = [
        [each.text or "" for each in text.findall(f"{SVG}tspan")]
        for text in root.iter(f"{SVG}text")
        if text.get("class") == "words" and text.find(f"{SVG}title") is not None
    ]
    assert len(lines) > 2
    assert max(map(len, lines)) <= 100
    assert "".join(lines).replace(" ", "") == story.steps[0].text.replace(" ", "")
    bottoms = [float(each.get("y", "0")) for each in root.iter(f"{SVG}tspan") if each.get("y")]
    ends = [each for each in root.iter(f"{SVG}text") if each.get("class") == "now"]
    assert max(bottoms) < float(ends[0].get("y", "0")) < float(root.get("height", "0"))
    assert after > message


def test_a_drawing_is_readable_where_styles_are_refused(history: Any) -> None:
    """The policy of the console refuses them in a drawing that is opened alone."""
    root = ElementTree.fromstring(svg(told(history, "dead")))
    style = root.find(f"{SVG}style")
    assert style is not None
    # Only dark screens need the style.
    assert (style.text or "").strip().startswith("@media (prefers-color-scheme: dark)")
    paper = root.find(f"{SVG}rect[@class='paper']")
    assert paper is not None
    assert paper.get("fill") == "#ffffff"
    assert root.get("fill") == "#1c2430"
    assert root.get("font-family")
    for each in root.iter(f"{SVG}text"):
        assert {"fill", "font-size", "font-weight"} & set(each.keys()), each.get("class")


def test_names_of_clients_are_no_markup(pen: Any) -> None:
    pen.do(commands.Start(version="1"))
    evil = '<script>alert("x")</script>&\x1b[31m#;'
    connection = pen.connect(evil)
    message = pen.send(connection, "orders", b"x")
    pen.close()
    story = trail.follow(EventFinder(pen.disk), message, pen.data)
    drawn = svg(story)
    ElementTree.fromstring(drawn)
    assert "<script>" not in drawn
    assert "\x1b" not in drawn
    diagram = mermaid(story)
    assert "<script>" not in diagram
    assert "\x1b" not in diagram


def test_the_diagram_has_who_takes_part_and_which_way_it_went(history: Any) -> None:
    lines = mermaid(told(history, "dead")).splitlines()
    assert lines[0] == "sequenceDiagram"
    people = dict(
        found.groups()[::-1]
        for line in lines
        if (found := re.fullmatch(r"  participant (P\d+) as (.*)", line))
    )
    queue, bob = people["queue orders"], next(k for n, k in people.items() if "bob" in n)
    assert f"  {queue}->>{bob}: 15 Delivered, attempt 1" in lines
    assert any(line.startswith(f"  {bob}->>{queue}: 16 Returned") for line in lines)
    assert any(line.startswith("  Note over ") and line.endswith("+1 s") for line in lines)
    # Every line is of a form that Mermaid knows.
    known = r"sequenceDiagram|  participant P\d+ as [^:;<>]+|  P\d+->>P\d+: .+|  Note over P\d+: .+"
    assert all(re.fullmatch(known, line) for line in lines)


def test_the_command_prints_each(history: Any) -> None:
    def run(*words: str) -> Any:
        asked = ["trail", str(history.data), str(history["dead"]), *words]
        return CliRunner().invoke(cli, asked, env={"DAYBOOK_DATA": None})

    assert run("--svg").output.startswith("<svg ")
    assert run("--mermaid").output.startswith("sequenceDiagram\n")
    both = run("--svg", "--json")
    assert both.exit_code == 2
    assert "exclude each other" in both.output
    lines = run().output.splitlines()
    assert lines[2].strip() == "+1 s"
