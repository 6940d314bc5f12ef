"""Logins: accepted at once, queued for hashing the passcode, or refused.

Data flow: a login whose passcode was accepted before, or that needs none, is answered within the
call, and so is the proof of SCRAM, which is cheap to check. Any other login waits for one of two
hashing threads, in a queue for each peer address; the queues are served in turn. Invariants: a
login without a hash never waits for one with a hash; nothing is hashed for a peer that has
disconnected; the queues are bounded, in total and for each address; equal logins are hashed once.

After a few failures an address waits before its next hash or proof, each time longer (`failures`).
Several clients may share an address, so this does not lock users out: a client that logged in
before is still accepted at once, and the delay ends when the failures end. A failure is logged with
the address in a form that a program (fail2ban) can match, and the peer gets the actual reason, not
only "wrong".

It must never know sessions or sockets, and never log a passcode, nor a login that no user has.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, Protocol

import msgspec

from daybook.server.process.logs import logger
from daybook.server.process.tally import Tally
from daybook.server.users.failures import ADDRESSES_MAX, Failures
from daybook.server.users.passcode_hashes import CannotCheck
from daybook.server.users.scram import Proof
from daybook.server.users.users import GUEST, Users

HASHERS: Final = 2
"""How many passcodes are hashed at once: a flood of logins must not overload the machine."""
LINES_PER_MINUTE: Final = 20
"""How many failures of an address are logged individually in a minute; the rest are counted."""

PURGE_US: Final = 100_000
"""How often full queues are searched for peers that have disconnected."""

BUSY: Final = "too many logins wait to be checked; try again later"

ENABLE: Final = "log in as another one, or ask an administrator to enable it"

Answer = Callable[[str | None, str], None]
"""Called with the user's name, or with None and the reason as text."""

log = logger("logins")


def _always() -> bool:
    return True


class LoginRequest(msgspec.Struct, frozen=True):
    """A login of a peer and its address; `is_wanted` returns whether the peer still waits.

    `proven` is the name of a user that was proven otherwise, as by a certificate; login and
    passcode then do not matter. With a `proof` the passcode does not. `fault` is the reason why
    a login is refused in any case.
    """

    login: str
    passcode: str
    is_loopback: bool
    peer: str = ""
    address: str = ""
    is_wanted: Callable[[], bool] = _always
    proven: str = ""
    proof: Proof | None = None
    fault: str = ""


class HostRequest(msgspec.Struct, frozen=True):
    """A user asks for a virtual host, by a peer and its address."""

    user: str
    host: str
    peer: str
    address: str


class Limits(msgspec.Struct, frozen=True):
    """How many logins may wait for a hash."""

    pending: int
    pending_per_address: int


