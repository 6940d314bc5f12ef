"""Doing work on many objects with turns of the event loop between its slices
(`server.process.slices`).

A module of its own, since the command line does such work at once and has no event loop to load.
Must never know the work.
"""

import asyncio
from typing import TypeVar

from daybook.server.process.slices import Slices, into

_T = TypeVar("_T")


async def in_turns(slices: Slices[_T]) -> _T:
    """Return the result of all slices, with turns of the event loop in between."""
    found: list[_T] = []
    for _ in into(found, slices):
        await asyncio.sleep(0)
    return found[0]
