"""Nodes connect to each other, notice silence, and let strangers cost little."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
import uvloop

from daybook.journal.places import Place
from daybook.replication import links
from daybook.replication.links import (
    Address,
    Dialer,
    Link,
    LinkRefused,
    Listener,
    Patience,
    Security,
    check_certificate,
    needs_security,
)
from daybook.replication.messages import Ack, Ask, Blocks
from daybook.replication.wire import VERSION, Hello, Message, pack

QUICK = Patience(hello=1.0, beat=0.05, silence=0.5, first_retry=0.01, last_retry=0.05)
HERE = Address("127.0.0.1", 0)
HELLO_A, HELLO_B = Hello(VERSION, "c", "a"), Hello(VERSION, "c", "b")
NODES = {name: HERE for name in "ab"}


LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]


@pytest.fixture(
    autouse=True, params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["", "uv"]
)
def loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nodes run in the loop of uvloop."""
    LOOPS.append(request.param)
    yield
    LOOPS.pop()


class Node:
    """An owner of links that keeps what it hears."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.heard: list[Message] = []
        self.lost_why: list[str] = []
        self.strays: list[tuple[str, str]] = []

    def opened(self, link: Link) -> None:
        self.links.append(link)

    def received(self, link: Link, message: Message) -> None:
        self.heard.append(message)

    def lost(self, link: Link, why: str) -> None:
        self.lost_why.append(why)

    def other_arbiter(self, node: str, why: str) -> None:
        self.strays.append((node, why))


class Pair:
    """Node b listens, node a dials it; `certificates` are those of a and b."""

    def __init__(
        self, *, patience: Patience = QUICK, hello_a: Hello = HELLO_A,
        hello_b: Hello = HELLO_B,
        certificates: tuple[Security, Security] | None = None,
    ) -> None:  # fmt: skip
        self.a, self.b = Node(), Node()
        self.patience = patience
        self.hello_a = hello_a
        inner = certificates[1].contexts()[0] if certificates else None
        self.outer = certificates[0].contexts()[1] if certificates else None
        self.listener = Listener(hello_b, NODES, self.b, patience=patience, context=inner)

    async def __aenter__(self) -> "Pair":
        self.address = await self.listener.start(HERE)
        self.dialer = Dialer(
            "b", self.address, self.hello_a, self.a, patience=self.patience, context=self.outer,
            spread=lambda: 1.0,
        )  # fmt: skip
        self.dialer.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.dialer.stop()
        await self.listener.stop()
        # Let transports close.
        await asyncio.sleep(0.01)

    async def stranger(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)


async def wait_for(found: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    with asyncio.Runner(loop_factory=LOOPS[-1]) as runner:
        runner.run(bounded())


def test_messages_go_both_ways() -> None:
    async def work() -> None:
        async with Pair() as pair:
            await wait_for(lambda: pair.b.links and pair.a.links)
            said = [Ask("c", 4, "a", True), Blocks(Place(1, 72), bytes(range(256)) * 8_000)]
            for each in said:
                pair.dialer.send(each)
            await wait_for(lambda: len(pair.b.heard) == 2)
            assert pair.b.heard == said
            pair.b.links[0].send(Ack(Place(1, 100), 9))
            await wait_for(lambda: pair.a.heard)
            assert pair.a.heard == [Ack(Place(1, 100), 9)]

    run(work())


def test_nodes_with_two_arbiters_refuse_each_other() -> None:
    first = Hello(VERSION, "c", "a", "1", "the file /one")
    second = Hello(VERSION, "c", "b", "2", "the file /two")

    async def work() -> None:
        async with Pair(hello_a=first, hello_b=second) as pair:
            await wait_for(lambda: pair.a.strays and pair.b.strays)
            assert not pair.a.links
            assert not pair.b.links
            node, why = pair.a.strays[0]
            assert node == "b"
            assert "'b' asks another arbiter who leads (the file /two, id 2) than 'a'" in why
            assert "; give all nodes the same 'path' in [replication]" in why
            # One that does not know its arbiter yet is let in.
            pair.dialer.own = HELLO_A
            await wait_for(lambda: pair.a.links)

    run(work())


def test_an_idle_connection_lasts() -> None:
    async def work() -> None:
        async with Pair() as pair:
            await wait_for(lambda: pair.a.links)
            await asyncio.sleep(1.2)
            assert pair.dialer.link is pair.a.links[0]
            assert not pair.a.lost_why

    run(work())


@pytest.mark.parametrize(
    ("hello_a", "hello_b", "why"),
    [
        (Hello(VERSION, "x", "a"), Hello(VERSION, "c", "b"), "is of the cluster"),
        (Hello(VERSION, "c", "z"), Hello(VERSION, "c", "b"), "no other node"),
        (Hello(VERSION, "c", "b"), Hello(VERSION, "c", "b"), "no other node"),
        (Hello(VERSION + 1, "c", "a"), Hello(VERSION, "c", "b"), "speaks version"),
        (Hello(VERSION, "c", "a"), Hello(VERSION, "c", "a"), "answers at the address of 'b'"),
    ],
)
def test_who_is_not_the_other_node_is_refused(hello_a: Hello, hello_b: Hello, why: str) -> None:
    async def work() -> None:
        async with Pair(hello_a=hello_a, hello_b=hello_b) as pair:
            found: set[str] = set()

            def told() -> bool:
                found.update((pair.dialer.trouble, pair.listener.trouble))
                return any(why in each for each in found)

            await wait_for(told)
            assert pair.dialer.link is None
            assert not pair.a.heard

    run(work())


def test_a_node_that_answers_late_is_reached_again() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = Address(*taken.getsockname())
        node = Node()
        dialer = Dialer(
            "b", address, HELLO_A, node, patience=QUICK, context=None,
            spread=lambda: 1.0,
        )  # fmt: skip
        dialer.start()
        await wait_for(lambda: dialer.trouble)
        listener = Listener(HELLO_B, NODES, Node(), patience=QUICK, context=None)
        await listener.start(address)
        await wait_for(lambda: node.links)
        dialer.stop()
        await listener.stop()

    run(work())


def test_who_is_silent_is_dropped_on_both_sides() -> None:
    """The other side accepts, says hello, and then nothing, as a process that is stopped."""

    async def work() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.writelines(pack(HELLO_B))
            with suppress(OSError):
                await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        node = Node()
        dialer = Dialer(
            "b", Address(*server.sockets[0].getsockname()), HELLO_A, node,
            patience=QUICK, context=None, spread=lambda: 1.0,
        )  # fmt: skip
        dialer.start()
        await wait_for(lambda: node.lost_why)
        assert "was silent" in node.lost_why[0]
        dialer.stop()
        server.close()
        async with Pair() as pair:
            pair.dialer.stop()
            _, writer = await pair.stranger()
            writer.writelines(pack(HELLO_A))
            await wait_for(lambda: any("was silent" in each for each in pair.b.lost_why))
            writer.close()

    run(work())


def test_a_newer_connection_of_a_node_replaces_its_older_one() -> None:
    async def work() -> None:
        async with Pair() as pair:
            await wait_for(lambda: pair.b.links)
            _, writer = await pair.stranger()
            writer.writelines(pack(HELLO_A))
            await wait_for(lambda: len(pair.b.links) >= 2)
            assert "'a' has connected again" in pair.b.links[0].why
            writer.close()

    run(work())


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", bytes(2_000), b"\xff" * 70_000])
def test_garbage_ends_only_its_connection(said: bytes) -> None:
    async def work() -> None:
        async with Pair() as pair:
            await wait_for(lambda: pair.a.links)
            reader, writer = await pair.stranger()
            writer.write(said)
            with suppress(OSError):
                await reader.read()
            writer.close()
            await wait_for(lambda: pair.listener.refused == 1)
            assert "damaged" in pair.listener.trouble
            pair.dialer.send(Ask("c", 1, "a", True))
            await wait_for(lambda: pair.b.heard)
            assert len(pair.b.links) == 1

    run(work())


def test_garbage_behind_a_hello_ends_only_its_connection() -> None:
    async def work() -> None:
        async with Pair() as pair:
            pair.dialer.stop()
            _, writer = await pair.stranger()
            writer.writelines([*pack(HELLO_A), bytes(200)])
            await wait_for(lambda: pair.b.lost_why)
            assert "damaged" in pair.b.lost_why[0]
            writer.close()
            pair.dialer.start()
            await wait_for(lambda: pair.a.links)

    run(work())


def test_strangers_have_few_places_and_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "STRANGERS_MAX", 4)

    async def work() -> None:
        async with Pair() as pair:
            pair.dialer.stop()
            strangers = [await pair.stranger() for _ in range(12)]
            await wait_for(lambda: pair.listener.refused >= 8)
            assert len(pair.listener._strangers) <= 4
            pair.dialer.start()
            await wait_for(lambda: pair.a.links)
            # The rest goes by itself.
            await wait_for(lambda: not pair.listener._strangers)
            for _, writer in strangers:
                writer.close()

    run(work())


def test_who_does_not_read_the_answers_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "UNREAD_BYTES_MAX", 1 << 16)

    async def work() -> None:
        async with Pair(patience=QUICK._replace(silence=60)) as pair:
            await wait_for(lambda: pair.b.links and pair.a.links)
            pair.a.links[0].transport.pause_reading()
            link = pair.b.links[0]
            for _ in range(2_000_000):
                link.send(Ack(Place(1, 1), 1))
                if link.why:
                    break
            assert "does not read" in link.why
            await wait_for(lambda: pair.b.lost_why)

    run(work())


# ---- certificates


def certificates(folder: Path, *names: str) -> list[Security]:
    """A certificate of one authority for each name, or list of names."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority")
    found = []
    for number, name in enumerate(names):
        issued = authority.issue_cert(*name.split(","))
        paths = folder / f"cert{number}", folder / f"key{number}"
        issued.cert_chain_pems[0].write_to_path(paths[0])
        issued.private_key_pem.write_to_path(paths[1])
        found.append(Security(*paths, folder / "authority"))
    return found


