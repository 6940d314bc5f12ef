"""Any calls of any nodes in any order, with answers that are lost: one valid lease at most, and
epochs that grow: a file and etcd against one model.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.replication.arbiters import etcd
from daybook.replication.arbiters.arbiter import Arbiter, ArbiterFault
from daybook.replication.arbiters.etcd import EtcdArbiter
from daybook.replication.arbiters.etcd_gateway import Gateway, Members
from daybook.replication.arbiters.lease_file import FileArbiter
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease
from tests.support.arbiters.fake_etcd import Etcd, Gate, closed, done_and_lost

SECOND: Final = 1_000_000
LEASE: Final = 2 * SECOND
NODES: Final = 3
PATIENT: Final = 30.0
MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where nothing waits for a disk."""

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.integers(0, NODES - 1), st.sampled_from((0, 0, 7, 40))),
        st.tuples(st.just("renew"), st.integers(0, NODES - 1)),
        st.tuples(st.just("release"), st.integers(0, NODES - 1)),
        st.tuples(st.just("set"), st.integers(0, NODES - 1), st.integers(0, 3)),
        st.tuples(st.just("time"), st.sampled_from((SECOND // 2, SECOND, 3 * SECOND))),
        st.tuples(st.just("fault"), st.sampled_from((closed, done_and_lost)), st.integers(0, 2)),
        st.tuples(st.just("restart"), st.integers(0, NODES - 1)),
        st.tuples(st.just("forget")),
    ),
    max_size=25,
)


class Oracle:
    """The law that holds, whatever the arbiter does."""

    def __init__(self) -> None:
        self.now = 0
        self.newest = 0
        self.valid: dict[int, int] = {}
        self.known = InSync()
        self.is_sure = True

    def holds(self, node: int, epoch: int) -> None:
        """Note that a node has a lease from now on, or again."""
        others = [each for each, until in self.valid.items() if each != epoch and self.now < until]
        assert others == []
        self.valid[epoch] = self.now + LEASE

    def granted(self, node: int, lease: Lease, above: int) -> None:
        """Note a new lease."""
        assert lease.epoch > max(self.newest, above)
        assert lease.microseconds == LEASE
        self.newest = lease.epoch
        self.holds(node, lease.epoch)

    def ended(self, epoch: int) -> None:
        """Note that a node does not count on a lease any more."""
        self.valid.pop(epoch, None)

    def wrote(self, written: InSync | None, before: InSync, nodes: tuple[str, ...]) -> None:
        """Note what a change of the list answered."""
        if written is not None:
            assert written.version > before.version
            assert written.nodes == nodes
            if self.is_sure:
                assert before.version == self.known.version
            self.known, self.is_sure = written, True


class Play:
    """Nodes that carry steps out, and see what they get."""

    def __init__(self, arbiters: list[Arbiter], oracle: Oracle) -> None:
        self.arbiters = arbiters
        self.oracle = oracle
        self.held: list[int] = [0] * NODES
        self.seen = 0

    async def do(self, name: str, *how: Any) -> None:
        """Carry one step out; the arbiter may carry out one that fails."""
        try:
            await getattr(self, name)(*how)
        except ArbiterFault:
            if name == "set":
                self.oracle.is_sure = False

    async def acquire(self, node: int, above: int) -> None:
        """Ask for the lease, as a node that does not have it."""
        self.oracle.ended(self.held[node])
        self.held[node] = 0
        # What any node knows of epochs it learned from others, or had itself.
        above = max(above, self.seen)
        lease = await self.arbiters[node].acquire(f"n{node}", "", above)
        if lease is not None:
            self.oracle.granted(node, lease, above)
            self.held[node] = self.seen = lease.epoch

    async def renew(self, node: int) -> None:
        """Renew what the node has."""
        if not self.held[node]:
            return
        lease = await self.arbiters[node].renew(self.held[node])
        if lease is None:
            self.oracle.ended(self.held[node])
            self.held[node] = 0
        else:
            assert lease.epoch == self.held[node]
            self.oracle.holds(node, lease.epoch)

    async def release(self, node: int) -> None:
        """Give back what the node has."""
        epoch, self.held[node] = self.held[node], 0
        self.oracle.ended(epoch)
        await self.arbiters[node].release(epoch)

    async def set(self, node: int, count: int) -> None:
        """Change the list that was read."""
        before = await self.arbiters[node].in_sync()
        if self.oracle.is_sure:
            assert before == self.oracle.known
        nodes = tuple(f"n{each}" for each in range(count))
        written = await self.arbiters[node].set_in_sync(self.held[node], nodes, before.version)
        if written is not None:
            assert self.held[node] == self.oracle.newest
        self.oracle.wrote(written, before, nodes)


class File:
    """The world of a file; only time passes."""

    def __init__(self, folder: Path, oracle: Oracle) -> None:
        self.path = folder / "lease"
        self.oracle = oracle

    def arbiter(self) -> Arbiter:
        return FileArbiter(self.path, LEASE, PATIENT, lambda: self.oracle.now)

    def fault(self, *_: object) -> None:
        pass

    def time(self, microseconds: int) -> None:
        self.oracle.now += microseconds

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


class OfEtcd:
    """The world of an etcd, whose answers may be lost."""

    def __init__(self, gate: Gate, oracle: Oracle) -> None:
        self.gate = gate
        self.oracle = oracle

    def arbiter(self) -> Arbiter:
        return EtcdArbiter(Gateway(Members((self.gate.url,)), PATIENT), "p", "c", LEASE)

    def fault(self, misdeed: Any, later: int) -> None:
        self.gate.misdeeds.extend([*[None] * later, misdeed])

    def time(self, microseconds: int) -> None:
        self.oracle.now += microseconds
        self.gate.etcd.now = self.oracle.now

    def forget(self) -> None:
        self.gate.etcd.forget()


async def play(world: File | OfEtcd, oracle: Oracle, steps: list[tuple[Any, ...]]) -> None:
    """Carry the steps out."""
    made = Play([world.arbiter() for _ in range(NODES)], oracle)
    try:
        for name, *how in steps:
            if name == "restart":
                # A process that begins again knows nothing, and its lease runs out.
                await made.arbiters[how[0]].close()
                made.arbiters[how[0]] = world.arbiter()
                made.held[how[0]] = 0
            elif name == "forget":
                # Then leases are gone at once, for which nodes have promises: ADR 118.
                world.forget()
                oracle.valid.clear()
                oracle.known, oracle.is_sure = InSync(), True
            elif name in ("time", "fault"):
                getattr(world, name)(*how)
            else:
                await made.do(name, *how)
    finally:
        for each in made.arbiters:
            await each.close()


@given(steps=STEPS)
def test_the_file_keeps_the_law(steps: list[tuple[Any, ...]]) -> None:
    oracle = Oracle()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        asyncio.run(play(File(Path(folder), oracle), oracle, steps))


@given(steps=STEPS)
@settings(deadline=None)
def test_etcd_keeps_the_law(steps: list[tuple[Any, ...]]) -> None:
    async def whole() -> None:
        oracle = Oracle()
        async with Gate(Etcd()) as gate:
            await play(OfEtcd(gate, oracle), oracle, steps)

    asyncio.run(whole())


TWICE: Final = [("acquire", 0, 0), ("acquire", 1, 0)]
FORGOTTEN: Final = [*TWICE, ("release", 0), ("acquire", 0, 0), ("forget",), TWICE[1], TWICE[1]]


@pytest.mark.parametrize(
    ("name", "mistake"),
    [("_is_held", lambda self, state: False), ("_until", lambda self: self._clock() - 1)],
)
def test_a_mistake_planted_in_the_file_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, mistake: Any
) -> None:
    monkeypatch.setattr(FileArbiter, name, mistake)
    oracle = Oracle()
    with pytest.raises(AssertionError):
        asyncio.run(play(File(tmp_path, oracle), oracle, TWICE))


