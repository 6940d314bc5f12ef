"""The suite of arbiters on a gateway that tests own, and what such a gateway may do to a node."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from daybook.replication.arbiters.arbiter import ArbiterFault, Claim
from daybook.replication.arbiters.etcd import EtcdArbiter
from daybook.replication.arbiters.etcd_gateway import Gateway, Members
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease
from tests.suites.arbiter_suite import ArbiterSuite, Worlds, leads
from tests.support.arbiters.fake_etcd import (
    AFTER,
    MISDEEDS,
    Etcd,
    Gate,
    Misdeed,
    closed,
    done_and_lost,
    hang,
    no_leader,
)

MICROSECONDS = 2_000_000
TIMEOUT = 0.4
KEYS = "daybook/c"


class FakeWorld:
    """Some members of an etcd whose clock moves by hand."""

    microseconds = MICROSECONDS

    def __init__(self, gates: list[Gate], timeout: float) -> None:
        self.gates = gates
        self.etcd = gates[0].etcd
        self.made: list[EtcdArbiter] = []
        self._timeout = timeout

    def arbiter(self, login: str = "", passcode_file: str = "") -> EtcdArbiter:
        members = Members(tuple(each.url for each in self.gates), login, passcode_file)
        gateway = Gateway(members, self._timeout)
        self.made.append(EtcdArbiter(gateway, "daybook/", "c", MICROSECONDS))
        return self.made[-1]

    async def sleep(self, leases: float) -> None:
        self.etcd.now += int(leases * MICROSECONDS)


@asynccontextmanager
async def fake(members: int = 1, timeout: float = 20.0) -> AsyncIterator[FakeWorld]:
    gates = [Gate(etcd) for etcd in [Etcd()] for _ in range(members)]
    for each in gates:
        await each.__aenter__()
    made = FakeWorld(gates, timeout)
    try:
        yield made
    finally:
        for arbiter in made.made:
            await arbiter.close()
        for each in gates:
            await each.__aexit__()


@pytest.fixture
def world() -> Worlds:
    return fake


class TestEtcdArbiter(ArbiterSuite):
    pass


async def leads_at_last(arbiter: EtcdArbiter) -> Lease:
    """Return the lease, although this machine may be slower than a short time-out."""
    while True:
        with suppress(ArbiterFault):
            lease = await arbiter.acquire("a", "", 0)
            if lease is not None:
                return lease


@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda each: each.__name__)
def test_no_member_keeps_a_call_longer_than_its_time_out(misdeed: Misdeed) -> None:
    async def scene() -> None:
        async with fake(timeout=TIMEOUT) as made:
            arbiter = made.arbiter()
            lease = await leads_at_last(arbiter)
            made.gates[0].always = misdeed
            for call in (
                arbiter.acquire("a", "", 0), arbiter.renew(lease.epoch), arbiter.holder(),
                arbiter.in_sync(), arbiter.set_in_sync(lease.epoch, ("a",), 0),
                arbiter.release(lease.epoch),
            ):  # fmt: skip
                begun = time.monotonic()
                with pytest.raises(ArbiterFault, match="etcd does not answer"):
                    await call
                assert time.monotonic() - begun < TIMEOUT + 10
            made.gates[0].always = None
            await made.sleep(2)
            assert (await leads_at_last(arbiter)).epoch > lease.epoch

    asyncio.run(scene())


@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda each: each.__name__)
def test_another_member_is_asked_then(misdeed: Misdeed) -> None:
    async def scene() -> None:
        async with fake(2, timeout=6.0) as made:
            made.gates[0].always = misdeed
            arbiter = made.arbiter()
            lease = await leads(arbiter)
            assert await arbiter.renew(lease.epoch) == lease
            # The one that answered is asked first from then on.
            assert len(made.gates[0].asked) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("misdeed", AFTER, ids=lambda each: each.__name__)
@pytest.mark.parametrize("position", range(3))
def test_a_try_whose_answer_was_lost_is_no_obstacle(misdeed: Misdeed, position: int) -> None:
    """It is given up before the next one, which gets a larger epoch."""

    async def scene() -> None:
        async with fake(timeout=3.0) as made:
            made.gates[0].misdeeds.extend([*[None] * position, misdeed])
            arbiter = made.arbiter()
            with pytest.raises(ArbiterFault):
                await arbiter.acquire("a", "", 0)
            in_vain = await made.arbiter().holder()
            assert (in_vain is not None) is (position == 2)
            lease = await leads(arbiter)
            holder = await arbiter.holder()
            assert holder is not None
            assert holder.epoch == lease.epoch
            assert in_vain is None or lease.epoch > in_vain.epoch

    asyncio.run(scene())


def test_a_second_member_tells_that_the_first_one_did_it() -> None:
    """The first one created the key, its answer was lost, and the second one finds it there."""

    async def scene() -> None:
        async with fake(2) as made:
            made.gates[0].misdeeds.extend([None, None, done_and_lost])
            arbiter = made.arbiter()
            lease = await leads(arbiter)
            assert made.gates[1].asked == ["kv/txn"]
            assert await arbiter.renew(lease.epoch) == lease

    asyncio.run(scene())


def test_a_change_of_the_list_that_comes_late_changes_nothing() -> None:
    async def scene() -> None:
        async with fake() as made:
            arbiter = made.arbiter()
            lease = await leads(arbiter)
            gate = made.gates[0]
            gate.misdeeds.append(done_and_lost)
            with pytest.raises(ArbiterFault):
                await arbiter.set_in_sync(lease.epoch, ("a", "b"), 0)
            # It was done, so a second one that knows only the old list is refused.
            assert await arbiter.set_in_sync(lease.epoch, ("a",), 0) is None
            found = await arbiter.in_sync()
            assert found.nodes == ("a", "b")
            assert await arbiter.set_in_sync(lease.epoch, ("a",), found.version) is not None

    asyncio.run(scene())


def test_a_key_that_is_removed_by_hand_ends_the_lease() -> None:
    async def scene() -> None:
        async with fake() as made:
            arbiter = made.arbiter()
            lease = await leads(arbiter)
            made.etcd.remove(f"{KEYS}/leader")
            assert await arbiter.renew(lease.epoch) is None
            assert (await leads(arbiter)).epoch > lease.epoch

    asyncio.run(scene())


def test_an_etcd_that_forgot_everything_continues_behind_the_epochs_of_the_nodes() -> None:
    async def scene() -> None:
        async with fake() as made:
            one, two = made.arbiter(), made.arbiter()
            lease = await leads(one, 500) if await one.acquire("a", "", 500) else await leads(one)
            made.etcd.forget()
            assert await one.renew(lease.epoch) is None
            assert await two.in_sync() == InSync()
            assert await two.acquire("b", "", lease.epoch) is None
            later = await two.acquire("b", "", lease.epoch)
            assert later is not None
            assert later.epoch > lease.epoch
            # Another node, which knows even more, raises it once more.
            await two.release(later.epoch)
            assert await one.acquire("a", "", 9_000) is None
            last = await one.acquire("a", "", 9_000)
            assert last is not None
            assert last.epoch > 9_000

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("leader", b"nobody", r"key daybook/c/leader of etcd is not of Daybook; remove it"),
        ("leader", b"{}", r"key daybook/c/leader of etcd is not of Daybook; remove it"),
        ("base", b"-1", r"key daybook/c/base of etcd is not of Daybook: write a number"),
        ("in-sync", b"\xff", r'key daybook/c/in-sync .*: write .*, like \["one", "two"\]'),
    ],
)
def test_a_key_that_is_not_of_daybook_is_told(key: str, value: bytes, expected: str) -> None:
    async def scene() -> None:
        async with fake() as made:
            arbiter = made.arbiter()
            if key == "base":
                await leads(arbiter)
            made.etcd.write(f"{KEYS}/{key}", value)
            with pytest.raises(ArbiterFault, match=expected):
                await (arbiter.in_sync() if key == "in-sync" else arbiter.holder())

    asyncio.run(scene())


def test_members_of_different_clusters_are_refused() -> None:
    """Each of them could grant a lease, to different nodes."""

    async def scene() -> None:
        async with fake(2) as made:
            made.gates[1].etcd = Etcd()
            made.gates[1].etcd.cluster += 1
            arbiter = made.arbiter()
            assert await arbiter.holder() is None
            made.gates[0].misdeeds.append(no_leader)
            # Nothing is known of the cluster of a member that does not answer.
            assert await arbiter.holder() is None
            made.gates[1].misdeeds.append(closed)
            assert await arbiter.holder() is None

    asyncio.run(scene())


def test_a_login_gets_a_token_and_another_one_when_it_is_old(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text("secret\nand more\n")

    async def scene() -> None:
        async with fake() as made:
            made.etcd.passcode = "secret"
            arbiter = made.arbiter("daybook", str(file))
            lease = await leads(arbiter)
            assert made.etcd.tokens == {"token.1"}
            made.etcd.tokens.clear()
            assert await arbiter.renew(lease.epoch) == lease
            assert len(made.etcd.tokens) == 1
            made.etcd.tokens.clear()
            made.etcd.passcode = "another"
            with pytest.raises(ArbiterFault, match="invalid user ID or password"):
                await arbiter.holder()
            file.write_text("another")
            assert await arbiter.renew(lease.epoch) == lease
            file.unlink()
            made.etcd.tokens.clear()
            with pytest.raises(ArbiterFault, match=r"passcode cannot be read: .*No such file"):
                await arbiter.holder()

    asyncio.run(scene())


def test_a_refusal_is_not_asked_of_every_member() -> None:
    async def scene() -> None:
        async with fake(2) as made:
            made.etcd.passcode = "secret"
            arbiter = made.arbiter()
            with pytest.raises(ArbiterFault, match=r"refuses kv/txn: etcdserver: invalid auth"):
                await arbiter.holder()
            assert made.gates[1].asked == []

    asyncio.run(scene())


def test_nobody_there_is_told_with_all_members() -> None:
    async def scene() -> None:
        endpoints = ("http://127.0.0.1:1", "http://nowhere.invalid:2379", "http://[::1]:1")
        arbiter = EtcdArbiter(Gateway(Members(endpoints), 5.0), "p", "c", MICROSECONDS)
        with pytest.raises(ArbiterFault) as caught:
            await arbiter.holder()
        assert all(each in str(caught.value) for each in endpoints)
        await arbiter.close()

    asyncio.run(scene())


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    pair = trustme.CA().issue_cert("node")
    certificate, key = str(tmp_path / "certificate"), tmp_path / "key"
    pair.cert_chain_pems[0].write_to_path(certificate)
    bare = load_pem_private_key(pair.private_key_pem.bytes(), None)
    secret = BestAvailableEncryption(b"secret")
    key.write_bytes(bare.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))

    async def scene() -> None:
        members = Members(("https://127.0.0.1:1",), certificate=certificate, key=str(key))
        arbiter = EtcdArbiter(Gateway(members, 20.0), "p", "c", MICROSECONDS)
        with pytest.raises(ArbiterFault, match=r"https://127\.0\.0\.1:1: \[SSL\]"):
            await arbiter.holder()
        await arbiter.close()

    asyncio.run(scene())


def test_a_hanging_member_never_takes_a_turn_of_the_loop() -> None:
    async def scene() -> None:
        async with fake(timeout=2.0) as made:
            made.gates[0].always = hang
            arbiter = made.arbiter()
            asked = asyncio.ensure_future(arbiter.holder())
            turns = 0
            while not asked.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert turns > 5
            with pytest.raises(ArbiterFault):
                await asked

    asyncio.run(scene())


def test_two_prefixes_are_two_arbiters() -> None:
    """Also in one etcd: nodes compare these ids."""

    async def scene() -> None:
        async with fake() as made:
            gateways = [Gateway(Members((made.gates[0].url,)), 20.0) for _ in range(2)]
            one, two = (
                EtcdArbiter(gateway, prefix, "c", MICROSECONDS)
                for gateway, prefix in zip(gateways, ("first", "second"), strict=True)
            )
            claimed = [await each.claim("a", Claim("1")) for each in (one, two)]
            assert [each.other for each in claimed] == [None, None]
            assert claimed[0].arbiter != claimed[1].arbiter
            assert one.place.endswith(", keys first/c")
            await one.close()
            await two.close()

    asyncio.run(scene())


def test_a_key_of_something_else_is_named() -> None:
    async def scene() -> None:
        async with fake() as made:
            made.etcd.write(f"{KEYS}/nodes/a", b"mine")
            with pytest.raises(ArbiterFault, match="nodes/a of etcd is not of Daybook; remove it"):
                await made.arbiter().claim("a", Claim("1"))

    asyncio.run(scene())
