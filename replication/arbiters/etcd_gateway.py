"""Calls to the HTTP gateway of etcd, version 3.4 or newer.

The members are tried one after the other, the one that answered last first. Fault model: a member
may hang, end within an answer, redirect, answer anything and any length of it. It then counts as
one that does not answer; a call ends after its time-out, whatever happens, and raises nothing but
ArbiterFault. The member may carry the request out all the same, also later. Members of different
clusters are refused, as each could grant a lease. Must never know what the keys mean.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import aiohttp
import msgspec

from daybook.replication.arbiters.arbiter import ArbiterFault
from daybook.replication.arbiters.etcd_values import (
    Answer,
    Answered,
    Authenticated,
    Failed,
    KeptAlive,
    Request,
)

ANSWER_BYTES_MAX: Final = 1 << 18
_TEXT_MAX: Final = 200
NOT_FOUND: Final = 404
_OK: Final = 200
_REFUSING: Final = frozenset((400, 401, 403, NOT_FOUND, 412))
"""Every member would answer the same; others, like 503, are for one that has no leader."""
_OLD_TOKEN: Final = frozenset((400, 401))
Read = TypeVar("Read", bound=Answered | KeptAlive)


class Members(NamedTuple):
    """Where etcd is, as URLs without a path, and how a node shows who it is. Files are in PEM
    format; empty: none, and the authorities of this machine."""

    endpoints: tuple[str, ...]
    login: str = ""
    passcode_file: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""


class Refusal(ArbiterFault):
    """Etcd answered that it does not do what was asked for, with a status of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status: Final = status


class _NoAnswer(Exception):
    """A member gave no answer, or none that can be used."""


