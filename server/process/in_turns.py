"""Doing work on many objects with turns of the event loop between its slices
(`server.process.slices`).

A module of its own, since the command line does such work at once and has no event loop to load.
Must never know the work.
"""

import asyncio
import time
from typing import Final, TypeVar

from daybook.server.process.slices import Slices, into

_T = TypeVar("_T")
PAUSE_SECONDS: Final = 0.00005
"""So long other threads of the process have the interpreter after each slice. An event loop that
never waits gets it back before they wake up: a commit that takes long would be seen after the last
slice only, and its client would wait for all of them."""


async def in_turns(slices: Slices[_T]) -> _T:
    """Return the result of all slices, with turns of the event loop in between."""
    found: list[_T] = []
    for _ in into(found, slices):
        time.sleep(PAUSE_SECONDS)
        await asyncio.sleep(0)
    return found[0]
