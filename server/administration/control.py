"""The control socket, over which the command line talks to the broker of a data directory.

A unix socket in the data directory that only its owner may use. Each request is one line with a
JSON object, and so is the answer: {"result": ...} or {"error": {"code": ..., "text": ...}}.
Requests that read are answered from the state at once; requests that change something go through
the hub, like all commands, and are answered when the change is durable.

Fault model: a peer may send anything, in any pieces, and disconnect at any moment; it gets an error
or is dropped, and the broker continues. A socket left by a killed broker is replaced, which is safe
because the broker holds the lock of the directory.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping
from functools import cache, reduce
from operator import or_
from pathlib import Path
from struct import Struct
from typing import Any, Final, Protocol

import msgspec

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    ActOnMessages,
    Administer,
    Command,
    DeleteQueue,
    DeliverScheduled,
    PurgeQueue,
    RecordRequest,
    ReleaseHeld,
)
from daybook.engine.core import hosts
from daybook.engine.core.queue_names import find_queue, meant
from daybook.engine.messages.message import Message
from daybook.engine.names.names import plain
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal, no_queue
from daybook.engine.settings.permissions import Actor
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.journal.data_directory import RETRIES
from daybook.protocols.port import MessagingSession
from daybook.server.administration import connections
from daybook.server.administration.acting import ActAs, Acting, LogIn
from daybook.server.administration.admin_requests import REQUESTS, ConnectionClosing, QueueDrain
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.message_requests import MessagesAction, RetryStop
from daybook.server.administration.premises import NoPremises, Premises
from daybook.server.administration.request_rows import (
    Answer,
    Change,
    NoOutgoing,
    Outgoing,
    Reading,
    Request,
    ViewSource,
)
from daybook.server.administration.retries import Retries
from daybook.server.process import logs
from daybook.server.process.in_turns import in_turns
from daybook.server.process.ordered_lists import KeptOrders
from daybook.server.process.seen import KeptSights
from daybook.texts import user_name
from daybook.version import VERSION

REQUEST_BYTES_MAX: Final = 64 * 1024
JOURNALED_NUMBER_MOST: Final = 2**63 - 1
TAG_FIELD: Final = Request.__struct_config__.tag_field
NEWER: Final = (
    "this broker is Daybook {}, and does not know the field '{}' of the request '{}': leave it out,"
    " or use a newer broker"
)
CLIENTS_MAX: Final = 32


class ControlledHub(Protocol):
    """The interface of the control socket to the hub."""

    @property
    def broker(self) -> Broker:
        """The broker whose state is read."""
        ...

    def request(
        self, command: Command, callback: Callable[[int | Refusal], None] | None = None
    ) -> None:
        """Execute a command; the callback gets the answer when it may be sent."""
        ...

    def close_connection(self, connection: int, what: str, advice: str) -> bool:
        """Close a connection; return whether there is one."""
        ...

    def session_of(self, connection: int) -> MessagingSession | None:
        """Return the session of a connection, None if it is gone."""
        ...

    def beginning_of(self, message: Message) -> bytes:
        """Return the beginning of the body of a large message. Raises StoreError."""
        ...

    def piece_of(self, message: Message, number: int) -> bytes:
        """Return a piece of the body of a large message. Raises StoreError."""
        ...

    def status(self, counted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the figures of the hub and the process, with what was counted."""
        ...


_CREDENTIALS: Final = Struct("3i")
"""The credentials of a peer on Linux: process, user and group."""


class Asker(msgspec.Struct, frozen=True):
    """The user behind a request, the request as it came, and the rights that limit it: None for the
    operator of this machine."""

    by: str
    request: str
    rights: AdminRights | None = None

    @property
    def actor(self) -> Actor | None:
        """The administrator, None for the operator of this machine."""
        return self.rights.actor if self.rights is not None else None

    def command(self, command: Command) -> Administer:
        """Return a command that records its user."""
        return Administer(self.by, self.request, command)


def user_of(descriptor: int) -> str:
    """Return the user of the process at the other end of a unix socket: `name (uid 0)`."""
    with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return user_name(user)


InParts = PurgeQueue | ReleaseHeld | DeliverScheduled
DONE_WITH: Final[dict[type, str]] = {
    PurgeQueue: "removed", ReleaseHeld: "released", DeliverScheduled: "made_ready",
}  # fmt: skip
"""The field of an answer for the number of messages of a command in parts."""

log = logs.logger("control")

