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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import msgspec

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    NO_HISTORY,
    ClearDuplicateIds,
    Command,
    CreateAddress,
    CreateQueue,
    DeleteAddress,
    DeleteQueue,
    DeliverScheduled,
    ForgetRetained,
    PauseQueue,
    PurgeQueue,
    RecordRequest,
    ReleaseHeld,
    ResumeQueue,
)
from daybook.engine.core import hosts
from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts.definitions import (
    ANYCAST,
    QueueDefinition,
    is_as_requested,
    not_requestable,
)
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Queue, StoreError
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Actor
from daybook.engine.settings.queue_defaults import with_defaults
from daybook.engine.state.state import State
from daybook.server.administration import connections, views
from daybook.server.administration.divert_requests import (
    DivertCreation,
    DivertDeletion,
    Diverts,
    listing_diverts,
)
from daybook.server.administration.group_requests import GroupsOf, GroupsReset, listing_groups
from daybook.server.administration.queue_requests import Asker, Changing, MessagesAction, user_of
from daybook.server.administration.rights_requests import RightsOf, rights
from daybook.server.process import logs
from daybook.server.process.in_turns import in_turns
from daybook.server.process.slices import Slices

REQUEST_BYTES_MAX: Final = 64 * 1024
CLIENTS_MAX: Final = 32

Offset = Annotated[int, msgspec.Meta(ge=0)]


