"""The end of a broker is signed if its stop counts, and not otherwise."""

import asyncio
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from daybook.server.ending import Ending


class Signing:
    """Notes how it ends."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def finish(self, seconds: float) -> None:
        self.calls.append("signed")

    def drop(self) -> None:
        self.calls.append("dropped")


def parts(is_durable: bool) -> tuple[Any, ...]:
    """Return hub, writer, indexing and guard of a broker whose stop becomes durable, or does not,
    as where a cluster lacks followers."""
    read, write = os.pipe()

    def stop(done: Callable[[int], None]) -> None:
        if is_durable:
            done(1)

    def nothing(*_: object) -> None:
        pass

    hub = SimpleNamespace(failure=None, stop=stop, say_goodbye=nothing)
    writer = SimpleNamespace(
        fileno=lambda: read, close=nothing, mark=nothing,
        stats=lambda: SimpleNamespace(disk_full=False),
    )  # fmt: skip
    indexing = SimpleNamespace(hurry=lambda: True, close=nothing)
    guard = SimpleNamespace(seconds_left=0.0, stop_seconds=1.0)
    os.close(write)
    return hub, writer, indexing, guard


@pytest.mark.parametrize(("is_durable", "calls"), [(True, ["signed"]), (False, ["dropped"])])
def test_an_end_is_signed_only_if_it_is_durable(is_durable: bool, calls: list[str]) -> None:
    """A cluster may cut an end off that too few nodes have; a statement about it would stay."""
    hub, writer, indexing, guard = parts(is_durable)
    signing: Any = Signing()
    ending = Ending(
        hub, writer, indexing, signing, guard, on_closed=lambda _: None,
        on_unreadable=lambda _: None, why_not=lambda: "too few nodes follow",
    )  # fmt: skip
    assert asyncio.run(ending.run([], 0, has_begun=True)) == is_durable
    assert signing.calls == calls
