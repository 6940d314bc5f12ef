"""Failed logins of each address, and how long its next login waits.

A few failures are free; then the delay doubles with each one, up to a limit. Several users may
share an address, so a success halves the number of its failures, and after a minute without a new
one they are forgotten. Invariant: the number of addresses that are remembered is bounded.

Times are in microseconds. It must never know logins, and never asks a clock.
"""

from collections import OrderedDict
from typing import Final

FREE_FAILURES: Final = 3
"""The number of failures of an address without a delay."""
DELAY_US: Final = 50_000
DELAY_MAX_US: Final = 2_000_000
FORGIVEN_US: Final = 60_000_000
"""Failures of an address are forgotten after this time without a new one."""
ADDRESSES_MAX: Final = 4096
"""How many addresses with failures are remembered; the least recent one is forgotten."""
_DOUBLINGS_MAX: Final = 20


class _OfAddress:
    """The failures of an address: their number, the last one, and the time of the next login."""

    __slots__ = ("count", "last", "next_at")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self.next_at = 0


class Failures:
    """The failures of all addresses."""

    def __init__(self, delay_max: int = DELAY_MAX_US) -> None:
        self._delay_max: Final = delay_max
        self._by_address: Final[OrderedDict[str, _OfAddress]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_address)

    def next_at(self, address: str) -> int:
        """Return when the next login of an address may be checked; 0 for at once."""
        found = self._by_address.get(address)
        return found.next_at if found is not None else 0

    def note_failure(self, address: str, now: int) -> None:
        """Count a failure."""
        found = self._by_address.pop(address, None) or _OfAddress()
        if now - found.last >= FORGIVEN_US:
            found.count = 0
        found.count += 1
        found.last = now
        beyond = found.count - FREE_FAILURES
        if beyond > 0:
            found.next_at = now + min(DELAY_US << min(beyond, _DOUBLINGS_MAX), self._delay_max)
        self._by_address[address] = found
        if len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)

    def take_back(self, address: str) -> None:
        """Take back the last failure, which was counted beforehand and did not happen."""
        found = self._by_address.get(address)
        if found is not None:
            found.count = max(0, found.count - 1)
            found.next_at = 0

    def note_success(self, address: str) -> None:
        """Count a success."""
        found = self._by_address.get(address)
        if found is not None:
            found.count //= 2