def unconditional(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The key of the leader is written whether it exists or not."""

    async def nobody(self: EtcdArbiter) -> None:
        pass

    monkeypatch.setattr(EtcdArbiter, "holder", nobody)
    monkeypatch.setattr(
        etcd, "transaction", lambda compare, *rest, keep=etcd.transaction: keep([], *rest)
    )
    return [*TWICE, TWICE[1]]


def known_epochs_do_not_count(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """An etcd that forgot everything grants an epoch again."""
    keep = EtcdArbiter.acquire
    monkeypatch.setattr(
        EtcdArbiter, "acquire", lambda self, node, address, above: keep(self, node, address, 0)
    )
    return FORGOTTEN


COUNTED_AGAIN: Final = [
    TWICE[0], ("set", 0, 1), ("release", 0), TWICE[0], ("forget",), TWICE[1], TWICE[1],
    ("set", 0, 2),
]  # fmt: skip


def a_revision_is_a_leadership(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """An etcd that forgot everything gives the revision of one leadership to another."""
    keep, revisions = EtcdArbiter._lease, {}

    async def lease(self: EtcdArbiter, done: Any, granted: Any, above: int) -> Lease | None:
        leader = done.value(self._leader)
        if leader is not None:
            revisions[granted.ID] = leader.create_revision
        return await keep(self, done, granted, above)

    def is_led(self: EtcdArbiter, lease: int) -> Any:
        return etcd.created_at(self._leader, revisions[lease])

    monkeypatch.setattr(EtcdArbiter, "_lease", lease)
    monkeypatch.setattr(EtcdArbiter, "_is_led", is_led)
    return COUNTED_AGAIN


@pytest.mark.parametrize(
    "mistake", [unconditional, known_epochs_do_not_count, a_revision_is_a_leadership]
)
def test_a_mistake_planted_in_that_of_etcd_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Any
) -> None:
    async def whole(steps: list[Any]) -> None:
        oracle = Oracle()
        async with Gate(Etcd()) as gate:
            await play(OfEtcd(gate, oracle), oracle, steps)

    for steps in (FORGOTTEN, COUNTED_AGAIN):
        asyncio.run(whole(steps))
    steps = mistake(monkeypatch)
    with pytest.raises(AssertionError):
        asyncio.run(whole(steps))