_decoder: Final = msgspec.json.Decoder(reduce(or_, REQUESTS.values()))
_of_users: Final = msgspec.json.Decoder(LogIn | ActAs)
ABOUT_USERS: Final = (b'"log-in"', b'"act-as"')
BEGINNING_BYTES: Final = 32
"""A line about users has its tag within these; all others are requests of the table."""
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class _TooLong(DaybookError):
    """A request is longer than REQUEST_BYTES_MAX, or does not end."""


async def _line_of(reader: asyncio.StreamReader) -> bytes:
    """Return the next request, empty at the end. Raises _TooLong."""
    try:
        return await reader.readline()
    except ValueError as error:
        raise _TooLong from error


def _read(line: bytes) -> tuple[Any, Request]:
    """Return what a line says, as it came and as a request. Raises DecodeError, UnicodeDecodeError
    and RecursionError."""
    given = msgspec.json.decode(line)
    tag = given.get("do") if isinstance(given, dict) else None
    row = REQUESTS.get(tag) if isinstance(tag, str) else None
    # The decoder of all requests explains a line without one of their names.
    return given, _decoder.decode(line) if row is None else msgspec.convert(given, row)


@cache
def _names_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the attribute for each field of a request, or of a part of one."""
    return {each.encode_name: each.name for each in msgspec.structs.fields(kind)}


def _wrong(given: object, read: object, tag: object) -> str:
    """Return why a request that was read is not what was meant, "" if it is: it has a field that
    this version does not know, or a number that the journal cannot have, beyond 64 bits."""
    if isinstance(given, dict):
        # Others than structs may have any fields.
        names = _names_of(type(read)) if isinstance(read, msgspec.Struct) else None
        for key, value in given.items():
            part = None
            if names is not None and key in names:
                part = getattr(read, names[key])
            elif names is not None and key != TAG_FIELD:
                return NEWER.format(VERSION, key, tag)
            if found := _wrong(value, part, tag):
                return found
    elif isinstance(given, list):
        return next((found for each in given if (found := _wrong(each, None, tag))), "")
    elif isinstance(given, int) and abs(given) > JOURNALED_NUMBER_MOST:
        return f"no number is larger than {JOURNALED_NUMBER_MOST:,}; one here is"
    return ""


def _as_user(line: bytes) -> LogIn | ActAs | None:
    """Return what a line says of users, None if it is a request or nothing."""
    if not any(tag in line[:BEGINNING_BYTES] for tag in ABOUT_USERS):
        return None
    try:
        told: LogIn | ActAs = _of_users.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return told


class ControlServer:
    """Listens on the socket; used only in the thread of the event loop that starts it."""

    def __init__(self, hub: ControlledHub, path: Path) -> None:
        self._hub: Final = hub
        self._path: Final = path
        self.outgoing: Outgoing = NoOutgoing()
        self.premises: Premises = NoPremises()
        self.acting: Acting | None = None
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._looking: Final = asyncio.Lock()
        self._retries: Final = Retries(path.with_name(RETRIES))
        self._kept_orders: Final = KeptOrders()
        self._kept_sights: Final = KeptSights()

    async def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be created."""
        listener = bind(self._path)
        # The buffer must hold a request of the maximum length and its line feed.
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=REQUEST_BYTES_MAX + 1
        )

    async def look(self) -> None:
        """Listen again if somebody removed the socket, and drop what nobody takes any more. Raises
        OSError if the socket cannot be created."""
        self._kept_orders.drop_old()
        self._kept_sights.drop_old()
        if self._server is None or self._path.is_socket():
            return
        log.warning("the control socket is gone and is created again", path=str(self._path))
        self._server.close()
        await self.start()

    async def close(self) -> None:
        """Stop listening, drop all clients, and remove the socket."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        await self._retries.close()
        tasks = list(self._clients.values())
        for client, task in self._clients.items():
            # A client that does not read its answer must not delay the end of the broker.
            client.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(OSError):
            self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one client, one after the other."""
        if len(self._clients) >= CLIENTS_MAX:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._clients[writer] = task
        try:
            by = owner = user_of(writer.get_extra_info("socket").fileno())
            user: ActAs | None = None
            while line := await _line_of(reader):
                told = _as_user(line)
                if told is not None:
                    answer = await self._begin_acting(told, user)
                    writer.write(_encode(_told(answer)) + b"\n")
                    if isinstance(told, ActAs) and not isinstance(answer, Refusal):
                        user = told if told.user else None
                        by = by if told.user else f"{owner} from {told.peer}"
                elif user is not None:
                    writer.write(await self._answer_user(line, user) + b"\n")
                else:
                    writer.write(await self.answer(line, by) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client disconnected, which it may do at any time.
            return
        except _TooLong:
            text = f"a request has at most {REQUEST_BYTES_MAX} bytes and ends with a line feed"
            writer.write(_encode(_error(Code.LIMIT.value, text)) + b"\n")
        finally:
            del self._clients[writer]
            writer.close()

    async def _begin_acting(self, asked: LogIn | ActAs, user: ActAs | None) -> Answer | Refusal:
        """Check a login, or begin to act for a user on a connection."""
        if user is not None:
            return Refusal(Code.INVALID, f"this connection acts for {user.user!r} and nobody else")
        if self.acting is None:
            return Refusal(Code.NOT_FOUND, "the broker is starting or stopping; try again later")
        if isinstance(asked, ActAs) and not asked.user:
            return {"user": "", "sees": True, "manages": True}
        return await self.acting.answer(asked)

    async def _answer_user(self, line: bytes, user: ActAs) -> bytes:
        """Return the answer to a request of a user, by the rights that it has now."""
        assert self.acting is not None
        rights = self.acting.rights_of(user.user, user.peer)
        if isinstance(rights, Refusal):
            return _encode(_told(rights))
        by = f"{user.user} from {user.peer}"
        return await self.answer(line, by, rights)

    async def answer(self, line: bytes, by: str, rights: AdminRights | None = None) -> bytes:
        """Return the answer to a request, in JSON; `by` is recorded with its changes, and `rights`
        are those of the administrator, None for the operator of this machine."""
        try:
            given, request = _read(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _encode(_error(Code.INVALID.value, f"this is not a request: {error}"))
        if wrong := _wrong(given, request, request.__struct_config__.tag):
            return _encode(_error(Code.INVALID.value, wrong))
        refusal = rights.may(request) if rights is not None else None
        if refusal is not None:
            return _encode(_told(refusal))
        asker = Asker(by, line.decode().strip(), rights)
        return _encode(_told(await self._carry_out(request, asker)))

    async def _carry_out(self, request: Request, asker: Asker) -> Answer | Refusal:
        if isinstance(request, Reading):
            return await self._look(request, asker)
        if isinstance(request, ConnectionClosing):
            return await self._close(request, asker)
        broker = self._hub.broker
        if isinstance(request, QueueDrain):
            return request.begin(broker.state, self.outgoing, asker.by)
        if isinstance(request, RetryStop):
            return self._retries.stop(meant(broker.state, request.queue)[1], asker.by)
        assert isinstance(request, Change)
        flaw = request.flaw()
        if flaw:
            return Refusal(Code.INVALID, flaw)
        settled = request.settled(broker.state)
        if settled is not None:
            return settled
        command = request.command(max(broker.lsn, 1), asker.actor)
        if isinstance(command, InParts):
            return await self._in_parts(asker, command)
        if isinstance(command, ActOnMessages):
            assert isinstance(request, MessagesAction)
            if request.rate:
                return await self._begin_retry(asker, request, command)
            return await self._act(asker, command)
        if isinstance(command, DeleteQueue) and command.force:
            return await self._delete(asker, command)
        return await self._decide(asker.command(command))

    async def _look(self, request: Reading, asker: Asker) -> Answer | Refusal:
        """Answer from the state, in slices with turns of the broker in between if they are many."""
        hub = self._hub
        found = request.look(
            ViewSource(
                hub.broker.state,
                hub.broker.rights.permissions,
                lambda address: hosts.check_known(hub.broker, address),
                hub.broker.room.waiting.length,
                hub.beginning_of,
                hub.session_of,
                lambda counted: {"pid": os.getpid()} | hub.status(counted),
                self.outgoing,
                self._retries.rows,
                self.premises,
                asker.rights,
                time.time_ns() // 1000,
                hub.piece_of,
                self._kept_orders,
                self._kept_sights,
                hub.broker.wildcards,
            )
        )
        if not isinstance(found, Generator):
            return found
        # One at a time: however many ask, a turn has one slice.
        async with self._looking:
            return await in_turns(found)

    async def _close(self, request: ConnectionClosing, asker: Asker) -> Answer | Refusal:
        """Close connections in slices, each with the event that names the administrator."""
        if not request.ids and request.user is None and request.peer is None:
            return Refusal(Code.INVALID, "name ids, a user or a peer")
        hub = self._hub
        doomed = connections.matching(
            hub.broker.state, ids=request.ids, user=request.user, peer=request.peer
        )
        closed, first = 0, hub.broker.next_lsn
        for lately in connections.closing(hub.close_connection, doomed):
            closed += lately
            if hub.broker.next_lsn > first:
                hub.request(RecordRequest(asker.by, asker.request, first))
            await asyncio.sleep(0)
            first = hub.broker.next_lsn
        return {"closed": closed}

    async def _delete(self, asker: Asker, command: DeleteQueue) -> Answer | Refusal:
        """Delete a queue with its messages; the answer has the number of removed messages."""
        queue = _queue_of(self._hub.broker.state, command.queue)
        # The command is decided at once; only the answer waits for the disk.
        removed = queue.message_count if queue is not None else 0
        told = await self._decide(asker.command(command))
        return told if isinstance(told, Refusal) else told | {"removed": removed}

    async def _in_parts(self, asker: Asker, command: InParts) -> Answer | Refusal:
        """Execute a command about the messages that exist now, one part at a time.

        Other work has its turn between the parts, and each part is durable before the next, so
        memory is bounded, and the answer is right.
        """
        state = self._hub.broker.state
        last: dict[str, Any] = {"lsn": 0}
        what = DONE_WITH[type(command)]
        removed = 0
        while True:
            queue = _queue_of(state, command.queue)
            before = _waiting(queue, command)
            # The command is decided at once; only the answer waits for the disk.
            deciding = self._decide(asker.command(command))
            removed += before - _waiting(queue, command)
            told = await deciding
            if isinstance(told, Refusal):
                # A queue that this has emptied may have been deleted for that: then it is done.
                is_done = told.code is Code.NOT_FOUND and last["lsn"]
                return last | {what: removed} if is_done else told
            if told["lsn"] == 0:
                return last | {what: removed}
            last = told

    async def _act(self, asker: Asker, command: ActOnMessages) -> Answer | Refusal:
        """Do something with the messages that a queue has now, one part at a time."""
        last = 0
        while not command.is_done:
            told = await self._decide(asker.command(command))
            if isinstance(told, Refusal):
                if told.code is Code.NOT_FOUND and last:
                    # The queue that this has emptied was deleted for that.
                    break
                return told
            last = told["lsn"] or last
            # Without matching messages there is no need to wait for the disk.
            await asyncio.sleep(0)
        return {
            "lsn": last,
            "acted": command.acted,
            "passed_over": command.passed_over,
            "why": command.whys,
        }

    async def _begin_retry(
        self, asker: Asker, request: MessagesAction, command: ActOnMessages
    ) -> Answer | Refusal:
        """Begin to retry messages with a limit of rate, by the rights that the user has at each
        part."""
        queue = _queue_of(self._hub.broker.state, command.queue)
        if queue is None:
            return no_queue(plain(command.queue))
        command.queue = queue.name

        async def part() -> Answer | Refusal:
            if asker.actor is not None and self.acting is not None:
                rights = self.acting.rights_of(asker.actor.user, asker.actor.peer)
                refusal = rights if isinstance(rights, Refusal) else rights.may(request)
                if refusal is not None:
                    return refusal
            return await self._decide(asker.command(command))

        of = None if command.filter else queue.message_count - queue.in_flight_count
        if of is not None and command.total:
            of = min(of, command.total)
        return await self._retries.begin(command, request.rate, asker.by, part, of)

    def _decide(self, command: Command) -> "asyncio.Future[Answer | Refusal]":
        """Decide a command at once; the future gets the answer when it may be sent."""
        answered: asyncio.Future[Answer | Refusal] = asyncio.get_running_loop().create_future()

        def answer(result: int | Refusal) -> None:
            if not answered.done():
                answered.set_result(result if isinstance(result, Refusal) else {"lsn": result})

        self._hub.request(command, answer)
        return answered


def _queue_of(state: State, name: str) -> Queue | None:
    found = find_queue(state, name)
    return None if isinstance(found, Refusal) else found


def _waiting(queue: Queue | None, command: InParts) -> int:
    """Return the number of messages to which a command applies."""
    if queue is None:
        return 0
    if isinstance(command, ReleaseHeld):
        return queue.held_count
    if isinstance(command, DeliverScheduled):
        return queue.scheduled_count
    return queue.ready_count + queue.aside_count


def _told(result: Answer | Refusal) -> dict[str, Any]:
    if isinstance(result, Refusal):
        return _error(result.code.value, result.text)
    return {"result": result}


def _error(code: str, text: str) -> dict[str, Any]:
    return {"error": {"code": code, "text": text}}


def bind(path: Path) -> socket.socket:
    """Create a listening unix socket that only its owner may use, replacing a stale one."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX)
    try:
        # Linux creates the file with the mode of the socket, so it never has another mode.
        os.fchmod(listener.fileno(), 0o600)
        # The path of a socket is limited to 107 bytes, that of a directory is not.
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        listener.listen()
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener
