"""Files that the console gives in pieces."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from daybook.console.console_config import ConsoleError
from daybook.console.pages.messages import Download


def sent_of(pieces: Sequence[bytes], error: Exception | None) -> list[Any]:
    """Return what a download of these pieces sends, after which there is an error."""
    sent: list[Any] = []

    async def given() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        if error is not None:
            raise error

    async def send(said: Any) -> None:
        sent.append(said)

    asyncio.run(Download(given()).stream_response(send))
    return sent


def test_a_whole_file_has_an_end() -> None:
    sent = sent_of((b"a", b"b"), None)
    assert b"".join(each.get("body", b"") for each in sent) == b"ab"
    assert not sent[-1]["more_body"]


def test_a_file_whose_next_piece_is_gone_has_no_end_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "daybook.console"):
        sent = sent_of((b"a",), ConsoleError("there is no message 7 in queue q"))
    assert sent[-1]["more_body"]
    assert [each.getMessage() for each in caplog.records] == [
        "a file was broken off: there is no message 7 in queue q"
    ]
    assert caplog.records[0].exc_info is None