class Loop(Protocol):
    """The interface to an event loop."""

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call in the thread of the loop."""
        ...

    def call_later(self, delay: float, callback: Callable[..., Any]) -> Any:
        """Call after `delay` seconds."""
        ...


class _Waiting:
    """A login with a passcode that waits to be hashed, or with a proof that waits for the end of a
    delay, and all peers that wait for the result."""

    __slots__ = ("asked", "login", "passcode", "proof")

    def __init__(self, login: str, passcode: str, proof: Proof | None) -> None:
        self.login: Final = login
        self.passcode: Final = passcode
        self.proof: Final = proof
        self.asked: list[tuple[LoginRequest, Answer]] = []

    def keep_wanted(self) -> int:
        """Forget peers that have disconnected; return their number."""
        before = len(self.asked)
        self.asked = [one for one in self.asked if one[0].is_wanted()]
        return before - len(self.asked)


class Logins:
    """The logins of a broker. Used only in the thread of the event loop; `executor` hashes."""

    def __init__(
        self,
        users: Users,
        loop: Loop,
        executor: Executor,
        limits: Callable[[], Limits],
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
    ) -> None:
        self.refused = 0
        self.turned_away = 0
        self._users: Final = users
        self._loop: Final = loop
        self._executor: Final = executor
        self._limits: Final = limits
        self._clock: Final = clock
        self._queues: Final[OrderedDict[str, OrderedDict[tuple[str, bytes], _Waiting]]] = (
            OrderedDict()
        )
        self._waiting: Final[dict[str, int]] = {}
        self._total = 0
        self._purged = 0
        self._hashing: Final[dict[tuple[str, str, bytes], _Waiting]] = {}
        self._failures: Final = Failures()
        self._tally: Final[Tally[str]] = Tally(ADDRESSES_MAX, first=LINES_PER_MINUTE)
        self._timer_at = 0

    @property
    def waiting(self) -> int:
        """The number of peers that wait for a hash."""
        return self._total

    def begin(self, request: LoginRequest, answer: Answer) -> None:
        """Answer a login, at once or when its passcode has been hashed."""
        login, passcode = request.login, request.passcode
        if request.fault:
            self._refuse(request, answer, request.fault)
            return
        if request.proven:
            self._begin_proven(request, answer)
            return
        if request.proof is not None:
            self._begin_proof(request, request.proof, answer)
            return
        if not login and not passcode:
            login = passcode = GUEST
        users = self._users
        if users.admits_at_once(login, passcode, peer_is_loopback=request.is_loopback):
            answer(login, "")
            return
        if not users.can_be_right(login):
            self._refuse(request, answer, users.why_not(request.login, request.is_loopback))
            return
        self._wait(request, answer, _Waiting(login, passcode, None), users.digest(passcode))

    def _wait(self, request: LoginRequest, answer: Answer, new: _Waiting, secret: bytes) -> None:
        """Put a login into the queue of its address; `secret` is what it has in common with equal
        ones."""
        if not self._has_room(request.address):
            self.turned_away += 1
            answer(None, BUSY)
            return
        key = (new.login, secret)
        waiting = self._hashing.get((request.address, *key))
        if waiting is None:
            queue = self._queues.setdefault(request.address, OrderedDict())
            waiting = queue.setdefault(key, new)
        waiting.asked.append((request, answer))
        self._waiting[request.address] = self._waiting.get(request.address, 0) + 1
        self._total += 1
        self._pump()

    def admit(self, request: HostRequest) -> str:
        """Return why a user may not use a virtual host, "" if it may."""
        user = request.user
        if self._users.may_use(user, request.host):
            return ""
        # The same for a host that does not exist.
        why = (
            f"no virtual host is named so, or user '{user}' may not use it; connect to one that it"
            " may use"
        )
        asked = LoginRequest(user, "", False, request.peer, request.address)
        self._note_refused(asked, why, virtual_host=request.host or "unknown")
        return why

    def begin_token(self, token: str, peer: str, address: str, answer: Answer) -> None:
        """Answer a token at once; after failures of its address not before a delay is over."""
        now = self._clock()
        if self._time_of(address, now) > now:
            self.turned_away += 1
            answer(None, "too many tokens were wrong; try again later")
            return
        user = self._users.user_of_token(token)
        if user is None:
            request = LoginRequest("", "", False, peer, address)
            self._refuse(request, answer, "the token is wrong, or its user is disabled")
            return
        self._failures.note_success(address)
        answer(user, "")

    def _begin_proven(self, request: LoginRequest, answer: Answer) -> None:
        """Answer the login of a user whose name is proven: it must exist, and not be disabled."""
        why = self._users.why_not_proven(request.proven)
        if why:
            self._refuse(request, answer, why)
        else:
            answer(request.proven, "")

    def _begin_proof(self, request: LoginRequest, proof: Proof, answer: Answer) -> None:
        """Check a proof at once; after failures of its address not before a delay is over."""
        now = self._clock()
        waiting = _Waiting(proof.login, "", proof)
        if self._time_of(request.address, now) > now:
            self._wait(request, answer, waiting, proof.answer)
        else:
            waiting.asked.append((request, answer))
            self._conclude(request.address, waiting, proof.check())

    def tick(self) -> None:
        """Log the number of further failed logins of the last minute."""
        if not self._tally.is_over(self._clock()):
            return
        more, others = self._tally.take()
        for address, count in more.items():
            log.warning("more logins refused", address=address, count=count)
        if others:
            log.warning("more logins refused", address="others", count=others)

    def status(self) -> dict[str, object]:
        """The part of `daybook status`."""
        return {
            "logins_waiting": self.waiting,
            "logins_refused": self.refused,
            "logins_turned_away": self.turned_away,
        }

    # ---- the queues

    def _has_room(self, address: str) -> bool:
        limits = self._limits()
        if self._is_within(address, limits):
            return True
        now = self._clock()
        if now - self._purged < PURGE_US:
            return False
        self._purged = now
        self._drop_departed()
        return self._is_within(address, limits)

    def _is_within(self, address: str, limits: Limits) -> bool:
        of_address = self._waiting.get(address, 0)
        return of_address < limits.pending_per_address and self._total < limits.pending

    def _drop_departed(self) -> None:
        """Drop logins for which no peer waits any more."""
        for address, queue in list(self._queues.items()):
            for key, waiting in list(queue.items()):
                self._count_off(address, waiting.keep_wanted())
                if not waiting.asked:
                    del queue[key]
            if not queue:
                del self._queues[address]

    def _count_off(self, address: str, count: int) -> None:
        if not count:
            return
        self._total -= count
        left = self._waiting[address] - count
        if left:
            self._waiting[address] = left
        else:
            del self._waiting[address]

    def _pump(self) -> None:
        """Give the threads their next work: from each address in turn, if its delay is over."""
        now = self._clock()
        while len(self._hashing) < HASHERS:
            address = next((one for one in self._queues if self._time_of(one, now) <= now), None)
            if address is None:
                break
            self._begin_hash(address)
        if self._queues and len(self._hashing) < HASHERS:
            self._wake_at(min(self._time_of(one, now) for one in self._queues), now)

    def _time_of(self, address: str, now: int) -> int:
        """Return when the next passcode of an address may be hashed, not before now."""
        return max(now, self._failures.next_at(address))

    def _wake_at(self, moment: int, now: int) -> None:
        if self._timer_at and self._timer_at <= moment:
            return
        self._timer_at = moment

        def wake() -> None:
            if self._timer_at == moment:
                self._timer_at = 0
            self._pump()

        self._loop.call_later(max(0, moment - now) / 1_000_000, wake)

    def _begin_hash(self, address: str) -> None:
        queue = self._queues.pop(address)
        key, waiting = queue.popitem(last=False)
        if queue:
            # Behind the others.
            self._queues[address] = queue
        self._count_off(address, waiting.keep_wanted())
        if not waiting.asked:
            return
        if waiting.proof is not None:
            self._count_off(address, len(waiting.asked))
            self._conclude(address, waiting, waiting.proof.check())
            return
        place = (address, *key)
        self._hashing[place] = waiting
        work = self._executor.submit(self._users.verify, waiting.login, waiting.passcode)

        def done(result: "Future[bool]") -> None:
            if not result.cancelled():
                self._loop.call_soon_threadsafe(self._hashed, place, result)

        work.add_done_callback(done)

    def _hashed(self, place: tuple[str, str, bytes], result: "Future[bool]") -> None:
        waiting = self._hashing.pop(place)
        address = place[0]
        self._count_off(address, len(waiting.asked))
        error = result.exception()
        if error is not None and not isinstance(error, CannotCheck):
            raise error
        if error is not None:
            for _, answer in waiting.asked:
                answer(None, f"the passcode could not be checked ({error}); try again later")
        else:
            self._conclude(address, waiting, result.result())
        self._pump()

    def _conclude(self, address: str, waiting: _Waiting, is_right: bool) -> None:
        """Answer all peers that wait for a result."""
        if is_right:
            self._failures.note_success(address)
        else:
            self._failures.note_failure(address, self._clock())
        disabled = self._users.is_disabled(waiting.login)
        for request, answer in waiting.asked:
            if is_right and disabled:
                self._tell(request, answer, f"the user '{waiting.login}' is disabled; {ENABLE}")
            elif is_right:
                answer(waiting.login, "")
            else:
                why = self._users.why_not(request.login, request.is_loopback)
                self._tell(request, answer, why)

    # ---- refusals

    def _refuse(self, request: LoginRequest, answer: Answer, why: str) -> None:
        self._failures.note_failure(request.address, self._clock())
        self._tell(request, answer, why)

    def _tell(self, request: LoginRequest, answer: Answer, why: str) -> None:
        """Refuse a login, and log it with address and reason."""
        known = request.proof is not None and self._users.has(request.login)
        # Only the log may say so: to the peer a user without a verifier is like none.
        lacks = known and not self._users.has_verifier(request.login)
        advice = {"lacks": "a verifier for SCRAM; `daybook user passwd` makes one"} if lacks else {}
        self._note_refused(request, why, **advice)
        answer(None, why)

    def _note_refused(self, request: LoginRequest, why: str, **logged: str) -> None:
        """Count a login that was refused, and log it."""
        self.refused += 1
        if self._tally.note(request.address, self._clock()):
            known = request.login if self._users.has(request.login) else None
            log.warning(
                "login refused",
                address=request.address,
                peer=request.peer,
                login=known,
                why=why.replace(request.login, "...") if request.login and not known else why,
                **logged,
            )
