"""Noticing that peers are gone of whom nothing is read.

A socket that is not read does not say that its peer closed it; the kernel knows all the same. One
epoll watches such sockets for nothing but their end, and is itself watched by the event loop, so
that it costs nothing as long as nothing happens.

Fault model: a descriptor may be closed at any moment, by which the kernel stops to watch it.
"""

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import Final


class Hangups:
    """Sockets whose end is waited for, each with what to call then, once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._calls: Final[dict[int, Callable[[], None]]] = {}
        self._epoll: Final = select.epoll()
        loop.add_reader(self._epoll.fileno(), self._look)

    def watch(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Call `gone` when the peer has closed its side, or all of the connection."""
        if descriptor not in self._calls:
            self._calls[descriptor] = gone
            # What is always told, errors and the end of both sides, need not be asked for.
            self._epoll.register(descriptor, select.EPOLLRDHUP)

    def forget(self, descriptor: int) -> None:
        """Watch a socket no more."""
        if self._calls.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
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
