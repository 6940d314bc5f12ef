"""The arbiter of etcd with real ones: the suite, members that are killed and stopped, logins, TLS.

Needs etcd, which `make test` installs where it may.
"""

import asyncio
import itertools
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar

import pytest
import trustme

from daybook.replication.arbiters.arbiter import Arbiter, ArbiterFault
from daybook.replication.arbiters.etcd import EtcdArbiter
from daybook.replication.arbiters.etcd_gateway import Gateway, Members
from tests.suites.arbiter_suite import ArbiterSuite, Worlds, leads
from tests.support.arbiters.etcd_process import Member, etcd, wait_healthy

pytestmark = pytest.mark.interop

TIMEOUT = 20.0
SHORT = 2_000_000
"""The shortest lease that etcd grants."""
NUMBERS = itertools.count()
Answer = TypeVar("Answer")


class RealWorld:
    """A cluster of nodes of its own in an etcd. A lease is long enough for a slow machine."""

    microseconds = 6_000_000

    def __init__(self, members: list[Member], timeout: float = TIMEOUT, login: str = "") -> None:
        self._members = Members(tuple(each.url for each in members), login)
        self._timeout = timeout
        self._cluster = f"c{next(NUMBERS)}"
        self._made: list[EtcdArbiter] = []

    def arbiter(self, microseconds: int = microseconds, **how: str) -> EtcdArbiter:
        gateway = Gateway(self._members._replace(**how), self._timeout)
        self._made.append(EtcdArbiter(gateway, "daybook", self._cluster, microseconds))
        return self._made[-1]

    async def sleep(self, leases: float) -> None:
        await asyncio.sleep(leases * self.microseconds / 1e6)

    async def close(self) -> None:
        for each in self._made:
            await each.close()


@asynccontextmanager
async def used(members: list[Member], timeout: float = TIMEOUT) -> AsyncIterator[RealWorld]:
    made = RealWorld(members, timeout)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    with etcd(tmp_path_factory.mktemp("etcd")) as members:
        yield members


@pytest.fixture
def world(single: list[Member]) -> Worlds:
    return lambda: used(single)


class TestRealEtcd(ArbiterSuite):
    pass


async def until_answered(ask: Callable[[], "asyncio.Future[Answer]"]) -> Answer:
    """Ask again until there is an answer."""
    while True:
        try:
            return await ask()
        except ArbiterFault:
            await asyncio.sleep(0.05)


def test_an_etcd_that_is_killed_keeps_the_lease_and_the_list(tmp_path: Path) -> None:
    async def scene(members: list[Member]) -> None:
        async with used(members, 5.0) as made:
            one, two = made.arbiter(20_000_000), made.arbiter()
            lease = await leads(one)
            kept = await one.set_in_sync(lease.epoch, ("a", "b"), 0)
            members[0].kill()
            for call in (one.renew(lease.epoch), two.holder(), two.acquire("b", "", 0)):
                with pytest.raises(ArbiterFault, match="does not answer"):
                    await call
            members[0].start()
            # Leases begin again when etcd starts.
            assert await until_answered(lambda: asyncio.ensure_future(one.renew(lease.epoch)))
            assert await two.acquire("b", "", 0) is None
            assert await two.in_sync() == kept
            await one.release(lease.epoch)
            later = await two.acquire("b", "", 0)
            assert later is not None
            assert later.epoch > lease.epoch

    with etcd(tmp_path) as members:
        asyncio.run(scene(members))


def test_an_etcd_that_is_stopped_never_lets_two_have_it(tmp_path: Path) -> None:
    async def scene(members: list[Member]) -> None:
        async with used(members, 1.5) as made:
            one, two = made.arbiter(SHORT), made.arbiter(SHORT)
            lease = await leads(one)
            members[0].signal(signal.SIGSTOP)
            begun = time.monotonic()
            for call in (one.renew(lease.epoch), two.acquire("b", "", 0)):
                with pytest.raises(ArbiterFault, match="does not answer"):
                    await call
            assert time.monotonic() - begun < 20
            await asyncio.sleep(3)
            members[0].signal(signal.SIGCONT)
            renewed = await until_answered(lambda: asyncio.ensure_future(one.renew(lease.epoch)))
            other = await until_answered(
                lambda: asyncio.ensure_future(two.acquire("b", "", lease.epoch))
            )
            assert renewed is None or other is None
            assert other is None or other.epoch > lease.epoch

    with etcd(tmp_path) as members:
        asyncio.run(scene(members))


def test_an_etcd_that_lost_its_disk_continues_behind_the_epochs(tmp_path: Path) -> None:
    async def scene(members: list[Member]) -> None:
        async with used(members) as made:
            one, two = made.arbiter(), made.arbiter()
            for _ in range(5):
                lease = await leads(one)
                await one.release(lease.epoch)
            lease = await leads(one)
            members[0].kill()
            members[0].forget()
            members[0].start()
            wait_healthy(members)
            assert (
                await until_answered(lambda: asyncio.ensure_future(one.renew(lease.epoch))) is None
            )
            later = None
            while later is None:
                later = await two.acquire("b", "", lease.epoch)
            assert later.epoch > lease.epoch
            assert await two.renew(later.epoch) == later

    with etcd(tmp_path) as members:
        asyncio.run(scene(members))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    with etcd(tmp_path_factory.mktemp("three"), 3) as members:
        yield members


