"""Ports for brokers that must know theirs before they start, or keep it when they start again.

A port that the kernel chooses, and that is free again before the broker listens on it, may be taken
meanwhile: by an outgoing connection of any process, or by a neighbour that asks likewise. So these
ports lie below those that the kernel gives away, and each process has a range of its own."""

import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

GIVEN_AWAY: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS_OF_A_PROCESS: Final = 200
RANGES: Final = 60


class NoPortError(Exception):
    """No port is left for this process."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now, and that neither the kernel nor
    another process that asks here gives away; raises NoPortError."""
    for port in (next(_ports()) for _ in range(PORTS_OF_A_PROCESS)):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise NoPortError(f"all {PORTS_OF_A_PROCESS} ports of this process are in use")


def free_ports(count: int) -> list[int]:
    """Return so many of them, each another one."""
    return [free_port() for _ in range(count)]


@cache
def _ports() -> Iterator[int]:
    """Return the ports of this process, again and again."""
    return _in_turn(*_own_range())


def _in_turn(first: int, held: socket.socket) -> Iterator[int]:
    with held:
        while True:
            yield from range(first, first + PORTS_OF_A_PROCESS)


def _own_range() -> tuple[int, socket.socket]:
    """Return the first port of a range that no other process has, and what holds it until the end
    of this process: the kernel knows a name without a file once only."""
    below = int(GIVEN_AWAY.read_text("ascii").split()[0])
    for first in range(below - RANGES * PORTS_OF_A_PROCESS, below, PORTS_OF_A_PROCESS):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0daybook-ports-from-{first}")
        except OSError:
            held.close()
            continue
        return first, held
    raise NoPortError(f"{RANGES} processes have ports here already")
