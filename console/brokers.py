"""The brokers that a console shows: requests of administration, sent with the rights of a user.

Data flow: a page asks; an equal request of the same user in the last two seconds gives the same
answer; others wait for one of four threads of this broker, and send it over the control socket (as
the user, by `act-as`) or to the acceptor for administration (by the user's token).

Invariants: a broker that hangs holds its own threads and nobody else's; waiting requests and kept
answers are bounded; no request is sent with more rights than its user has. Fault model: the broker
may not run, die within an answer, refuse, or hang.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from daybook.client.control import ControlError, ask, connect
from daybook.client.remote import TokenRefused, ask_remote, remote_at
from daybook.client.standing_by import about_standby
from daybook.console.console_config import Place
from daybook.journal.confirmed import is_bounded
from daybook.journal.data_directory import NODE_SOCKET
from daybook.server.network.admission import network_of
from daybook.server.users.failures import Failures
from daybook.texts import counted

Answer: TypeAlias = dict[str, Any]

THREADS: Final = 4
WAITING_MAX: Final = 64
KEPT_MAX: Final = 200
KEPT_SECONDS: Final = 2.0
READ_SECONDS: Final = 10.0
CHANGE_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 2.0
WRONG_DELAY_MAX_US: Final = 30_000_000
"""The longest delay after wrong logins at a broker elsewhere. It is much longer than the delay
there (`server.users.failures`), which is for all tokens of this console."""
OF_NODES: Final = ("log-in", "act-as")
"""What the node of a cluster answers, too, while its broker does not run."""
BUSY: Final = "too many requests wait for the broker; try again in a moment"


class Identity(msgspec.Struct, frozen=True):
    """Who asks a broker. Without a user it is the operator of this machine; `token` is that of a
    user of a broker elsewhere, and never shown. `sees` if it may read the history."""

    user: str
    peer: str
    token: str = ""
    sees: bool = False
    manages: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether this is the operator."""
        return not self.user

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.user or "operator"


class NotRunning(ControlError):
    """No broker runs on a data directory."""