class Gateway:
    """The members of an etcd cluster; `seconds` is the time-out of a call."""

    def __init__(self, members: Members, seconds: float) -> None:
        self.place: Final = f"etcd at {', '.join(members.endpoints)}"
        self._members: Final = members
        self._seconds: Final = seconds
        self._order: Final = list(members.endpoints)
        self._clusters: Final[dict[str, int]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._token = ""

    async def call(self, path: str, request: Request, kind: type[Answer]) -> Answer:
        """Return what a member answers. Raises Refusal, ArbiterFault."""
        return await self._call(path, request, kind)

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease of etcd; return for how many seconds, 0 if it is gone. Raises
        ArbiterFault."""
        found = await self._call("lease/keepalive", {"ID": str(lease)}, KeptAlive)
        return found.result.TTL

    async def revoke(self, lease: int) -> None:
        """End a lease of etcd, and the keys with it; one that is gone is left alone. Raises
        ArbiterFault."""
        try:
            await self._call("lease/revoke", {"ID": str(lease)}, Answered)
        except Refusal as error:
            if error.status != NOT_FOUND:
                raise

    async def close(self) -> None:
        """Close the connections; the next call opens others, and reads certificates again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, path: str, request: Request, kind: type[Read]) -> Read:
        wrong: list[str] = []
        content = msgspec.json.encode(request)
        async with self.in_time():
            for endpoint in tuple(self._order):
                try:
                    return await self._ask_logged_in(endpoint, path, content, kind)
                except _NoAnswer as error:
                    wrong.append(f"{endpoint}: {error}")
                    self._clusters.pop(endpoint, None)
                    self._ask_last(endpoint)
        await self.close()
        raise ArbiterFault(f"etcd does not answer {path}: {'; '.join(wrong)}")

    def _ask_last(self, endpoint: str) -> None:
        """Ask another member first from now on, unless another call has seen to that."""
        if self._order[0] == endpoint:
            self._order.append(self._order.pop(0))

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """End what is done within after the time-out. Raises ArbiterFault."""
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except TimeoutError:
            listed = ", ".join(self._order)
            text = f"etcd does not answer within {self._seconds:g} s: {listed}"
            raise ArbiterFault(text) from None

    async def _ask_logged_in(
        self, endpoint: str, path: str, content: bytes, kind: type[Read]
    ) -> Read:
        """Ask a member, with a new token if there is none, or if the old one is refused."""
        if not self._members.login:
            return await self._ask(endpoint, path, content, kind)
        if self._token:
            try:
                return await self._ask(endpoint, path, content, kind)
            except Refusal as error:
                if error.status not in _OLD_TOKEN:
                    raise
        self._token = ""
        login = {"name": self._members.login, "password": await self._passcode()}
        found = await self._ask(
            endpoint, "auth/authenticate", msgspec.json.encode(login), Authenticated
        )
        self._token = found.token
        return await self._ask(endpoint, path, content, kind)

    async def _passcode(self) -> str:
        path = Path(self._members.passcode_file)
        try:
            text = await asyncio.to_thread(path.read_text, "utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _NoAnswer(f"{path} cannot be read: {error}") from None
        return text.partition("\n")[0].rstrip("\r")

    async def _ask(self, endpoint: str, path: str, content: bytes, kind: type[Read]) -> Read:
        """Ask one member, which gets its share of the time. Raises Refusal, _NoAnswer."""
        share = aiohttp.ClientTimeout(total=self._seconds / len(self._order))
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = self._token
        try:
            session = await self._opened()
            async with session.post(
                f"{endpoint}/v3/{path}", data=content, headers=headers, timeout=share,
                allow_redirects=False,
            ) as response:  # fmt: skip
                answer = await _whole(response)
                status = response.status
        except TimeoutError:
            raise _NoAnswer("no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _NoAnswer(_cut(str(error) or type(error).__name__)) from None
        if status != _OK:
            raise _refusal(endpoint, path, status, answer)
        return self._decoded(endpoint, answer, kind)

    def _decoded(self, endpoint: str, answer: bytes, kind: type[Read]) -> Read:
        try:
            found = msgspec.json.decode(answer.partition(b"\n")[0], type=kind, strict=False)
        except msgspec.DecodeError as error:
            raise _NoAnswer(f"what it answers is not of etcd: {_cut(str(error))}") from None
        header = found.result.header if isinstance(found, KeptAlive) else found.header
        self._clusters[endpoint] = header.cluster_id
        if len(set(self._clusters.values())) > 1:
            listed = ", ".join(self._clusters)
            raise _NoAnswer(f"members of different clusters: {listed}")
        return found

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            context: ssl.SSLContext | bool = True
            if any(each.startswith("https:") for each in self._order):
                context = await asyncio.to_thread(_context, self._members)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=len(self._order) + 1),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer. Raises _NoAnswer if it is too long."""
    content = bytearray()
    async for part in response.content.iter_any():
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            response.close()
            raise _NoAnswer(f"its answer is longer than {ANSWER_BYTES_MAX >> 10} KiB")
    return bytes(content)


def _context(members: Members) -> ssl.SSLContext:
    """Return what TLS needs. Raises OSError."""
    context = ssl.create_default_context(cafile=members.authority or None)
    if members.certificate:
        # Nobody is there to type a passphrase.
        context.load_cert_chain(members.certificate, members.key or None, password=lambda: "")
    return context


def _refusal(endpoint: str, path: str, status: int, answer: bytes) -> Refusal | _NoAnswer:
    """Return what another status means: whether other members would answer the same."""
    try:
        failed = msgspec.json.decode(answer, type=Failed)
    except msgspec.DecodeError:
        return _NoAnswer(f"status {status}: {_cut(answer.decode('latin-1'))}")
    why = _cut(failed.message or failed.error)
    if status not in _REFUSING:
        return _NoAnswer(f"status {status}: {why}")
    return Refusal(f"etcd at {endpoint} refuses {path}: {why}", status)


def _cut(text: str) -> str:
    """Return the beginning of a text, on one line."""
    return "".join(each if each.isprintable() else " " for each in text[:_TEXT_MAX])
