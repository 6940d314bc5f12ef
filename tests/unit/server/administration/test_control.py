"""The control socket: answers, refusals, bounds, and peers that misbehave."""

import asyncio
import contextlib
import json
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands
from daybook.engine.broker import Broker
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import StoreError
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.journal.data_directory import CONTROL_SOCKET
from daybook.server.administration import views
from daybook.server.administration.control import CLIENTS_MAX, REQUEST_BYTES_MAX, ControlServer
from daybook.version import VERSION
from tests.support.topology import create_queue


class FakeHub:
    """A hub whose answers may leave at once, or when the test says so."""

    def __init__(self) -> None:
        self.broker = Broker(State())
        self.waiting: list[Callable[[], None]] = []
        self.holds = False

    def request(
        self,
        command: commands.Command,
        callback: Callable[[int | Refusal], None] | None = None,
    ) -> None:
        answer = self.broker.handle(command, 1)
        assert callback is not None
        if self.holds and not isinstance(answer, Refusal):
            self.waiting.append(lambda: callback(answer))
        else:
            callback(answer)

    def session_of(self, connection: int) -> None:
        """Nobody is connected."""

    def beginning_of(self, message: Message) -> bytes:
        if message.chunks == (0,):
            raise StoreError("event 0 is damaged")
        return b"beginning"

    def piece_of(self, message: Message, number: int) -> bytes:
        return b"piece %d" % number

    def status(self, counted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return dict(counted or {}) | {"lsn": self.broker.lsn, "version": "9"}

    def fill(self, queue: str, bodies: list[bytes]) -> list[int]:
        """Put messages into a queue; returns their ids."""
        for body in bodies:
            headers = build([("a", "b")])
            answer = self.broker.handle(commands.Send(0, queue, headers, body), 1)
            assert isinstance(answer, int), answer
        return list(self.broker.state.queue_by_name[queue].entries)


Ask = Callable[..., Any]


class Running:
    """A server on a socket, and a way to ask it."""

    def __init__(self, hub: FakeHub, path: Path) -> None:
        self.hub = hub
        self.path = path
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.path), limit=1 << 26)

    async def line(self, line: bytes) -> dict[str, Any]:
        self.writer.write(line)
        answer: dict[str, Any] = json.loads(await self.reader.readline())
        return answer

    async def ask(self, **request: Any) -> Any:
        answer = await self.line(json.dumps(request).encode() + b"\n")
        return answer.get("result", answer.get("error"))


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    hub = FakeHub()
    server = ControlServer(hub, folder / CONTROL_SOCKET)
    await server.start()
    made = Running(hub, folder / CONTROL_SOCKET)
    made.reader, made.writer = await made.connect()
    try:
        yield made
    finally:
        made.writer.close()
        await server.close()


def test_what_is_read_is_what_the_state_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            made.hub.fill("orders", [b"x", b"y"])
            status = await made.ask(do="status")
            assert status["lsn"] == made.hub.broker.lsn
            assert status["pid"] > 0
            [row] = (await made.ask(do="queues"))["queues"]
            assert (row["queue"], row["ready"], row["in_flight"]) == ("orders", 2, 0)
            [row] = (await made.ask(do="addresses"))["addresses"]
            assert (row["address"], row["queues"], row["messages"]) == ("orders", ["orders"], 2)
            assert (row["queue_count"], row["queues"]) == (1, ["orders"])
            settings = await made.ask(do="settings", address="orders")
            assert settings["exists"] is True
            assert {row["match"] for row in settings["settings"]} == {None}

    asyncio.run(scenario())


def test_the_size_of_an_address_is_told_with_its_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            broker = made.hub.broker
            full = {"max-size-messages": 2, "address-full-policy": "BLOCK"}
            broker.handle(
                commands.ChangeSettings({"orders": full, "mails": {"max-size-bytes": 9}}), 1
            )
            made.hub.fill("orders", [b"x", b"y"])
            made.hub.fill("mails", [b"z"])
            broker.dispatch(1)
            connection = broker.handle(commands.OpenConnection("stomp", "p", "u"), 1)
            assert isinstance(connection, int)
            broker.handle(commands.Send(connection, "orders", b"", b"more"), 1)
            mails, orders = (await made.ask(do="addresses"))["addresses"]
            assert (orders["max_size_messages"], orders["max_size_bytes"]) == (2, None)
            assert (orders["full_policy"], orders["blocked_producers"]) == ("BLOCK", 1)
            assert (orders["paging"], mails["paging"]) == (False, True)
            assert (mails["max_size_bytes"], mails["blocked_producers"]) == (9, 0)
            rows = (await made.ask(do="queues"))["queues"]
            assert [row["bytes"] for row in rows] == [mails["bytes"], orders["bytes"]]
            assert [row["paging"] for row in rows] == [True, False]

    asyncio.run(scenario())


