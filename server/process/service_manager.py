"""Notifies systemd that the broker is ready, stopping, alive (`sd_notify(3)`, `Type=notify`).

A datagram is sent to the socket in $NOTIFY_SOCKET; without that variable no datagram is sent. With
$WATCHDOG_USEC the event loop reports twice in that time that it is alive, so that systemd kills and
restarts a broker that hangs (`WatchdogSec=`). Fault model: the socket may be missing or full; a
datagram that cannot be sent at once is dropped, and the broker continues. Must never know when a
broker is ready.
"""

import os
import socket
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
SOCKET: Final = "NOTIFY_SOCKET"
INTERVAL: Final = "WATCHDOG_USEC"
WATCHED: Final = "WATCHDOG_PID"
SUPERVISOR: Final = (SOCKET, INTERVAL, WATCHED)
"""The variables of the environment by which a supervisor is known."""


class Notifier:
    """Sends to the supervisor of this process; times are microseconds of one clock."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address: Final = environment.get(SOCKET, "")
        self._interval_us: Final = _watchdog_us(environment) // 2
        self._next = 0

    def say(self, *lines: str) -> None:
        """Send assignments such as READY, or `STATUS=...`."""
        if not self._address.startswith(("/", "@")):
            return
        # A name that begins with @ is in the abstract namespace (unix(7)).
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as way:
                way.sendto("\n".join(lines).encode(), address)
        except OSError:
            return

    def tick(self, now: int) -> None:
        """Report that the event loop is alive, when it is time."""
        if self._interval_us and now >= self._next:
            self._next = now + self._interval_us
            self.say(ALIVE)


def _watchdog_us(environment: Mapping[str, str]) -> int:
    """Return the longest allowed time between two reports, 0 for none."""
    text = environment.get(INTERVAL, "")
    process = environment.get(WATCHED, str(os.getpid()))
    return int(text) if text.isascii() and text.isdigit() and process == str(os.getpid()) else 0
