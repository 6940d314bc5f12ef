"""A gateway of etcd on a real socket, with a clock of its own, that misbehaves on demand.

The suite of arbiters checks it against the real one.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

SECOND: Final = 1_000_000
CLUSTER: Final = 7_000
Json = dict[str, Any]


class Refused(Exception):
    """What etcd refuses: a status of HTTP, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Etcd:
    """Keys and leases; `now` is in microseconds, and moves by hand."""

    def __init__(self, *, passcode: str = "") -> None:
        self.cluster = CLUSTER
        self.now = 0
        self.passcode = passcode
        self.tokens: set[str] = set()
        self.given = 0
        self.forget()

    def forget(self) -> None:
        """Lose everything, as an etcd that begins again with an empty disk."""
        self.revision = 1
        self.keys: dict[str, Json] = {}
        self.leases: dict[int, tuple[int, int]] = {}

    def answer(self, path: str, asked: Json, token: str) -> Json:
        """Carry a request out."""
        if self.passcode and path != "auth/authenticate" and token not in self.tokens:
            raise Refused(401, "etcdserver: invalid auth token")
        self._expire()
        methods: dict[str, Callable[[Json], Json]] = {
            "auth/authenticate": self._authenticate, "lease/grant": self._grant,
            "lease/keepalive": self._keep_alive, "lease/revoke": self._revoke,
            "kv/range": self._range, "kv/txn": self._transact,
        }  # fmt: skip
        return methods[path](asked)

    @property
    def _header(self) -> Json:
        return {"cluster_id": str(self.cluster), "revision": str(self.revision)}

    def _expire(self) -> None:
        for lease, (until, _) in list(self.leases.items()):
            if self.now >= until:
                self._end(lease)

    def _end(self, lease: int) -> None:
        del self.leases[lease]
        gone = [key for key, value in self.keys.items() if value["lease"] == str(lease)]
        for key in gone:
            self.revision += 1
            del self.keys[key]

    def _authenticate(self, asked: Json) -> Json:
        if asked["password"] != self.passcode:
            raise Refused(400, "etcdserver: authentication failed, invalid user ID or password")
        self.given += 1
        token = f"token.{self.given}"
        self.tokens.add(token)
        return {"header": self._header, "token": token}

    def _grant(self, asked: Json) -> Json:
        self.given += 1
        seconds = max(int(asked["TTL"]), 2)
        lease = 1 << 60 | self.given
        self.leases[lease] = (self.now + seconds * SECOND, seconds)
        return {"header": self._header, "ID": str(lease), "TTL": str(seconds)}

    def _keep_alive(self, asked: Json) -> Json:
        lease = int(asked["ID"])
        result = {"header": self._header, "ID": str(lease)}
        if lease in self.leases:
            _, seconds = self.leases[lease]
            self.leases[lease] = (self.now + seconds * SECOND, seconds)
            result["TTL"] = str(seconds)
        return {"result": result}

    def _revoke(self, asked: Json) -> Json:
        if int(asked["ID"]) not in self.leases:
            raise Refused(404, "etcdserver: requested lease not found")
        self._end(int(asked["ID"]))
        return {"header": self._header}

    def _range(self, asked: Json) -> Json:
        found: Json = {"header": self._header}
        if asked["key"] in self.keys:
            found |= {"kvs": [self.keys[asked["key"]]], "count": "1"}
        return found

    def _transact(self, asked: Json) -> Json:
        fits = all(self._holds(each) for each in asked["compare"])
        responses = [self._do(each) for each in asked["success" if fits else "failure"]]
        done: Json = {"header": self._header}
        return done | ({"succeeded": True} if fits else {}) | {"responses": responses}

    def _holds(self, compare: Json) -> bool:
        absent = {"create_revision": "0", "mod_revision": "0", "lease": "0"}
        value = self.keys.get(compare["key"], absent)
        names = {
            "CREATE": ("create_revision", "createRevision"),
            "MOD": ("mod_revision", "modRevision"), "LEASE": ("lease", "lease"),
        }  # fmt: skip
        name, asked = names[compare["target"]]
        return bool(value[name] == compare[asked])

    def _do(self, operation: Json) -> Json:
        if "requestRange" in operation:
            return {"response_range": self._range(operation["requestRange"])}
        put = operation["requestPut"]
        if put["lease"] != "0" and int(put["lease"]) not in self.leases:
            raise Refused(404, "etcdserver: requested lease not found")
        self.revision += 1
        old = self.keys.get(put["key"], {"create_revision": str(self.revision)})
        self.keys[put["key"]] = {
            "key": put["key"], "value": put["value"], "lease": put["lease"],
            "create_revision": old["create_revision"], "mod_revision": str(self.revision),
        }  # fmt: skip
        return {"response_put": {"header": self._header}}

    def write(self, key: str, value: bytes) -> None:
        """Write a key by hand."""
        named = base64.b64encode(key.encode()).decode()
        value_text = base64.b64encode(value).decode()
        self._do({"requestPut": {"key": named, "value": value_text, "lease": "0"}})

    def remove(self, key: str) -> None:
        """Remove a key by hand."""
        self.revision += 1
        del self.keys[base64.b64encode(key.encode()).decode()]


