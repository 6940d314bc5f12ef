"""Administrators: connections of Administering protocols, whose requests are those of the control
socket.

Each connection has one request at a time, and nothing is read from it meanwhile, nor while it does
not read its answers; a request in parts ends with its connection. So an administrator that hangs
holds up nobody. The token is looked up again for each request, so a user that was disabled or lost
its token is refused at once. Must never know sockets.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from daybook.engine.facts.reasons import AUTHENTICATION
from daybook.protocols.port import AdminSession
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.control import ControlServer
from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Transport
from daybook.server.network.peers import Peers
from daybook.server.process.logs import logger
from daybook.server.users.logins import Logins
from daybook.server.users.users import Users

ROOM_BYTES: Final = 64 * 1024
"""A peer gives no more requests while more than this many bytes are on their way to it."""
STARTING: Final = "the broker is starting or stopping; try again later"

log = logger("administrators")


class Administrator:
    """State of one connection. `token` is kept to be looked up again, and never shown."""

    __slots__ = (
        "address", "closed", "closing", "deadline", "is_paused", "name", "session", "task", "token",
        "transport", "unread", "user",
    )  # fmt: skip

    connection = 0

    def __init__(self, session: AdminSession, transport: Transport, name: str) -> None:
        self.session = session
        self.transport = transport
        self.name = name
        self.address = name.rpartition(":")[0]
        self.user = ""
        self.token = ""
        self.deadline = 0
        self.unread = 0
        self.is_paused = False
        self.closing = False
        self.closed = False
        self.task: asyncio.Task[None] | None = None

    @property
    def is_stranger(self) -> bool:
        """Whether nobody logged in here."""
        return not self.user

    @property
    def was_answered(self) -> bool:
        """Whether the connection is the first to be closed to make room: strangers are."""
        return not self.user


class Administrators(Peers[Administrator]):
    """All connections of administrators; `control` is set while the broker serves."""

    room: Final = ROOM_BYTES

    def __init__(
        self, hub: Hub, users: Users, logins: Callable[[], Logins], clock: Callable[[], int]
    ) -> None:
        super().__init__(clock)
        self.control: ControlServer | None = None
        self._hub: Final = hub
        self._users: Final = users
        self._logins: Final = logins

    def received(self, peer: Administrator, data: bytes) -> None:
        """Bytes came from a peer."""
        if not peer.closed and not peer.closing:
            peer.session.receive(data, self._clock())
            self._after(peer)

    def lost(self, peer: Administrator) -> None:
        """The connection of a peer is gone; its request ends with its current part."""
        peer.closed = True
        self.peers.discard(peer)
        self._deadlines.forget(peer)
        if peer.task is not None:
            peer.task.cancel()

    def tick(self) -> None:
        """Do periodic work; called about ten times a second."""
        now = self._clock()
        for peer in self._deadlines.due(now):
            buffered = peer.transport.buffered()
            if buffered and buffered >= peer.unread > 0:
                peer.session.dismiss("timeout", "the answers are not read", now)
            peer.unread = buffered
            if buffered:
                peer.session.taking(now)
            else:
                peer.session.tick(now)
            self._after(peer)

    def stop(self) -> None:
        """Carry out nothing more, and end all connections."""
        self.control = None
        for peer in list(self.peers):
            if peer.task is not None:
                peer.task.cancel()
            peer.session.dismiss("unavailable", STARTING, self._clock())
            self._after(peer)

    def _after(self, peer: Administrator) -> None:
        """Handle the output and requests of a session after a call."""
        session = peer.session
        if session.token is not None:
            self._log_in(peer, session.token)
        elif session.request and peer.task is None and not _is_full(peer):
            peer.task = asyncio.get_running_loop().create_task(self._serve(peer))
        out, session.out = session.out, []
        for part in out:
            peer.transport.write(part)
        if peer.closing:
            return
        if session.closing:
            peer.closing = True
            self._deadlines.forget(peer)
            peer.transport.close(session.close_delay_ms)
            return
        self._read(peer, not session.has_more and not _is_full(peer))
        if session.next_deadline != peer.deadline:
            self._deadlines.set(peer, session.next_deadline)

    def _log_in(self, peer: Administrator, token: str) -> None:
        def answer(user: str | None, text: str) -> None:
            if user is None:
                refusal = (AUTHENTICATION, "control", "", text)
                self._hub.refusals.note(
                    refusal, peer=peer.name, address=peer.address, now=self._clock()
                )
            else:
                peer.user, peer.token = user, token
                log.info("administrator connected", user=user, peer=peer.name)
            peer.session.authenticated(user, text, self._clock())

        if self.control is None:
            peer.session.authenticated(None, STARTING, self._clock())
        else:
            self._logins().begin_token(token, peer.name, peer.address, answer)

    async def _serve(self, peer: Administrator) -> None:
        """Carry out the requests of a peer, until there is none."""
        try:
            while peer.session.request and not peer.closed and not _is_full(peer):
                await self._answer(peer)
        finally:
            peer.task = None

    async def _answer(self, peer: Administrator) -> None:
        control = self.control
        if control is None or self._users.user_of_token(peer.token) != peer.user:
            why = STARTING if control is None else "the token is not valid any more"
            peer.session.dismiss("not-allowed", why, self._clock())
            self._after(peer)
            return
        rights = self.rights_of(peer.user, peer.name)
        by = f"{peer.user} from {peer.name}"
        answer = await control.answer(peer.session.request, by, rights)
        if not peer.closed:
            peer.session.answered(answer, self._clock())
            self._after(peer)

    def rights_of(self, user: str, peer: str) -> AdminRights:
        """Return the rights of a user that exists, by the rules in force now."""
        broker = self._hub.broker
        return AdminRights(
            broker.state,
            broker.rights.permissions,
            user,
            peer,
            lambda denial: self._hub.refusals.denials.take([denial], self._clock()),
            self._users.hosts_of(user),
        )


def _is_full(peer: Administrator) -> bool:
    """Whether a peer has to read its answers before it gets more."""
    return peer.transport.buffered() > ROOM_BYTES
