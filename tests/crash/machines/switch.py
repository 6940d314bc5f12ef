"""The switch: `python -m tests.crash.machines.switch NAMES`, which makes a namespace for each name.

It moves packets between their devices, as the newest line of its input says: which ways are
blocked, how late packets are, and how many are lost. Everything ends with this process.

Data flow: a packet that a device has is read from its file, and written to that of its target.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Final

from tests.crash.machines.network import ADDRESSES, PORTS

CLONE_NEWNET: Final = 0x40000000
TUNSETIFF: Final = 0x400454CA
IFF_TUN: Final = 0x0001
IFF_NO_PI: Final = 0x1000
PACKET_BYTES_MAX: Final = 9_000
LATE_MAX: Final = 20_000
"""How many packets may be late; the switch drops others, as a real one does."""

TARGET: Final = struct.Struct("!4B")
TCP_PORTS: Final = struct.Struct("!HH")


def leave() -> None:
    """Enter a new namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a namespace cannot be made")


def make_space(name: str) -> tuple[int, int]:
    """Make a namespace with a device; return descriptors of the namespace, and of the device."""
    leave()
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
    for words in (
        "link set lo up",
        f"addr add {ADDRESSES[name]}/24 dev tun0",
        f"link set tun0 mtu {PACKET_BYTES_MAX} up",
    ):
        subprocess.run(["ip", *words.split()], check=True, capture_output=True)
    return os.open("/proc/self/ns/net", os.O_RDONLY), device


def service_of(packet: bytes) -> str:
    """Return which service a packet of TCP is from or for."""
    source, target = TCP_PORTS.unpack_from(packet, (packet[0] & 15) * 4)
    return SERVICES.get(target) or SERVICES.get(source, "")


NAMES: Final = {address: name for name, address in ADDRESSES.items()}
SERVICES: Final = {port: service for service, port in PORTS.items()}


class Switch:
    """Moves packets until its input ends."""

    def __init__(self, devices: dict[str, int]) -> None:
        self.devices: Final = devices
        self.blocked: set[tuple[str, str, str]] = set()
        self.delay = self.loss = 0.0
        self.late: list[tuple[float, int, int, bytes]] = []
        self.count = 0
        self.input = b""

    def run(self) -> None:
        """Move packets."""
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        for name, device in self.devices.items():
            selector.register(device, selectors.EVENT_READ, name)
        while True:
            wait = max(0.0, self.late[0][0] - time.monotonic()) if self.late else None
            for key, _ in selector.select(wait):
                if key.data is not None:
                    self.read(key.data, key.fd)
                elif not self.obey():
                    return
            while self.late and self.late[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self.late)
                self.put(device, packet)

    def obey(self) -> bool:
        """Take the newest line of the input; return False at its end."""
        data = os.read(0, 1 << 16)
        self.input += data
        *lines, self.input = self.input.split(b"\n")
        if lines:
            wanted: dict[str, Any] = json.loads(lines[-1])
            self.blocked = {(one, other, service) for one, other, service in wanted["blocked"]}
            self.delay, self.loss = wanted["delay"], wanted["loss"]
            print(wanted["number"], flush=True)
        return bool(data)

    def read(self, source: str, device: int) -> None:
        """Move what one device has."""
        for _ in range(64):
            try:
                packet = os.read(device, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            if packet[0] >> 4 == 4:
                self.move(source, packet)

    def move(self, source: str, packet: bytes) -> None:
        """Move a packet, now or later, or lose it."""
        target = NAMES.get(".".join(map(str, TARGET.unpack_from(packet, 16))))
        if target is None:
            return
        blocked = self.blocked
        if blocked and {(source, target, ""), (source, target, service_of(packet))} & blocked:
            return
        if self.loss and random.random() < self.loss:
            return
        if not self.delay:
            self.put(self.devices[target], packet)
        elif len(self.late) < LATE_MAX:
            self.count += 1
            due = time.monotonic() + self.delay * random.uniform(0.5, 1.5)
            heapq.heappush(self.late, (due, self.count, self.devices[target], packet))

    @staticmethod
    def put(device: int, packet: bytes) -> None:
        """Give a packet to a device; a full one loses it."""
        with suppress(BlockingIOError):
            os.write(device, packet)


def main(names: list[str]) -> None:
    """Make the namespaces, say where they are, and move packets."""
    made = {name: make_space(name) for name in names}
    print(json.dumps({name: space for name, (space, _) in made.items()}), flush=True)
    Switch({name: device for name, (_, device) in made.items()}).run()


if __name__ == "__main__":
    main(sys.argv[1:])