def test_long_lists_come_by_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            names = [f"q{number:05}" for number in range(views.LIST_PAGE_MAX + 10)]
            for name in names:
                made.hub.broker.handle(create_queue(name, "busy", "multicast"), 1)
            first = await made.ask(do="queues")
            assert first["next_offset"] == views.LIST_PAGE_MAX
            made.hub.broker.handle(create_queue("a", "busy", "multicast"), 1)
            following = {"offset": first["next_offset"], "cursor": first["cursor"]}
            second = await made.ask(do="queues", **following)
            assert second["next_offset"] is None
            later = await made.ask(do="queues", offset=first["next_offset"])
            assert [row["queue"] for row in later["queues"]] == names[-11:], "without the cursor"
            made.hub.broker.handle(commands.DeleteQueue("a"), 1)
            assert [row["queue"] for row in first["queues"] + second["queues"]] == names
            [row] = (await made.ask(do="addresses"))["addresses"]
            assert row["queue_count"] == len(names)
            assert row["queues"] == names[: views.QUEUES_NAMED_MAX]
            assert (await made.ask(do="queues", offset=-1))["code"] == "invalid"

    asyncio.run(scenario())


def test_a_queue_of_any_length_is_purged_and_deleted_whole(tmp_path: Path) -> None:
    """In parts, because each part is one turn of the broker; later messages stay."""
    many = commands.PurgeQueue("q").limit * 2 + 1

    async def scenario() -> None:
        async with running(tmp_path) as made:
            state = made.hub.broker.state
            made.hub.fill("q", [b""] * many)
            assert (await made.ask(do="purge-queue", queue="q"))["lsn"] == made.hub.broker.lsn
            assert state.queue_by_name["q"].message_count == 0
            assert await made.ask(do="purge-queue", queue="q") == {"lsn": 0, "removed": 0}
            made.hub.fill("q", [b""] * many)
            await made.ask(do="delete-queue", queue="q", force=True)
            assert "q" not in state.queue_by_name
            assert (await made.ask(do="purge-queue", queue="q"))["code"] == "not-found"

    asyncio.run(scenario())


