"""The port to what decides who leads.

An arbiter grants one lease at a time, for an epoch that is larger than all before. It also keeps
the list of nodes that are in sync, which only the node with the lease may change, and remembers
which process uses the name of each node.

Invariants of each arbiter: no two leases are valid at one time; the epochs grow; the list changes
only for the lease that is valid, and only if it is the one that its writer read. A call that fails
may nevertheless have been carried out. Must never know what leading means.
"""

from typing import NamedTuple, Protocol

import msgspec

from daybook.errors import DaybookError
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease


class ArbiterFault(DaybookError):
    """The arbiter gave no answer in time, or none that can be used: nothing is known."""


class Holder(NamedTuple):
    """The node that has the lease, the address at which it listens to others, and its epoch."""

    node: str
    address: str
    epoch: int


class Claim(msgspec.Struct, frozen=True):
    """The node that uses a name: the id of its data directory, and where that and the node are. The
    id alone would not tell a directory from its copy."""

    id: str
    host: str = ""
    directory: str = ""
    address: str = ""


class Claimed(NamedTuple):
    """The id that the arbiter has had since its memory began; and the claim of another node that
    uses the name, None if the name is this node's for the time of a lease."""

    arbiter: str
    other: Claim | None


class Arbiter(Protocol):
    """Decides who leads. `place` says to an operator where it is. Each call raises ArbiterFault,
    and ends within the arbiter's time-out; one may begin before another has ended."""

    place: str

    async def claim(self, node: str, claim: Claim) -> Claimed:
        """Use a name for the time of a lease, or longer, unless another node uses it."""

    async def acquire(self, node: str, address: str, above: int) -> Lease | None:
        """Ask for the lease; None if another node has it, or if the next try may succeed. `above`
        is an epoch that the node knows: an arbiter that lost its memory continues behind it."""

    async def renew(self, epoch: int) -> Lease | None:
        """Renew the lease of an epoch for its whole time; None if it is gone."""

    async def release(self, epoch: int) -> None:
        """Give the lease of an epoch back; one that is gone is left alone."""

    async def holder(self) -> Holder | None:
        """Return the node with the lease, None without one."""

    async def in_sync(self) -> InSync:
        """Return the nodes that are in sync."""

    async def set_in_sync(self, epoch: int, nodes: tuple[str, ...], version: int) -> InSync | None:
        """Replace the list of a version under the lease of an epoch; None if the lease is gone, or
        the list has another version. After ArbiterFault read it again, before anything else."""

    async def close(self) -> None:
        """Let go of connections; a lease that is held runs out."""