@pytest.mark.parametrize("names", [("a", "b"), ("127.0.0.1", "127.0.0.1"), ("x,a", "127.0.0.1")])
def test_nodes_with_certificates_connect(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = certificates(tmp_path, *names)

    async def work() -> None:
        async with Pair(certificates=(first, second)) as pair:
            await wait_for(lambda: pair.b.links and pair.a.links)
            pair.dialer.send(Blocks(Place(1, 72), bytes(3_000_000)))
            await wait_for(lambda: pair.b.heard)
            assert pair.b.heard == [Blocks(Place(1, 72), bytes(3_000_000))]

    run(work())


@pytest.mark.parametrize(
    ("names", "why"), [(("z", "b"), "'a' names z"), (("a", "z"), "'b' names z")]
)
def test_a_certificate_of_another_name_is_refused(
    tmp_path: Path, names: tuple[str, str], why: str
) -> None:
    first, second = certificates(tmp_path, *names)

    async def work() -> None:
        async with Pair(certificates=(first, second)) as pair:
            await wait_for(lambda: why in pair.dialer.trouble + pair.listener.trouble)
            assert not pair.b.heard

    run(work())


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "other"
    for folder in folders:
        folder.mkdir()
    ours, theirs = certificates(folders[0], "b")[0], certificates(folders[1], "a")[0]

    async def work() -> None:
        async with Pair(certificates=(theirs, ours)) as pair:
            await wait_for(lambda: pair.dialer.trouble and pair.listener.refused)
            assert not pair.b.links

    run(work())


def test_without_a_certificate_nothing_is_said(tmp_path: Path) -> None:
    first, second = certificates(tmp_path, "a", "b")

    async def work() -> None:
        async with Pair(certificates=(first, second)) as pair:
            pair.dialer.stop()
            context = ssl.create_default_context(cafile=str(second.authority))
            context.check_hostname = False
            refused = pair.listener.refused
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(*pair.address, ssl=context)
                assert await reader.read() == b""
                writer.close()
            await wait_for(lambda: pair.listener.refused > refused)

    run(work())


def test_names_in_certificates_are_compared_as_names_and_addresses() -> None:
    found = {"subjectAltName": (("DNS", "Node-A"), ("IP Address", "0:0:0:0:0:0:0:1"))}
    check_certificate(found, "node-a", Address("elsewhere", 1))
    check_certificate(found, "x", Address("::1", 1))
    with pytest.raises(LinkRefused, match="'x' or 'elsewhere'"):
        check_certificate(found, "x", Address("elsewhere", 1))
    with pytest.raises(LinkRefused, match="nobody"):
        check_certificate({}, "x", Address("elsewhere", 1))


@pytest.mark.parametrize(
    ("hosts", "needed"),
    [(["127.0.0.1", "::1", "localhost"], False), (["127.0.0.1", "10.0.0.1"], True), (["a"], True)],
)
def test_certificates_are_needed_off_the_loopback(hosts: list[str], needed: bool) -> None:
    assert needs_security([Address(host, 1) for host in hosts]) is needed