def test_what_an_address_remembers_is_told_and_cleared(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            broker = made.hub.broker
            for number in ("1", "2", "2"):
                broker.handle(commands.Send(0, "q", b"", b"", duplicate_id=number), 1)
            [row] = (await made.ask(do="addresses"))["addresses"]
            assert (row["remembered_ids"], row["messages"]) == (2, 2)
            assert await made.ask(do="clear-id-cache", address="q") == {"lsn": broker.lsn}
            [row] = (await made.ask(do="addresses"))["addresses"]
            assert row["remembered_ids"] == 0
            assert (await made.ask(do="clear-id-cache", address="x"))["code"] == "not-found"

    asyncio.run(scenario())


def test_what_is_changed_goes_through_the_hub(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            state = made.hub.broker.state
            multicast = {"name": "q", "routing_type": "multicast"}
            for request in (
                {"do": "create-address", "address": "a", "routing_types": ["multicast"]},
                {"do": "create-queue", "address": "a", "definition": multicast},
                {"do": "pause-queue", "queue": "q"},
            ):
                answer = await made.ask(**request)
                assert answer == {"lsn": made.hub.broker.lsn}
            assert state.queue_by_name["q"].paused
            await made.ask(do="resume-queue", queue="q")
            assert not state.queue_by_name["q"].paused
            await made.ask(do="create-queue", definition={"name": "plain"})
            made.hub.fill("plain", [b"1", b"2"])
            await made.ask(do="purge-queue", queue="plain")
            assert not state.queue_by_name["plain"].entries
            await made.ask(do="delete-queue", queue="plain")
            assert "plain" not in state.queue_by_name
            refused = await made.ask(do="delete-address", address="a")
            assert refused["code"] == "not-allowed"
            await made.ask(do="delete-address", address="a", force=True)
            assert "q" not in state.queue_by_name

    asyncio.run(scenario())


def test_a_change_is_answered_when_its_answer_may_leave(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            made.hub.holds = True
            made.writer.write(b'{"do": "create-queue", "definition": {"name": "q"}}\n')
            answer = asyncio.ensure_future(made.reader.readline())
            while not made.hub.waiting:
                await asyncio.sleep(0)
            # Others are served meanwhile, and the answer still waits.
            reader, writer = await made.connect()
            writer.write(b'{"do": "status"}\n')
            assert b"result" in await reader.readline()
            writer.close()
            assert not answer.done()
            made.hub.waiting.pop()()
            assert json.loads(await answer) == {"result": {"lsn": made.hub.broker.lsn}}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"\n", "this is not a request"),
        (b"{\n", "this is not a request"),
        (b"[]\n", "this is not a request"),
        (b"\xff\xfe\n", "this is not a request"),
        (b'{"do": "explode"}\n', "Invalid value 'explode'"),
        (b'{"do": "browse"}\n', "queue"),
        (b'{"do": "browse", "queue": 7}\n', "Expected `str`"),
        (b'{"do": "browse", "queue": "none"}\n', "there is no queue 'none'"),
        (b'{"do": "create-queue", "definition": {}}\n', "is empty"),
        (
            b'{"do": "create-queue", "definition": {"name": "q", "owner": 1}}\n',
            "these attributes cannot be requested: owner",
        ),
        (b'{"do": "create-address", "address": "x", "routing_types": ["both"]}\n', "anycast"),
        (
            b'{"do": "act-on-messages", "queue": "q", "action": "retry", "pace": "1/s"}\n',
            f"this broker is Daybook {VERSION}, and does not know the field 'pace' of the request"
            " 'act-on-messages'",
        ),
        (
            b'{"do": "create-queue", "definition": {"name": "q", "colour": "blue"}}\n',
            "does not know the field 'colour' of the request 'create-queue'",
        ),
        (
            b'{"do": "status", "do": "queues", "offset": 9223372036854775808}\n',
            "no number is larger",
        ),
        (
            b'{"do": "update-queue", "queue": "q", "changes": {"x": -9223372036854775809}}\n',
            "no number is larger than 9,223,372,036,854,775,807; one here is",
        ),
        (b"[" * 60_000 + b"\n", "this is not a request"),
        (b'{"do": ["status"]}\n', "this is not a request"),
    ],
)
def test_a_bad_request_gets_an_error_and_the_next_is_served(
    tmp_path: Path, line: bytes, words: str
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            answer = await made.line(line)
            assert words in answer["error"]["text"]
            assert (await made.ask(do="status"))["version"] == "9"

    asyncio.run(scenario())


def test_a_request_without_end_is_cut_off_and_others_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            reader, writer = await made.connect()
            writer.write(b"x" * (REQUEST_BYTES_MAX * 3))
            answer = json.loads(await reader.readline())
            assert answer["error"]["code"] == "limit"
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert (await made.ask(do="status"))["version"] == "9"

    asyncio.run(scenario())


def test_clients_that_go_away_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            made.hub.holds = True
            for number in range(2 * CLIENTS_MAX):
                _, writer = await made.connect()
                writer.write(b'{"do": "create-queue", "definition": {"name": "q%d"}}\n' % number)
                while len(made.hub.waiting) <= 0:
                    await asyncio.sleep(0)
                writer.close()
                made.hub.waiting.pop()()
                await asyncio.sleep(0)
            assert (await made.ask(do="status"))["version"] == "9"

    asyncio.run(scenario())


def test_only_so_many_clients_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            assert await made.ask(do="status")
            others = []
            for _ in range(CLIENTS_MAX - 1):
                reader, writer = await made.connect()
                writer.write(b'{"do": "status"}\n')
                assert await reader.readline()
                others.append(writer)
            reader, writer = await made.connect()
            assert await reader.read() == b""
            writer.close()
            for each in others:
                each.close()

    asyncio.run(scenario())


def test_pages_of_a_queue_show_everything_once_and_disturb_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            ids = made.hub.fill("q", [b"%d" % number for number in range(25)] + [b"\xff"])
            lsn = made.hub.broker.lsn
            seen: list[dict[str, Any]] = []
            offset: int | None = 0
            while offset is not None:
                page = await made.ask(do="browse", queue="q", offset=offset, limit=10)
                assert len(page["messages"]) <= 10
                seen += page["messages"]
                offset = page["next_offset"]
            assert [row["message"] for row in seen] == ids
            assert seen[7]["body"] == "7"
            assert seen[7]["headers"] == {"a": "b"}
            assert seen[-1]["body_base64"] == "/w=="
            assert made.hub.broker.lsn == lsn
            for bad in ({"limit": 0}, {"limit": views.PAGE_MAX + 1}, {"offset": -1}):
                assert (await made.ask(do="browse", queue="q", **bad))["code"] == "invalid"

    asyncio.run(scenario())


def test_what_is_in_flight_comes_first_and_bodies_are_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            large = b"x" * (views.BODY_BYTES_MAX + 1)
            ids = made.hub.fill("q", [b"first", large])
            broker = made.hub.broker
            connection = broker.handle(commands.OpenConnection("STOMP 1.2", "p", "u"), 2)
            assert isinstance(connection, int)
            attach = commands.Attach(connection, "q", credit_messages=1, credit_bytes=0)
            consumer = broker.handle(attach, 2)
            broker.dispatch(2)
            first, second = (await made.ask(do="browse", queue="q"))["messages"]
            assert (first["message"], first["state"]) == (ids[0], "in flight")
            assert (first["consumer"], first["delivery_count"]) == (consumer, 1)
            assert (second["state"], second["truncated"]) == ("ready", True)
            assert second["body_bytes"] == len(large)
            assert len(second["body"]) == views.BODY_BYTES_MAX

    asyncio.run(scenario())


def test_of_a_large_message_the_beginning_is_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            for queue, chunks in (("sound", (1, 2)), ("damaged", (0,))):
                send = commands.Send(0, queue, b"", b"", chunks=chunks, body_bytes=100_000)
                assert made.hub.broker.handle(send, 1)
            (told,) = (await made.ask(do="browse", queue="sound"))["messages"]
            assert (told["body"], told["body_bytes"]) == ("beginning", 100_000)
            assert told["truncated"] is True
            refused = await made.ask(do="browse", queue="damaged")
            assert "cannot be read back: event 0 is damaged" in refused["text"]

    asyncio.run(scenario())


def test_a_page_ends_early_when_bodies_are_large(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as made:
            count = 2 * views.PAGE_BYTES_MAX // views.BODY_BYTES_MAX
            made.hub.fill("q", [b"x" * views.BODY_BYTES_MAX] * count)
            page = await made.ask(do="browse", queue="q", limit=views.PAGE_MAX)
            assert 0 < len(page["messages"]) < count
            assert page["next_offset"] == len(page["messages"])

    asyncio.run(scenario())


def test_the_socket_is_the_owners_alone_and_replaces_a_stale_one(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / CONTROL_SOCKET))
    stale.close()

    async def scenario() -> None:
        async with running(tmp_path) as made:
            assert await made.ask(do="status")
            mode = made.path.stat().st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600
        assert not (tmp_path / CONTROL_SOCKET).exists()

    asyncio.run(scenario())


def test_the_path_may_be_longer_than_a_sockets_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long-" * 20) / ("name-" * 20)
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)

    async def scenario() -> None:
        server = ControlServer(FakeHub(), folder / CONTROL_SOCKET)
        await server.start()
        reader, writer = await asyncio.open_unix_connection(CONTROL_SOCKET)
        writer.write(b'{"do": "status"}\n')
        assert b"result" in await reader.readline()
        writer.close()
        await server.close()
        assert not (folder / CONTROL_SOCKET).exists()

    asyncio.run(scenario())


