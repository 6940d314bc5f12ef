"""Tables: on terminals of any width, with names of any length, and as plain text."""

import io
import json
import re

import pytest

from daybook.server.administration.admin_requests import Queues
from daybook.tools.terminal import printing
from daybook.tools.terminal.layout import fit, folded, shortened
from daybook.tools.terminal.printing import progress, show_table

WIDTHS = (50, 60, 80, 120)
LISTED = Queues.ways[0].table
assert LISTED is not None
OPTIONAL = [column.replace("_", " ") for column in LISTED.more]
HEADINGS = [column.replace("_", " ") for column in LISTED.columns] + OPTIONAL
NAMES = ["orders", "orders.eu.vat", "[bold]", "名前" * 10, "x" * 1500 + "middle" + "y" * 1500]
ROWS = [
    [
        name,
        name,
        1,
        0,
        4,
        22,
        3,
        1_234_567,
        1_234_544,
        False,
        "multicast",
        0,
        5,
        7,
        4711,
        "2026-11-29 00:00:00",
    ]
    for name in NAMES
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, width: int, *table: object, **more: object) -> list[str]:
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    show_table(*table, **more)  # type: ignore[arg-type]
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()


def cells(text: str) -> int:
    return sum(2 if each in "名前" else 1 for each in text)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_dropped_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    lines = shown(monkeypatch, width, HEADINGS, ROWS, optional=OPTIONAL)
    text = "\n".join(lines)
    said = capsys.readouterr().err
    assert max(map(cells, lines)) <= width
    for heading in HEADINGS:
        assert all(word in text for word in heading.split()) or heading in said
    for word in ("orders", "[bold]", "1,234,567", "1,234,544", "名前"):
        assert word in text
    assert "…" in text
    assert len(lines) < 100


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_customary_length_can_be_put_together(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    lines = shown(monkeypatch, width, ["queue", "ready"], [["orders.eu.vat." + "z" * 60, 1]])
    text = "".join(line.split()[0] if line.split() else "" for line in lines)
    assert "orders.eu.vat." + "z" * 60 in text.replace("ready1", "")


def test_a_wide_terminal_gets_one_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, 200, HEADINGS, ROWS[:3], optional=OPTIONAL)
    assert len([line for line in lines if "multicast" in line]) == 3
    assert "in flight" in lines[0]


def test_a_narrow_terminal_gets_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, 50, HEADINGS, ROWS[:2], "queues", optional=OPTIONAL)
    assert lines[0] == "queues"
    assert lines[1].split() == ["queue", "orders"]
    assert len(lines) == 1 + 2 * len(HEADINGS) + 1


def test_a_table_without_rows_shows_its_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "queue" in "".join(shown(monkeypatch, 80, ["queue", "ready"], []))


def test_one_long_name_does_not_pad_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(HEADINGS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) < 250 for line in lines[:-1])
    assert NAMES[-1] in lines[-1]


def test_a_cell_cannot_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["a"], [["\x1b[2J\n"]])
    assert capsys.readouterr().out == "a\n\\x1b[2J\\n\n"


def test_shortening_keeps_both_ends() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "ab…efg"
    assert shortened("abcdefg", 1) == "a…g"[:3]
    assert folded("", 5) == [""]
    assert "".join(folded("abcdefg", 3)) == "abcdefg"
    assert len(folded("x" * 1000, 10)) <= 4


def test_what_fits_and_what_does_not() -> None:
    assert fit(["a", "b"], [["x", "y"]], [False, False], 4) == [1, 1]
    assert fit(["a", "b"], [["x", "y"]], [False, False], 3) == [1, 1]
    assert fit(["a", "b"], [["x", "y"]], [False, False], 2) is None
    assert fit(["in flight"], [["1"]], [True], 6) == [6]
    assert fit(["a", "b"], [["x" * 50, "y" * 50]], [False, False], 41) == [20, 20]


def test_a_progress_bar_goes_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress("verifying", 10) as advance:
        advance(1)
    assert "verifying" in stream.getvalue()
    # The last thing is that the line is erased.
    assert stream.getvalue().rstrip("\r\n").endswith(("\x1b[2K", "\x1b[?25h"))
    assert "\x1b[2K" in stream.getvalue()[stream.getvalue().rindex("verifying") :]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e4\n", "plain \u00e4\n"),
        ("a\x1b[2Jb\tc", "a\\u001b[2Jb\tc"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("\x9b1m\x7f\U000e0001", "\\u009b1m\\u007f\\udb40\\udc01"),
    ],
)
def test_text_cannot_rule_a_terminal(
    monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    assert printing.for_output(text) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert printing.for_output(text) == shown
    if "\t" not in text and "\n" not in text:
        assert json.loads(f'"{shown}"') == text