Misdeed = Callable[["Gate", asyncio.StreamWriter, bytes], Awaitable[None]]


class Gate:
    """One member, which takes the next of `misdeeds` for each request, None for none, and then does
    what it should, or `always` the same."""

    def __init__(self, etcd: Etcd) -> None:
        self.etcd = etcd
        self.misdeeds: deque[Misdeed | None] = deque()
        self.always: Misdeed | None = None
        self.asked: list[str] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Gate":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._serve(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = (line.lower().partition(": ") for line in head.split("\r\n"))
        headers = {name: value for name, _, value in lines}
        content = await reader.readexactly(int(headers["content-length"]))
        path = head.split(" ")[1].removeprefix("/v3/")
        self.asked.append(path)
        misdeed = self.misdeeds.popleft() if self.misdeeds else self.always
        if misdeed is not None and misdeed not in AFTER:
            await misdeed(self, writer, b"")
            return False
        try:
            found = self.etcd.answer(path, json.loads(content), headers.get("authorization", ""))
            answer = response(200, found)
        except Refused as error:
            answer = response(error.status, {"error": str(error), "message": str(error)})
        if misdeed is not None:
            await misdeed(self, writer, answer)
            return False
        writer.write(answer)
        await writer.drain()
        return True


def response(status: int, content: Json) -> bytes:
    """Return an answer of HTTP."""
    body = json.dumps(content).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


async def hang(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Never answer, and do nothing."""
    await asyncio.sleep(3600)


async def done_and_hang(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Do what was asked for, and never answer."""
    await asyncio.sleep(3600)


async def done_and_lost(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Do what was asked for, and end in the middle of the answer."""
    writer.write(answer[:-9])
    await writer.drain()


async def closed(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """End at once."""


async def noise(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer what is not HTTP."""
    writer.write(b"\x16\x03\x01 SSH-2.0-\xff\xff\r\n\r\n")
    await writer.drain()


async def other_json(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer JSON that is of something else."""
    writer.write(response(200, {"header": "none", "responses": 5, "ID": [], "result": 1}))
    await writer.drain()


async def a_page(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer a page, as any other service does."""
    body = b"<html>Not here\r\n"
    writer.write(b"HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()


async def no_leader(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer as a member that is alone."""
    writer.write(response(503, {"error": "etcdserver: no leader", "code": 14}))
    await writer.drain()


async def elsewhere(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Redirect to itself."""
    writer.write(
        f"HTTP/1.1 307 X\r\nLocation: {gate.url}/v3/kv/range\r\nContent-Length: 0\r\n\r\n".encode()
    )
    await writer.drain()


async def flood(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer without an end."""
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1073741824\r\n\r\n")
    while True:
        writer.write(b"[" * 65_536)
        await writer.drain()


async def headers_flood(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer headers without an end."""
    writer.write(b"HTTP/1.1 200 X\r\n")
    while True:
        writer.write(b"a: b\r\n" * 1_000)
        await writer.drain()


async def drip(gate: Gate, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer a byte now and then."""
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1073741824\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


AFTER: Final = (done_and_hang, done_and_lost)
"""Misdeeds after the request was carried out."""
MISDEEDS: Final[tuple[Misdeed, ...]] = (
    hang, done_and_hang, done_and_lost, closed, noise, other_json, a_page, no_leader, elsewhere,
    flood, headers_flood, drip,
)  # fmt: skip
