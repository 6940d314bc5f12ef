"""Work in slices leaves the event loop to others, and the interpreter to other threads."""

import asyncio
import time

import pytest

from daybook.server.process.in_turns import PAUSE_SECONDS, in_turns
from daybook.server.process.slices import Slices


def counted(most: int, done: list[str]) -> Slices[int]:
    """Do so many slices."""
    for _ in range(most):
        done.append("slice")
        yield 1
    return most


def test_others_have_their_turn_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: done.append(f"pause {seconds}"))

    async def work() -> int:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            done.append("turn")
            loop.call_soon(turn)

        loop.call_soon(turn)
        return await in_turns(counted(3, done))

    assert asyncio.run(work()) == 3
    assert done[:9] == ["slice", f"pause {PAUSE_SECONDS}", "turn"] * 3