class ControlledHub(Protocol):
    """What the control socket needs of the hub."""

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

    def beginning_of(self, message: Message) -> bytes:
        """Return the beginning of the body of a large message. Raises StoreError."""
        ...

    def status(self, counted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the figures of the hub and the process, with what was counted."""
        ...


class Status(msgspec.Struct, frozen=True, tag="status", tag_field="do"):
    """Request the status of the broker."""


class Queues(msgspec.Struct, frozen=True, tag="queues", tag_field="do"):
    """Request a page of the queues."""

    offset: Offset = 0


class Addresses(msgspec.Struct, frozen=True, tag="addresses", tag_field="do"):
    """Request a page of the addresses."""

    offset: Offset = 0


class Connections(msgspec.Struct, frozen=True, tag="connections", tag_field="do"):
    """Request a page of the connections."""

    offset: Offset = 0


class Consumers(msgspec.Struct, frozen=True, tag="consumers", tag_field="do"):
    """Request a page of the consumers."""

    offset: Offset = 0


class ConnectionClosing(msgspec.Struct, frozen=True, tag="close-connections", tag_field="do"):
    """Close the connections that match all given conditions."""

    ids: tuple[int, ...] = ()
    user: str | None = None
    peer: str | None = None


class SettingsOf(msgspec.Struct, frozen=True, tag="settings", tag_field="do"):
    """Request the settings of an address."""

    address: str


class Browse(msgspec.Struct, frozen=True, tag="browse", tag_field="do"):
    """Request a page of a queue."""

    queue: str
    offset: int = 0
    limit: int = views.PAGE_DEFAULT
    filter: str = ""


class QueueCreation(msgspec.Struct, frozen=True, tag="create-queue", tag_field="do"):
    """Create a queue; `address` defaults to its name. `after` (an event, -1 for the last one) and
    `since` (milliseconds since 1970) say from where on it gets the history of the address."""

    definition: QueueDefinition
    address: str = ""
    if_missing: bool = False
    after: int = 0
    since: int = 0

    def is_done(self, state: State) -> bool:
        """Return whether existing is allowed and the queue exists with all requested attributes."""
        wanted = self.definition
        queue = state.queue_by_name.get(wanted.name)
        if not self.if_missing or queue is None:
            return False
        is_there = queue.address.name == (self.address or wanted.name)
        wanted = with_defaults(wanted, state.settings.resolve(queue.address.name))
        return is_there and is_as_requested(queue.definition, wanted)

    def command(self) -> Command:
        """Return the command for this request."""
        name = self.address or self.definition.name
        after = self.after if self.after >= 0 else NO_HISTORY
        return CreateQueue(
            name, self.definition, adopts=self.if_missing, after=after, since=self.since
        )


class QueueDeletion(msgspec.Struct, frozen=True, tag="delete-queue", tag_field="do"):
    """Delete a queue."""

    queue: str
    force: bool = False

    def command(self) -> Command:
        """Return the command for this request."""
        return DeleteQueue(self.queue, self.force)


class QueuePurge(msgspec.Struct, frozen=True, tag="purge-queue", tag_field="do"):
    """Remove all ready and held messages of a queue."""

    queue: str


class QueueRelease(msgspec.Struct, frozen=True, tag="release-queue", tag_field="do"):
    """Deliver all held messages of a queue again."""

    queue: str


class QueueDelivery(msgspec.Struct, frozen=True, tag="deliver-scheduled", tag_field="do"):
    """Make all scheduled messages of a queue ready now."""

    queue: str


class QueuePause(msgspec.Struct, frozen=True, tag="pause-queue", tag_field="do"):
    """Stop the deliveries of a queue."""

    queue: str

    def command(self) -> Command:
        """Return the command for this request."""
        return PauseQueue(self.queue)


class QueueResumption(msgspec.Struct, frozen=True, tag="resume-queue", tag_field="do"):
    """Resume the deliveries of a queue."""

    queue: str

    def command(self) -> Command:
        """Return the command for this request."""
        return ResumeQueue(self.queue)


class AddressCreation(msgspec.Struct, frozen=True, tag="create-address", tag_field="do"):
    """Create an address, or add routing types to it."""

    address: str
    routing_types: tuple[str, ...] = (ANYCAST,)
    if_missing: bool = False

    def is_done(self, state: State) -> bool:
        """Return whether existing is allowed and the address exists with all requested types."""
        address = state.address_by_name.get(self.address)
        if not self.if_missing or address is None:
            return False
        has_types = set(self.routing_types) <= set(address.definition.routing_types)
        return has_types and not address.definition.auto_delete

    def command(self) -> Command:
        """Return the command for this request."""
        return CreateAddress(self.address, self.routing_types, self.if_missing)


class AddressDeletion(msgspec.Struct, frozen=True, tag="delete-address", tag_field="do"):
    """Delete an address; with its queues only if `force` is set."""

    address: str
    force: bool = False

    def command(self) -> Command:
        """Return the command for this request."""
        return DeleteAddress(self.address, self.force)


class IdCacheClearing(msgspec.Struct, frozen=True, tag="clear-id-cache", tag_field="do"):
    """Clear the duplicate ids that an address remembers."""

    address: str

    def command(self) -> Command:
        """Return the command for this request."""
        return ClearDuplicateIds(self.address)


class RetainedForgetting(msgspec.Struct, frozen=True, tag="forget-retained", tag_field="do"):
    """Make an address forget the message that it retains."""

    address: str

    def command(self) -> Command:
        """Return the command for this request."""
        return ForgetRetained(self.address)


Long = Status | Queues | Addresses | Connections | Consumers | Diverts | GroupsOf
"""What may look at very many objects, and is answered in slices."""
Brief = SettingsOf | Browse | RightsOf
Reading = Long | Brief
Change = (
    QueueCreation | QueueDeletion | QueuePause | QueueResumption
    | AddressCreation | AddressDeletion | IdCacheClearing | RetainedForgetting | DivertCreation
    | DivertDeletion | GroupsReset | Changing
)  # fmt: skip
Request = (
    Reading | QueuePurge | QueueRelease | QueueDelivery | MessagesAction | ConnectionClosing
    | Change
)  # fmt: skip
InParts = PurgeQueue | ReleaseHeld | DeliverScheduled
DONE_WITH: Final[dict[type, str]] = {
    PurgeQueue: "removed", ReleaseHeld: "released", DeliverScheduled: "made_ready",
}  # fmt: skip
"""What the answer calls the number of messages that a command in parts was about."""

log = logs.logger("control")

_decoder: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def _anything(request: Any) -> None:
    """Allow every request."""


class ControlServer:
    """Listens on the socket; used only in the thread of the event loop that starts it."""

    def __init__(self, hub: ControlledHub, path: Path) -> None:
        self._hub: Final = hub
        self._path: Final = path
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._looking: Final = asyncio.Lock()

    async def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be created."""
        listener = bind(self._path)
        # The buffer must hold a request of the maximum length and its line feed.
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=REQUEST_BYTES_MAX + 1
        )

    async def look(self) -> None:
        """Listen again if somebody removed the socket. Raises OSError if it cannot be created."""
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
            by = user_of(writer.get_extra_info("socket").fileno())
            while line := await reader.readline():
                writer.write(await self.answer(line, by) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            # The client disconnected, which it may do at any time.
            return
        except ValueError:
            text = f"a request has at most {REQUEST_BYTES_MAX} bytes and ends with a line feed"
            writer.write(_encode(_error(Code.LIMIT.value, text)) + b"\n")
        finally:
            del self._clients[writer]
            writer.close()

    async def answer(
        self,
        line: bytes,
        by: str,
        may: Callable[[Any], Refusal | None] = _anything,
        actor: Actor | None = None,
    ) -> bytes:
        """Return the answer to a request, in JSON; `by` is recorded with what it changes.

        `may` returns why the request is refused, None if it is not. `actor` is the administrator if
        it is not the operator of this machine.
        """
        try:
            request = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _encode(_error(Code.INVALID.value, f"this is not a request: {error}"))
        refusal = may(request)
        if refusal is not None:
            return _encode(_told(refusal))
        return _encode(await self._carry_out(request, Asker(by, line.decode().strip(), actor)))

    async def _carry_out(self, request: Request, asker: Asker) -> dict[str, Any]:
        if isinstance(request, QueuePurge):
            return _told(await self._in_parts(asker, PurgeQueue(request.queue)))
        if isinstance(request, MessagesAction):
            return _told(await self._act(asker, request))
        if isinstance(request, QueueRelease):
            return _told(await self._in_parts(asker, ReleaseHeld(request.queue)))
        if isinstance(request, QueueDelivery):
            return _told(await self._in_parts(asker, DeliverScheduled(request.queue)))
        if isinstance(
            request, QueueCreation | AddressCreation | DivertCreation
        ) and request.is_done(self._hub.broker.state):
            return _told({"exists": True})
        if isinstance(request, QueueCreation) and not_requestable(request.definition):
            wrong = ", ".join(not_requestable(request.definition))
            return _error(Code.INVALID.value, f"nobody can ask for these attributes: {wrong}")
        if isinstance(request, QueueDeletion) and request.force:
            return _told(await self._delete(asker, request))
        if isinstance(request, Change):
            return _told(await self._decide(asker.command(request.command())))
        if isinstance(request, ConnectionClosing):
            return _told(await self._close(request, asker))
        if isinstance(request, Long):
            # One at a time: however many ask, a turn has one slice.
            async with self._looking:
                return _told(await self._look(request))
        return _told(self._read(request))

    async def _look(self, request: Long) -> dict[str, Any] | Refusal:
        """Answer from all of many objects, in slices with turns of the broker in between."""
        state = self._hub.broker.state
        if isinstance(request, Status):
            found = await in_turns(views.counting(state))
            return {"pid": os.getpid()} | self._hub.status(found)
        if isinstance(request, GroupsOf):
            return await in_turns(listing_groups(state, request))
        return await in_turns(self._listing(state, request))

    def _listing(
        self, state: State, request: Queues | Addresses | Connections | Consumers | Diverts
    ) -> Slices[dict[str, Any]]:
        if isinstance(request, Queues):
            return views.listing_queues(state, offset=request.offset)
        if isinstance(request, Addresses):
            blocked = self._hub.broker.line.length
            return views.listing_addresses(state, offset=request.offset, blocked=blocked)
        if isinstance(request, Connections):
            return connections.listing_connections(state, request.offset)
        if isinstance(request, Consumers):
            return connections.listing_consumers(state, request.offset)
        return listing_diverts(state)

    def _read(self, request: Brief) -> dict[str, Any] | Refusal:
        state = self._hub.broker.state
        if isinstance(request, SettingsOf):
            unknown = hosts.check_known(self._hub.broker, request.address)
            return unknown or views.settings(state, request.address)
        if isinstance(request, Browse):
            return self._browse(request)
        return rights(self._hub.broker.permissions, request)

    async def _close(self, request: ConnectionClosing, asker: Asker) -> dict[str, Any] | Refusal:
        """Close connections in slices, each of them with the event that says who asked for it."""
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

    def _browse(self, request: Browse) -> dict[str, Any] | Refusal:
        hub = self._hub
        try:
            return views.browse(
                hub.broker.state, request.queue, offset=request.offset, limit=request.limit,
                chosen_by=request.filter, beginning=hub.beginning_of,
            )  # fmt: skip
        except StoreError as error:
            return Refusal(Code.NOT_FOUND, f"a message cannot be read back: {error}")

    async def _delete(self, asker: Asker, request: QueueDeletion) -> dict[str, Any] | Refusal:
        """Delete a queue with its messages; the answer has the number of removed messages."""
        queue = _queue_of(self._hub.broker.state, request.queue)
        # The command is decided at once; only the answer waits for the disk.
        removed = queue.message_count if queue is not None else 0
        told = await self._decide(asker.command(request.command()))
        return told if isinstance(told, Refusal) else told | {"removed": removed}

    async def _in_parts(self, asker: Asker, command: InParts) -> dict[str, Any] | Refusal:
        """Execute a command about the messages that exist now, one part at a time.

        Other work has its turn between the parts, and each part is durable before the next, so
        memory is bounded, and the answer is right.
        """
        state = self._hub.broker.state
        command.through = max(self._hub.broker.lsn, 1)
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

    async def _act(self, asker: Asker, request: MessagesAction) -> dict[str, Any] | Refusal:
        """Do something with the messages that a queue has now, one part at a time."""
        command = request.command(max(self._hub.broker.lsn, 1), asker.actor)
        last = 0
        while not command.is_done:
            told = await self._decide(asker.command(command))
            if isinstance(told, Refusal):
                if told.code is Code.NOT_FOUND and last:
                    # The queue that this has emptied was deleted for that.
                    break
                return told
            last = told["lsn"] or last
            # Nothing waits for the disk where nothing was chosen.
            await asyncio.sleep(0)
        return {
            "lsn": last,
            "acted": command.acted,
            "passed_over": command.passed_over,
            "why": command.whys,
        }

    def _decide(self, command: Command) -> "asyncio.Future[dict[str, Any] | Refusal]":
        """Decide a command at once; the future gets the answer when it may be sent."""
        answered: asyncio.Future[dict[str, Any] | Refusal] = (
            asyncio.get_running_loop().create_future()
        )

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


def _told(result: dict[str, Any] | Refusal) -> dict[str, Any]:
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