def restarted(three: list[Member]) -> None:
    for each in three:
        if each.process is None:
            each.start()
    wait_healthy(three)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_any_member_of_three_may_be_lost(three: list[Member], number: signal.Signals) -> None:
    """Also the one that leads etcd: another one does within the lease."""

    async def scene(lost: Member) -> None:
        async with used(three, 1.5) as made:
            one, two = made.arbiter(60_000_000), made.arbiter()
            lease = await leads(one)
            lost.signal(number)
            if number == signal.SIGKILL:
                lost.kill()
            renewed = await until_answered(lambda: asyncio.ensure_future(one.renew(lease.epoch)))
            assert renewed == lease
            other = await until_answered(lambda: asyncio.ensure_future(two.acquire("b", "", 0)))
            assert other is None
            await until_answered(lambda: asyncio.ensure_future(one.release(lease.epoch)))

    for each in three:
        asyncio.run(scene(each))
        if number == signal.SIGSTOP:
            each.signal(signal.SIGCONT)
        restarted(three)


def test_one_member_of_three_decides_nothing(three: list[Member]) -> None:
    async def scene() -> None:
        async with used(three) as made:
            lease = await leads(made.arbiter())
        async with used(three, 2.0) as made:
            arbiter = made.arbiter()
            three[0].kill()
            three[1].kill()
            for call in (
                arbiter.holder(), arbiter.in_sync(), arbiter.acquire("a", "", 0),
                arbiter.acquire("a", "", lease.epoch),
            ):  # fmt: skip
                with pytest.raises(ArbiterFault, match="does not answer"):
                    await call

    asyncio.run(scene())
    restarted(three)


Spans = dict[int, tuple[float, float]]
"""By epoch: when its holder knew that it has it, and until when it may count on that."""


async def contend(arbiter: Arbiter, name: str, spans: Spans, ends: float, seed: int) -> None:
    """Ask for the lease, keep it for a while, and lose it in some way."""
    chance = random.Random(seed)
    above = 0
    while time.monotonic() < ends:
        asked = time.monotonic()
        lease = await arbiter.acquire(name, f"tcp://{name}:1", above)
        got = time.monotonic()
        while lease is not None:
            above = lease.epoch
            spans[above] = (got, asked + lease.microseconds / 1e6)
            await asyncio.sleep(chance.choice((0.05, 0.3, 0.8)))
            way = chance.random()
            if way < 0.2:
                spans[above] = (got, min(spans[above][1], time.monotonic()))
                await arbiter.release(above)
            if way < 0.3:
                break
            asked = time.monotonic()
            lease = await arbiter.renew(above)
        await asyncio.sleep(chance.random() / 4)


def test_of_three_contenders_one_has_it_at_a_time_whatever_the_clock_says(
    single: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the machine jumps; only clocks that never go back count."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    clock, jumps = time.time, random.Random(seed)
    monkeypatch.setattr(time, "time", lambda: clock() + jumps.randrange(-(10**6), 10**6))
    spans: Spans = {}

    async def scene() -> None:
        async with used(single) as made:
            ends = time.monotonic() + 12
            contenders = [
                contend(made.arbiter(SHORT), name, spans, ends, seed + i)
                for i, name in enumerate("abc")
            ]
            await asyncio.gather(*contenders)

    asyncio.run(scene())
    assert len(spans) >= 2
    for (_, ended), (got, _) in itertools.pairwise(span for _, span in sorted(spans.items())):
        assert got >= ended


def ask_by_hand(url: str, path: str, content: dict[str, object]) -> None:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=20)
    connection.request("POST", f"/v3/{path}", json.dumps(content))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def test_a_login(tmp_path: Path) -> None:
    file = tmp_path / "passcode"
    file.write_text("secret\n")

    async def scene(members: list[Member]) -> None:
        async with used(members) as made:
            with pytest.raises(ArbiterFault, match="kv/txn: etcdserver: user name is empty"):
                await made.arbiter().holder()
            known = made.arbiter(login="root", passcode_file=str(file))
            lease = await leads(known)
            assert await known.renew(lease.epoch) == lease
            file.write_text("wrong\n")
            with pytest.raises(ArbiterFault, match="authentication failed"):
                await made.arbiter(login="root", passcode_file=str(file)).holder()

    with etcd(tmp_path) as members:
        url = members[0].url
        ask_by_hand(url, "auth/user/add", {"name": "root", "password": "secret"})
        ask_by_hand(url, "auth/role/add", {"name": "root"})
        ask_by_hand(url, "auth/user/grant", {"user": "root", "role": "root"})
        ask_by_hand(url, "auth/enable", {})
        asyncio.run(scene(members))


def test_tls_with_certificates_of_both(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = {name: str(tmp_path / name) for name in ("ca", "other", "cert", "key", "own")}
    authority.cert_pem.write_to_path(files["ca"])
    other.cert_pem.write_to_path(files["other"])
    certificate.cert_chain_pems[0].write_to_path(files["cert"])
    certificate.private_key_pem.write_to_path(files["key"])
    authority.issue_cert("node").private_key_and_cert_chain_pem.write_to_path(files["own"])

    async def scene(members: list[Member]) -> None:
        async with used(members) as made:
            known = made.arbiter(authority=files["ca"], certificate=files["own"])
            await until_answered(lambda: asyncio.ensure_future(known.acquire("a", "", 0)))
            assert await known.holder()
            for how in ({"authority": files["other"]}, {"authority": files["ca"]}):
                with pytest.raises(ArbiterFault, match="does not answer"):
                    await made.arbiter(**how).holder()
            missing = made.arbiter(authority=str(tmp_path / "none"))
            with pytest.raises(ArbiterFault, match="No such file"):
                await missing.holder()

    options = ["--cert-file", files["cert"], "--key-file", files["key"], "--client-cert-auth"]
    with etcd(tmp_path, options=[*options, "--trusted-ca-file", files["ca"]]) as members:
        asyncio.run(scene(members))