class Broker:
    """A broker that is shown. Used only in the thread of the event loop."""

    def __init__(
        self, place: Place, clock: Callable[[], int] = lambda: time.monotonic_ns() // 1000
    ) -> None:
        """`clock` returns microseconds."""
        self.name: Final = place.name
        self.directory: Final[Path | None] = place.data
        self.proofs: Final = place.proofs
        self.url: Final = place.url
        self._ca_file: Final = place.trusted_certificates
        self._threads: Final = ThreadPoolExecutor(THREADS, f"ask-{place.name}")
        self._failures: Final = Failures(WRONG_DELAY_MAX_US)
        self._clock: Final = clock
        self.handed_over = ""
        self._waiting = 0
        self._kept: Final[OrderedDict[bytes, tuple[float, asyncio.Future[Answer]]]] = OrderedDict()

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.url or str(self.directory)

    @property
    def is_node(self) -> bool:
        """Whether the data directory is that of a node of a cluster, on this machine."""
        return self.directory is not None and is_bounded(self.directory)

    async def ask_node(self, request: Answer) -> Answer:
        """Return what the node of the data directory answers, also while no broker runs. Raises
        ControlError, and NotRunning if no node runs."""
        return await self._do(partial(self._exchange_with_node, request))

    def options(self) -> tuple[str, ...]:
        """Return the options that name this broker on a command line."""
        return ("--url", self.url) if self.url else ("--data", str(self.directory))

    async def look(self, identity: Identity, request: Answer) -> Answer:
        """Return the answer to a request that reads; one of the last two seconds will do. Raises
        ControlError, and NotRunning if no broker runs."""
        key = msgspec.json.encode([identity.user, identity.token, request])
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return await asyncio.shield(kept[1])
        asked = asyncio.ensure_future(self._send(identity, request, READ_SECONDS))
        # Whoever waits gets the error; it is kept like an answer.
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._kept[key] = now, asked
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return await asyncio.shield(asked)

    async def status(self) -> Answer:
        """Return the status as it is now. Raises ControlError, and NotRunning."""
        return await self._send(Identity("", ""), {"do": "status"}, READ_SECONDS)

    def is_there(self) -> bool:
        """Whether a broker runs here and accepts connections."""
        assert self.directory is not None
        with contextlib.suppress(ControlError):
            line = connect(self.directory, CONNECT_SECONDS)
            if line is not None:
                line.close()
                return True
        return False

    async def until_it_ends(self) -> bool:
        """Wait until the broker that runs here ends; return whether one ran at all. Raises
        ControlError."""
        assert self.directory is not None
        loop = asyncio.get_running_loop()
        line = await loop.run_in_executor(self._threads, connect, self.directory, CONNECT_SECONDS)
        if line is None:
            return False
        with line:
            line.setblocking(False)
            with contextlib.suppress(ConnectionError):
                # It says nothing by itself.
                await loop.sock_recv(line, 1)
        self._kept.clear()
        return True

    async def change(self, identity: Identity, request: Answer) -> Answer:
        """Send a request that changes something, and return the answer. Raises ControlError, and
        NotRunning."""
        self._kept.clear()
        try:
            return await self._send(identity, request, CHANGE_SECONDS)
        finally:
            self._kept.clear()

    async def log_in(self, login: str, passcode: str, peer: str) -> Identity:
        """Return who has a login. Raises ControlError, and NotRunning."""
        if self.url:
            return await self._log_in_elsewhere(Identity(login, peer, passcode))
        asked = {"do": "log-in", "login": login, "passcode": passcode, "peer": peer}
        user = (await self._send(Identity("", ""), asked, READ_SECONDS))["user"]
        return await self.identify(user, peer)

    async def _log_in_elsewhere(self, identity: Identity) -> Identity:
        """Return the identity if the broker takes its token. That broker knows no address but that
        of this console, and would delay everybody here: so the console delays the address of a
        browser with wrong logins, before it asks. Raises ControlError."""
        address = network_of(identity.peer.rpartition(":")[0].strip("[]"))
        now = self._clock()
        left = self._failures.next_at(address) - now
        if left > 0:
            seconds = counted(-(-left // 1_000_000), "second")
            raise ControlError(
                f"too many logins from your address were wrong; try again in {seconds}"
            )
        # Counted before it is known, so that many at a time do not get around the delay.
        self._failures.note_failure(address, now)
        try:
            await self._send(identity, {"do": "queues", "limit": 1}, READ_SECONDS)
        except TokenRefused:
            raise
        except ControlError:
            self._failures.take_back(address)
            raise
        self._failures.take_back(address)
        self._failures.note_success(address)
        return identity

    async def identify(self, user: str, peer: str) -> Identity:
        """Return what a user may see now. Raises ControlError, and NotRunning."""
        told = await self._send(Identity("", ""), _acting(user, peer), READ_SECONDS)
        return Identity(user, peer, sees=told["sees"], manages=told["manages"])

    async def identify_lately(self, identity: Identity) -> Identity:
        """Return what a user may see, as of the last two seconds. Raises ControlError, and
        NotRunning."""
        # Rights do not depend on the port, so that all tabs of a user are one question.
        place = identity.peer.rpartition(":")[0]
        told = await self.look(Identity("", ""), _acting(identity.user, f"{place}:0"))
        return msgspec.structs.replace(identity, sees=told["sees"], manages=told["manages"])

    async def _send(self, identity: Identity, request: Answer, seconds: float) -> Answer:
        return await self._do(partial(self._exchange, identity, request, seconds))

    async def _do(self, work: Callable[[], Answer]) -> Answer:
        """Do work in one of the threads. Raises ControlError."""
        if self._waiting >= WAITING_MAX:
            raise ControlError(BUSY)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def _exchange(self, identity: Identity, request: Answer, seconds: float) -> Answer:
        """Send a request; in a thread."""
        if self.url:
            return ask_remote(
                remote_at(self.url, identity.token, self._ca_file), request, timeout=seconds
            )
        assert self.directory is not None
        # So that the journal says from where, for the operator, too.
        before = (_acting(identity.user, identity.peer),) if identity.peer else ()
        answer = ask(self.directory, request, seconds, before=before)
        if answer is None and request["do"] in OF_NODES and self.is_node:
            answer = ask(self.directory, request, seconds, name=NODE_SOCKET)
        if answer is None:
            standby = about_standby(self.directory)
            raise NotRunning(
                f"no broker runs on {self.directory}{': ' if standby else ''}{standby}"
            )
        return answer

    def _exchange_with_node(self, request: Answer) -> Answer:
        """Send a request to the node; in a thread."""
        assert self.directory is not None
        answer = ask(self.directory, request, CHANGE_SECONDS, name=NODE_SOCKET)
        if answer is None:
            raise NotRunning(f"no node of a cluster runs on {self.directory}")
        return answer

    def close(self) -> None:
        """End its threads; what they wait for is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _acting(user: str, peer: str) -> Answer:
    return {"do": "act-as", "user": user, "peer": peer}
