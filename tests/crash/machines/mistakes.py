"""Mistakes that are planted into the processes of a cluster, to see whether they are found.

A process that a cluster starts with `planted` imports this module before anything else, and lets it
replace parts of the code: of a node, its broker, and whatever they start.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from daybook.journal.blocks.block import EncodedBlock
from daybook.journal.disk import write_all
from daybook.journal.places import BEFORE_ALL, Place
from daybook.journal.replica import Replica
from daybook.replication.following import Following
from daybook.replication.leading import BrokerEnd
from daybook.replication.messages import Answer, Ask, Refused, Standing
from daybook.replication.node import Lease, Node
from daybook.replication.replica_files import ReplicaFiles

FOR_EVER: Final = 3_600_000_000
NAMES: Final = "DAYBOOK_TEST_MISTAKES"
ROOT: Final = Path(__file__).parents[3]


def planted(folder: Path, *names: str) -> dict[str, str]:
    """Return the environment of the processes of a machine that makes mistakes, with its folder."""
    hook = folder / "mistakes"
    hook.mkdir()
    text = "from tests.crash.machines.mistakes import plant\nplant()\n"
    (hook / "sitecustomize.py").write_text(text, "utf-8")
    path = f"{hook}:{ROOT}"
    return {"PYTHONPATH": path, NAMES: ",".join(names)}


def plant() -> None:
    """Plant the mistakes that the environment names."""
    for name in os.environ[NAMES].split(","):
        MISTAKES[name]()


def acknowledges_before_sync() -> None:
    """A follower acknowledges what the kernel has."""

    def put(self: Replica, block: EncodedBlock) -> None:
        assert self._file is not None
        write_all(self._file, block.data, self._offset)

    Replica.put = put  # type: ignore[assignment,method-assign]


def counts_though_it_is_empty() -> None:
    """A node that lost its disk answers as if it knew what was confirmed."""

    def standing(self: Following) -> Standing:
        return replace(right(self), is_whole=True)

    def _promise(self: Following, peer: int, said: Ask) -> Standing:
        if not self.record.record.promised:
            self.record.promise(said.epoch, said.node)
        return promise(self, peer, said)

    right, promise = Following.standing, Following._promise
    Following.standing = standing  # type: ignore[method-assign]
    Following._promise = _promise  # type: ignore[method-assign]


def looks_at_no_lease() -> None:
    """A broker confirms whenever its node once allowed it."""

    BrokerEnd.may_confirm = lambda self: True  # type: ignore[method-assign]


def fences_nobody() -> None:
    """Nodes follow the one that asked last, and a leader continues, whatever the lease, the number
    of followers and newer epochs say."""

    def _promise(self: Following, peer: int, said: Ask) -> Standing:
        if said.epoch > self.record.record.promised:
            self.record.promise(said.epoch, said.node)
        self._peer, self._is_joined = peer, False
        return self.standing()

    def _hold(self: Node, lease: Lease, asked: int) -> None:
        self.valid_until, self._next_renewal = asked + FOR_EVER, asked + lease.microseconds

    def answered(self: Node, node: str, said: Answer, now: int) -> None:
        if not isinstance(said, Refused):
            right(self, node, said, now)

    right = Node.answered
    Following._promise = _promise  # type: ignore[method-assign]
    Node._hold = _hold  # type: ignore[method-assign]
    Node._alone_until = lambda self, now: now + FOR_EVER  # type: ignore[method-assign]
    Node.gone = lambda self, epoch, now: None  # type: ignore[method-assign]
    Node.answered = answered  # type: ignore[method-assign]


def keeps_its_tail() -> None:
    """A node that led does not cut off what it alone wrote."""

    def continue_from(self: ReplicaFiles, data_id: bytes, place: Place, hashed: bytes) -> bool:
        return place == BEFORE_ALL and right(self, data_id, place, hashed)

    right = ReplicaFiles.continue_from
    ReplicaFiles.continue_from = continue_from  # type: ignore[method-assign]


MISTAKES: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        acknowledges_before_sync, counts_though_it_is_empty, looks_at_no_lease,
        keeps_its_tail, fences_nobody,
    )
}  # fmt: skip
