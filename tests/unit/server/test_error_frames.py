"""Who got an ERROR is in the log: once, then as a count."""

import asyncio
import logging

import pytest
import structlog

from daybook.server import error_frames
from daybook.server.error_frames import ErrorFrames


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
