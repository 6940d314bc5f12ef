"""Logs: their two forms, levels, and what they must never show."""

import io
import json
import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from daybook.server.process import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    handlers = list(logging.getLogger().handlers)
    yield
    logging.getLogger().handlers[:] = handlers
    structlog.reset_defaults()
    logs.set_level("info")


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_when_it_is_not_a_terminal() -> None:
    stream = io.StringIO()
    logs.configure("info", "auto", stream)
    logs.logger("journal", segment=1).info("sealed", blocks=3, note="two\nlines \x1b[31m é")
    (line,) = lines(stream)
    assert line.pop("timestamp", "").endswith("Z")  # type: ignore[attr-defined]
    assert line == {
        "part": "journal",
        "segment": 1,
        "event": "sealed",
        "level": "info",
        "blocks": 3,
        "note": "two\nlines \x1b[31m é",
    }


def test_words_and_colours_on_a_terminal() -> None:
    stream = Terminal()
    logs.configure("info", "auto", stream)
    logs.logger("journal").info("sealed", blocks=3)
    assert "sealed" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


def test_words_without_colours_when_asked_for_elsewhere() -> None:
    stream = io.StringIO()
    logs.configure("info", "human", stream)
    logs.logger("journal").info("sealed", blocks=3)
    assert "sealed" in stream.getvalue()
    assert "blocks=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_json_on_a_terminal_when_asked_for() -> None:
    stream = Terminal()
    logs.configure("info", "json", stream)
    logs.logger("journal").info("sealed")
    assert lines(stream)[0]["event"] == "sealed"


def test_standard_error_is_where_lines_go(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logs.logger("server").info("ready")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "ready"


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: str, written: list[str]) -> None:
    stream = io.StringIO()
    logs.configure(level, "json", stream)
    log = logs.logger("x")
    log.debug("a")
    log.info("a")
    log.warning("a")
    log.error("a")
    assert [line["level"] for line in lines(stream)] == written


def test_the_level_changes_for_loggers_that_exist() -> None:
    stream = io.StringIO()
    logs.configure("error", "json", stream)
    log = logs.logger("x").bind(connection=7)
    log.info("before")
    logs.set_level("debug")
    log.debug("after")
    assert [line["event"] for line in lines(stream)] == ["after"]


@pytest.mark.parametrize("format", ["human", "json"])
def test_no_secret_is_shown(format: str) -> None:
    stream = io.StringIO()
    logs.configure("info", format, stream)
    passcode = "sesame"
    logs.logger("server").info(
        "refused",
        login="alice",
        passcode=passcode,
        Password=passcode,
        headers={"passcode": passcode},
    )
    try:
        raise ValueError("damaged")
    except ValueError:
        logs.logger("server").exception("failed")
    assert "sesame" not in stream.getvalue()
    assert "alice" in stream.getvalue()
    assert "damaged" in stream.getvalue()
    assert logs.MASK in stream.getvalue()


def test_a_peers_text_cannot_act_on_a_terminal() -> None:
    stream = io.StringIO()
    logs.configure("info", "human", stream)
    logs.logger("server").info("opened", client="\x1b[2J\nfake line \u202e")
    assert "\x1b" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_people_read_no_python() -> None:
    stream = io.StringIO()
    logs.configure("info", "human", stream)
    logs.logger("service").info("ready", listen=["stomp://a:1"], full=False, cut=None)
    logs.logger("service").info("reloaded", changed=["a", "\x1bb"])
    assert "listen=stomp://a:1 " in stream.getvalue()
    assert "changed='a, " in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "full=no" in stream.getvalue()
    assert "cut=none" in stream.getvalue()


def test_libraries_log_into_the_same_lines() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    logs.configure("info", "json", stream)
    logging.getLogger("asyncio").error("task %s failed", 7)
    logging.getLogger("asyncio").info("not important")
    (line,) = lines(stream)
    assert (line["event"], line["part"], line["level"]) == ("task 7 failed", "asyncio", "error")


@pytest.mark.parametrize("broken", [False, True])
def test_a_line_that_cannot_be_written_is_lost_and_no_more(broken: bool) -> None:
    stream = Broken() if broken else io.StringIO()
    logs.configure("info", "json", stream)
    if not broken:
        stream.close()
    logs.logger("server").info("lost")
    logs.configure("info", "auto", stream)
    logs.logger("server").info("lost too")
    after = io.StringIO()
    logs.configure("info", "json", after)
    logs.logger("server").info("kept")
    assert [line["event"] for line in lines(after)] == ["kept"]


def test_a_pipe_that_nobody_reads_holds_up_nobody() -> None:
    read, written = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(written, "w", encoding="utf-8") as stream:
        logs.configure("info", "json", stream)
        for number in range(2_000):
            logs.logger("test").info("a line", number=number, text="x" * 100)
        logs.logger("test").info("a long line", text="x" * 60_000)
        os.set_blocking(read, False)
        first = reader.read()
        assert first.endswith(b"\n")
        logs.logger("test").info("after that")
        lost, after = [json.loads(line) for line in reader.read().splitlines()]
    assert after["event"] == "after that"
    count = 2_001 - first.count(bytes([10]))
    told = f"{count} lines before this one were lost, because the output was not read"
    assert lost["event"] == told
