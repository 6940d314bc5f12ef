"""Lanes over real sockets: what followers answer counts, whatever else the other side does."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
import trustme
import uvloop

from daybook.journal.places import Place
from daybook.replication.lanes import lane as lane_module
from daybook.replication.lanes.lane import Lane
from daybook.replication.lanes.lanes import Lanes
from daybook.replication.leading import Acked, BrokerEnd, NodeEnd, Told, Wrote
from daybook.replication.links import Address, Link, Listener, Patience, Security
from daybook.replication.messages import Ack, Blocks
from daybook.replication.quorum import Acks
from daybook.replication.runner import Settings
from daybook.replication.wire import LANE_BYTES_MAX, VERSION, Hello, Message, Pong, pack
from tests.support.process import wait_for as wait_in_thread
from tests.unit.replication.test_leading import other_end

EPOCH = 7
PATIENCE = Patience(hello=2.0, beat=0.05, silence=1.0, first_retry=0.01, last_retry=0.05)
LOCAL = Address("127.0.0.1", 0)


class Follower:
    """A node that takes lanes, and acknowledges all blocks if it `answers`."""

    def __init__(self, name: str, names: str, security: Security | None) -> None:
        self.links: list[Link] = []
        self.heard: list[Message] = []
        self.answers = True
        self.refuses = ""
        context = security.contexts()[0] if security is not None else None
        self.listener = Listener(
            Hello(VERSION, "shop", name), dict.fromkeys(names, LOCAL), self, patience=PATIENCE,
            context=context,
        )  # fmt: skip

    def has(self, begin: Place) -> bool:
        """Whether the last block that came begins at a place; those before may be with it."""
        if not self.heard:
            return False
        last = self.heard[-1]
        assert isinstance(last, Blocks)
        assert last.data == bytes(len(last.data))
        end = last.place.offset + len(last.data)
        return (last.place.segment, end) == (begin.segment, begin.offset + 100)

    def opened(self, link: Link) -> None:
        assert link.hello is not None
        assert link.hello.lead == EPOCH
        if self.refuses:
            link.end(self.refuses)
        self.links.append(link)

    def received(self, link: Link, message: Message) -> None:
        self.heard.append(message)
        if self.answers and isinstance(message, Blocks):
            end = message.place.offset + len(message.data)
            # The last of blocks of 100 bytes, whose events have the numbers of their places.
            link.send(Ack(message.place._replace(offset=end), end - 100))

    def lost(self, link: Link, why: str) -> None:
        self.listener.forget(link)

    def other_arbiter(self, node: str, why: str) -> None:
        raise AssertionError


class World:
    """The lanes of node a, and its followers."""

    def __init__(
        self, names: str = "abc", security: dict[str, Security] | None = None,
        patience: Patience = PATIENCE, hangs: bool = False,
    ) -> None:  # fmt: skip
        """A connection that is being opened `hangs`."""
        self.hangs = hangs
        self.names = names
        self.patience = patience
        self.security = security or {}
        self.durable: list[int] = []
        self.may_confirm = True
        self.followers = {
            name: Follower(name, names, self.security.get(name)) for name in names if name != "a"
        }
        self.node = NodeEnd("a")
        self.node.lead(EPOCH)
        self.end: BrokerEnd = other_end(self.node)
        self.lanes: Lanes

    async def __aenter__(self) -> "World":
        nodes = {"a": LOCAL}
        for name, follower in self.followers.items():
            nodes[name] = await follower.listener.start(LOCAL)
        settings = Settings(
            "shop", "a", nodes, LOCAL, Acks.MAJORITY, patience=self.patience,
            security=self.security.get("a"),
        )  # fmt: skip
        self.lanes = Lanes(
            settings, self.end, asyncio.get_running_loop(), self.count, lambda: settings.security
        )
        self.lanes.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.lanes.close()
        for follower in self.followers.values():
            await follower.listener.stop()
        # A connection that is opened now is closed by the loop.
        await until(lambda: self.hangs or "lane" not in {each.name for each in enumerate_threads()})
        await asyncio.sleep(0)
        self.end.close()
        self.node.close()

    async def are_open(self, names: str = "bc") -> None:
        await until(lambda: self.lanes.status()["open"] == list(names))

    def count(self, lsn: int) -> bool:
        if self.may_confirm:
            self.durable.append(lsn)
        return self.may_confirm

    def begin(self) -> None:
        """Let the node count the first block."""
        self.lanes.wrote(Place(1, 100), 100)
        self.lanes.confirmed(100)

    def share(self, begin: int, data: bytes = bytes(100)) -> None:
        """Send a block over the lanes, and write it; its last LSN is the place of its begin."""
        place = Place(1, begin)
        assert self.lanes.takes(place, len(data))
        self.lanes.send(place, data)
        self.lanes.wrote(Place(1, begin + len(data)), begin)

    def counts(self, lsn: int) -> bool:
        return self.durable[-1] == lsn

    def hears(self, heard: list[Told], wanted: Told) -> bool:
        """Whether the node has heard something, now or before."""
        heard.extend(self.node.receive())
        return wanted in heard


async def until(found: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not found():
            await asyncio.sleep(0.005)


def run(work: Callable[[World], Awaitable[None]], **how: Any) -> None:
    async def scene() -> None:
        async with asyncio.timeout(60), World(**how) as world:
            await work(world)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())


async def _counts(world: World) -> None:
    await world.are_open()
    world.begin()
    for begin in (100, 200, 300):
        world.share(begin)
    await until(lambda: world.durable[-1] == 300)
    for follower in world.followers.values():
        await until(partial(follower.has, Place(1, 300)))
    found: list[Told] = []
    await until(lambda: world.hears(found, Wrote(Place(1, 400), 300)))
    # The node heard first what the followers have, by their numbers.
    acked = [each for each in found if isinstance(each, Acked)]
    assert {each.number for each in acked if each.place == Place(1, 400)} == {0, 1}


def test_what_enough_followers_have_counts_without_the_node() -> None:
    run(_counts)


def test_lanes_show_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    security = {name: _security(authority, tmp_path, name) for name in "abc"}
    run(_counts, security=security)


def _security(authority: trustme.CA, folder: Path, name: str) -> Security:
    made = authority.issue_cert(name)
    files = [folder / f"{name}.{kind}" for kind in ("pem", "key", "ca")]
    made.cert_chain_pems[0].write_to_path(files[0])
    made.private_key_pem.write_to_path(files[1])
    authority.cert_pem.write_to_path(files[2])
    return Security(*files)


def test_a_follower_with_the_certificate_of_another_gets_nothing(tmp_path: Path) -> None:
    authority = trustme.CA()
    security = {name: _security(authority, tmp_path, name) for name in "ac"}
    security["b"] = _security(authority, tmp_path, "x.example")

    async def scene(world: World) -> None:
        await until(lambda: "names x.example" in world.lanes.trouble.get("b", ""))
        await world.are_open("c")
        world.begin()
        world.share(100)
        assert world.followers["b"].heard == []

    run(scene, security=security)


def test_one_that_has_not_joined_is_asked_again() -> None:
    async def scene(world: World) -> None:
        world.followers["b"].refuses = "not yet"
        await world.are_open("c")
        await until(lambda: len(world.followers["b"].links) > 2)
        assert world.lanes.status()["closed"].keys() == {"b"}
        world.followers["b"].refuses = ""
        await world.are_open()
        assert world.lanes.status()["closed"] == {}

    run(scene)


def test_a_follower_that_acknowledges_nothing_loses_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_module, "UNANSWERED_MAX", 3)

    async def scene(world: World) -> None:
        world.followers["b"].answers = False
        await world.are_open()
        world.begin()
        begin = 100
        while not world.lanes.trouble["b"]:
            world.share(begin)
            # The other one is enough.
            await until(partial(world.counts, begin))
            begin += 100
        assert world.lanes.trouble["b"] == "the follower does not acknowledge"
        assert begin > 300

    # It is not opened again meanwhile.
    run(scene, patience=PATIENCE._replace(first_retry=60.0))


def test_one_that_hangs_is_noticed_and_delays_nobody() -> None:
    async def scene(world: World) -> None:
        await world.are_open()
        world.begin()
        lost = world.followers["b"]
        for link in lost.links:
            link.transport.pause_reading()
        await until(lambda: world.lanes.status()["open"] == ["c"])
        world.share(100)
        await until(lambda: world.durable[-1] == 100)

    run(scene)


def test_large_blocks_and_those_elsewhere_are_left_to_the_node() -> None:
    async def scene(world: World) -> None:
        await world.are_open()
        world.begin()
        assert not world.lanes.takes(Place(1, 100), LANE_BYTES_MAX + 1)
        assert not world.lanes.takes(Place(2, 100), 10)
        world.lanes.wrote(Place(2, 100), 200)
        assert world.node.receive()[-1] == Wrote(Place(2, 100), 200)

    run(scene)


@contextmanager
def a_server(said: bytes) -> Iterator[tuple[Address, list[bytes]]]:
    """Listen as something that is no follower."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(said)
                    heard.append(connection.recv(1 << 16))

        Thread(target=serve, daemon=True).start()
        yield Address(*listening.getsockname()[:2]), heard


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(64), "a frame is damaged"),
        (b"".join(pack(Hello(VERSION, "shop", "c"))), "'c' of 'shop' answers"),
        (b"".join(pack(Hello(VERSION, "other", "b"))), "'b' of 'other' answers"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_follower_gets_no_block(said: bytes, why: str) -> None:
    hello = Hello(VERSION, "shop", "a", lead=EPOCH)
    with a_server(said) as (address, heard):
        with pytest.raises(Exception, match=why):
            lane_module.dial("b", address, hello, None, 2.0)
        wait_in_thread(lambda: heard, "what came")
        assert len(heard[0]) < 200


def test_a_lane_that_says_anything_else_ends() -> None:
    async def scene(world: World) -> None:
        await world.are_open()
        for link in world.followers["b"].links:
            link.send(Hello(VERSION, "shop", "b"))
        await until(lambda: "belongs to no lane" in world.lanes.trouble["b"])
        # It is opened again.
        await world.are_open()

    run(scene)


def test_what_may_not_be_confirmed_now_is_confirmed_later() -> None:
    """A lease may lapse for a moment, and be renewed."""

    async def scene(world: World) -> None:
        await world.are_open()
        world.begin()
        world.may_confirm = False
        world.share(100)
        await until(lambda: not world.lanes.counting.is_behind)
        world.may_confirm = True
        world.lanes.confirmed(100)
        assert world.durable == [100]
        world.lanes.confirmed(100)
        assert world.durable == [100]

    run(scene)


def test_a_follower_that_joins_again_does_not_count_before() -> None:
    async def scene(world: World) -> None:
        await world.are_open()
        world.begin()
        world.share(100)
        await until(partial(world.counts, 100))
        assert world.lanes.forget(0) == 100
        assert world.lanes.status()["open"] == ["c"]
        found = world.node.receive()
        assert Wrote(Place(1, 200), 100) in found
        await world.are_open()

    run(scene)


def test_a_lane_that_nobody_has_taken_yet_ends_too_when_its_follower_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may bring later an answer from before the follower lost its disk."""
    lanes: list[Lane] = []

    def taken(lane: Lane, message: Message) -> None:
        assert isinstance(message, Pong)
        lanes.append(lane)

    monkeypatch.setattr(Lane, "_take", taken)

    async def scene(world: World) -> None:
        await until(lambda: lanes)
        assert not any(each.was_open for each in lanes)
        for number in range(2):
            world.lanes.forget(number)
        assert {each.why for each in lanes} == {"the follower joins again"}

    run(scene)


def test_a_broker_ends_though_a_follower_says_nothing() -> None:
    connections: list[socket.socket] = []

    async def scene(world: World) -> None:
        world.lanes.close()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            nodes = {"a": LOCAL, "b": Address(*silent.getsockname()[:2])}
            settings = Settings(
                "shop", "a", nodes, LOCAL, Acks.ONE, patience=PATIENCE._replace(hello=600.0)
            )
            lanes = Lanes(
                settings, world.end, asyncio.get_running_loop(), world.count, lambda: None
            )
            lanes.start()
            connection, _ = await asyncio.to_thread(silent.accept)
            lanes.close()
        # To wait for the thread would take ten minutes.
        connections.append(connection)

    run(scene, hangs=True)
    for each in connections:
        each.close()


def test_lanes_end_with_the_lead() -> None:
    async def scene(world: World) -> None:
        await world.are_open()
        world.lanes.close()
        await until(lambda: not any(each.listener.lanes for each in world.followers.values()))

    run(scene)
