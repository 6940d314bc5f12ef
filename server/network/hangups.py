"""Detects closed connections of peers from which nothing is read.

Without reading, a socket does not show that its peer has closed it, but the kernel knows. One epoll
watches such sockets only for their end, and the event loop watches that epoll, so this costs
nothing until something happens.

Fault model: a descriptor may be closed at any moment; the kernel then stops watching it.
"""

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import Final


class Hangups:
    """Sockets that are watched for their end, each with a callback that is called once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._calls: Final[dict[int, Callable[[], None]]] = {}
        self._epoll: Final = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._look)

    def watch(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Call `gone` when the peer has closed its side or the whole connection."""
        if descriptor not in self._calls:
            self._calls[descriptor] = gone
            # Errors and the end of both sides are always reported.
            self._epoll.register(descriptor, select.EPOLLRDHUP)

    def forget(self, descriptor: int) -> None:
        """Stop watching a socket."""
        if self._calls.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all sockets."""
        self._calls.clear()
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _look(self) -> None:
        for descriptor, _ in self._epoll.poll(0):
            gone = self._calls.get(descriptor)
            self.forget(descriptor)
            if gone is not None:
                gone()
