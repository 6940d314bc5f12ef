"""How a start that takes long tells how far it is."""

import io
import json
from collections.abc import Iterator

import pytest

from daybook.server.history.data_directory_session import LINE_SECONDS, QUIET_SECONDS, Progress
from daybook.server.process import logs


class Terminal(io.StringIO):
    """A terminal that keeps what was drawn."""

    def isatty(self) -> bool:
        return True


class GoneTerminal(Terminal):
    """A terminal whose window was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log, as lines for machines."""
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    yield stream
    logs.configure("info", "auto")


def test_a_bar_on_a_terminal(log: io.StringIO) -> None:
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock)
    progress(10, 200)
    assert terminal.getvalue() == "", "a short start shows nothing"
    clock.now += QUIET_SECONDS
    progress(50, 200)
    assert "reading the journal" in terminal.getvalue()
    assert "25%" in terminal.getvalue()
    clock.now += QUIET_SECONDS
    progress(150, 200)
    assert "75%" in terminal.getvalue()
    progress.close()
    assert log.getvalue() == ""


def test_what_is_said_takes_the_bar_away(log: io.StringIO) -> None:
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock)
    clock.now += QUIET_SECONDS
    progress(50, 200)
    progress.notice("the index is rebuilt")
    drawn = len(terminal.getvalue())
    assert json.loads(log.getvalue())["event"] == "the index is rebuilt"
    clock.now += QUIET_SECONDS
    progress(60, 200)
    assert "30%" in terminal.getvalue()[drawn:]
    progress.close()


def test_lines_where_there_is_no_terminal(log: io.StringIO) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    for done in range(5):
        progress(done, 5)
        clock.now += LINE_SECONDS * 0.6
    told = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["events"], line["of"]) for line in told] == [(2, 5), (4, 5)]
    assert stream.getvalue() == ""
    progress.close()


def test_a_terminal_that_is_gone_does_not_keep_a_broker_from_starting(log: io.StringIO) -> None:
    clock = Clock()
    progress = Progress(GoneTerminal(), clock)
    clock.now += QUIET_SECONDS
    progress(50, 200)
    progress.close()
