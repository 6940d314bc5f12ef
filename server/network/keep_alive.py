"""Probes of the kernel for peers that have disappeared. Must never know why nothing is heard."""

import socket
from typing import Final

KEEPALIVE_PROBES: Final = 6
"""How many unanswered keep-alive probes the kernel sends before it closes a connection."""


def keep_alive(connected: socket.socket, idle_ms: int) -> None:
    """Make the kernel detect peers that disappeared."""
    if not idle_ms:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, idle_ms // 1000))
    interval = max(1, idle_ms // 1000 // KEEPALIVE_PROBES)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