REQUESTS = st.fixed_dictionaries(
    {
        "do": st.sampled_from(
            ["status", "queues", "addresses", "settings", "browse", "create-queue",
             "delete-queue", "purge-queue", "create-address", "delete-address",
             "update-queue", "update-address", "pause-address", "resume-address",
             "set-settings", "remove-settings", "act-on-messages"]
        )
    },
    optional={
        "queue": st.text(max_size=3),
        "address": st.text(max_size=3),
        "offset": st.integers(-2, 2**70),
        "limit": st.integers(-2, 2**70),
        "force": st.booleans() | st.none(),
        "routing_type": st.text(max_size=3),
        "routing_types": st.lists(st.text(max_size=3), max_size=2),
        "action": st.sampled_from(["move", "remove", "x"]),
        "message": st.integers(-1, 2**64),
        "match": st.sampled_from(["#", "a", "a.#.b", ""]),
        "values": st.dictionaries(
            st.sampled_from(["id-cache-size", "no-expiry", "x"]), st.text(max_size=4)
        ),
        "keys": st.lists(st.text(max_size=3), max_size=2),
        "changes": st.dictionaries(
            st.sampled_from(["filter", "enabled", "x"]), st.text(max_size=3) | st.booleans()
        ),
    },
)  # fmt: skip


@given(st.binary(max_size=60) | REQUESTS.map(lambda request: json.dumps(request).encode()))
def test_any_request_gets_a_result_or_an_error(line: bytes) -> None:
    server = ControlServer(FakeHub(), Path("nowhere"))
    answer = json.loads(asyncio.run(server.answer(line, "joe")))
    assert answer.keys() in ({"result"}, {"error"})
