"""The log names peers that got an ERROR: once, then as a count."""

import asyncio
import logging

import pytest
import structlog

from daybook.server.hub import error_frames
from daybook.server.hub.error_frames import ErrorFrames


def test_the_first_is_told_and_more_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        frames = ErrorFrames("stomp")
        for _ in range(1000):
            frames.note("10.0.0.1", "10.0.0.1:5", "unknown command 'GET'")
        frames.note("10.0.0.2", "10.0.0.2:6", "header retain")
        frames.report()
        frames.note("10.0.0.1", "10.0.0.1:7", "again")
        frames.report()

    with structlog.testing.capture_logs() as told:
        monkeypatch.setattr(error_frames, "log", structlog.get_logger())
        asyncio.run(run())
    assert [(each["event"], each.get("peer") or each["host"]) for each in told] == [
        ("connection ended by ERROR", "10.0.0.1:5"),
        ("connection ended by ERROR", "10.0.0.2:6"),
        ("more connections ended by ERROR", "10.0.0.1"),
        ("connection ended by ERROR", "10.0.0.1:7"),
    ]
    assert told[2]["count"] == 999
    assert told[0]["why"] == "unknown command 'GET'"
    assert all(each["log_level"] == logging.getLevelName(logging.WARNING).lower() for each in told)


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        frames = ErrorFrames("stomp")
        for number in range(error_frames.HOSTS_MAX + 7):
            frames.note(f"host {number}", "peer", "why")
        frames.report()

    with structlog.testing.capture_logs() as told:
        monkeypatch.setattr(error_frames, "log", structlog.get_logger())
        asyncio.run(run())
    assert len(told) == error_frames.HOSTS_MAX + 1
    assert (told[-1]["host"], told[-1]["count"]) == ("others", 7)


NAME = f"daybook-probe-{'0a' * 16}"


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (f"transaction '{NAME}' has two messages with the duplicate id '{NAME}-id' to", False),
        (f"queue '{NAME}-queue' would be created on address '{NAME}-1' and on '{NAME}-2'", False),
        (f"the login '{NAME}-id' is unknown", True),
        (f"transaction 'mine' has two messages with the duplicate id '{NAME}-id' to", True),
        ("transaction 'daybook-probe-1' has two messages with the duplicate id 'x' to", True),
    ],
)
def test_a_probe_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch, error: str, is_logged: bool
) -> None:
    async def run() -> None:
        frames = ErrorFrames("stomp")
        for _ in range(20):
            frames.note("10.0.0.1", "10.0.0.1:5", error)
        frames.report()

    with structlog.testing.capture_logs() as told:
        monkeypatch.setattr(error_frames, "log", structlog.get_logger())
        asyncio.run(run())
    assert bool([each for each in told if each["log_level"] == "warning"]) == is_logged
