"""The name of a node, as the arbiter knows who uses it: two nodes of one name would count as one.

A node claims its name again and again, and each claim lasts for the time of a lease. So a node that
replaces a dead one gets the name soon, and a second one never does while the first one runs. Must
never know an arbiter, a socket or a clock.
"""

from typing import Final

from daybook.errors import DaybookError
from daybook.replication.arbiters.arbiter import Claim, Claimed

SPARE_US: Final = 2_000_000


class NameTaken(DaybookError):
    """Another node of the cluster uses the name of this one."""


class Claims:
    """What became of the claims of a node; times are in microseconds. `is_own` says whether the
    last one was successful, `is_taken` whether it was refused."""

    def __init__(self, cluster: str, name: str, lease: int) -> None:
        self.is_own = self.is_taken = False
        self.claim = Claim("")
        self._cluster: Final = cluster
        self._name: Final = name
        self._lease: Final = lease
        self._was_own = False
        self._since = 0

    def claimed(self, found: Claimed, now: int) -> str:
        """Note an answer of the arbiter; return what an operator should know, "" for nothing.
        Raises NameTaken once waiting does not help: a dead node's claim has ended by then."""
        was_taken = self.is_taken
        self.is_own, self.is_taken = found.other is None, found.other is not None
        if found.other is None:
            self._was_own = True
            return ""
        text = self._text(found.other)
        if not was_taken:
            self._since = now
        if self._was_own or now - self._since > 2 * self._lease + SPARE_US:
            raise NameTaken(text)
        return "" if was_taken else f"{text}; this node waits for that"

    def _text(self, other: Claim) -> str:
        return (
            f"another node of the cluster '{self._cluster}' is named '{self._name}' too: that of"
            f" the data directory {other.directory} on {other.host}, at {other.address}; write"
            " another 'node' into [replication] of one of them, or stop that one, whose name is"
            f" free {self._lease / 1e6:g} s later"
        )
