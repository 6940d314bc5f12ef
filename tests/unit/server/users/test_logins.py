"""Logins by hand: an executor that hashes on request, and a clock that stands still."""

import secrets
from collections.abc import Callable
from concurrent.futures import Executor, Future
from io import StringIO
from typing import Any

import pytest

from daybook.server.process import logs
from daybook.server.users.failures import DELAY_MAX_US, FREE_FAILURES
from daybook.server.users.logins import (
    BUSY,
    ENABLE,
    HostRequest,
    Limits,
    LoginRequest,
    Logins,
)
from daybook.server.users.passcode_hashes import CannotCheck


class Users:
    """joe with the passcode `right`; a verified user is known at once."""

    def __init__(self) -> None:
        self.known: set[tuple[str, str]] = set()
        self.hashed: list[tuple[str, str]] = []
        self.disabled: set[str] = set()

    def admits_at_once(self, login: str, passcode: str, *, peer_is_loopback: bool) -> bool:
        return (login, passcode) in self.known

    def may_use(self, login: str, host: str) -> bool:
        return host == "default"

    def can_be_right(self, login: str) -> bool:
        return login != "guest"

    def has(self, login: str) -> bool:
        return login == "joe"

    def is_disabled(self, login: str) -> bool:
        return login in self.disabled

    def why_not_proven(self, login: str) -> str:
        return "" if self.has(login) else f"there is no user '{login}'"

    def digest(self, passcode: str) -> bytes:
        return passcode.encode()

    def why_not(self, login: str, peer_is_loopback: bool) -> str:
        return f"{login} is wrong"

    def has_verifier(self, login: str) -> bool:
        return login != "joe"

    def verify(self, login: str, passcode: str) -> bool:
        self.hashed.append((login, passcode))
        if passcode == "exhausted":
            raise CannotCheck("no memory")
        right = (login, passcode) == ("joe", "right")
        if right:
            self.known.add((login, passcode))
        return right


class Hand(Executor):
    """Hashes one at a time, when `hash` is called."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        return future

    def hash(self) -> None:
        future, work = self.work.pop(0)
        try:
            future.set_result(work())
        except CannotCheck as error:
            future.set_exception(error)


class FakeProof:
    """A proof that is right, or not."""

    def __init__(self, login: str, is_right: bool) -> None:
        self.login = login
        self.answer = secrets.token_bytes(8)
        self.is_right = is_right

    def check(self) -> bool:
        return self.is_right


class World:
    """Logins with everything around them."""

    def __init__(self) -> None:
        self.users = Users()
        self.hand = Hand()
        self.now = 1_000_000
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.limits = Limits(pending=10, pending_per_address=4)
        self.answers: list[tuple[str | None, str]] = []
        self.gone: set[str] = set()
        self.logins = Logins(
            self.users,  # type: ignore[arg-type]
            self,
            self.hand,
            lambda: self.limits,
            lambda: self.now,
        )

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> None:
        callback(*args)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.timers.append((delay, callback))

    def prove(self, *, is_right: bool, peer: str = "", login: str = "joe") -> None:
        request = LoginRequest(
            login, "", False, peer, "192.0.2.1", lambda: peer not in self.gone,
            proof=FakeProof(login, is_right),  # type: ignore[arg-type]
        )  # fmt: skip
        self.logins.begin(request, lambda user, text: self.answers.append((user, text)))

    def log_in(self, login: str, passcode: str, address: str = "192.0.2.1", peer: str = "") -> None:
        request = LoginRequest(login, passcode, False, peer, address, lambda: peer not in self.gone)
        self.logins.begin(request, lambda user, text: self.answers.append((user, text)))


@pytest.fixture
def world() -> World:
    return World()


def test_a_known_login_does_not_wait_behind_hashing(world: World) -> None:
    world.users.known.add(("joe", "right"))
    for number in range(4):
        world.log_in("joe", f"wrong{number}")
    world.log_in("joe", "right")
    assert world.answers == [("joe", "")]


def test_a_host_is_asked_for_after_the_login(world: World) -> None:
    assert world.logins.admit(HostRequest("joe", "default", "p:1", "192.0.2.1")) == ""
    assert world.logins.refused == 0
    why = world.logins.admit(HostRequest("joe", "other", "p:1", "192.0.2.1"))
    assert why == (
        "no virtual host is named so, or user 'joe' may not use it; connect to one that it may use"
    )
    assert world.logins.refused == 1


def test_a_right_passcode_is_hashed_once_for_all_who_wait(world: World) -> None:
    for _ in range(3):
        world.log_in("joe", "right")
    world.hand.hash()
    assert world.answers == [("joe", "")] * 3
    assert not world.hand.work
    assert world.logins.waiting == 0


def test_the_queues_are_bounded(world: World) -> None:
    for number in range(5):
        world.log_in("joe", f"wrong{number}")
    assert world.answers == [(None, BUSY)]
    for number in range(7):
        world.log_in("joe", f"wrong{number}", f"198.51.100.{number}")
    assert world.answers == [(None, BUSY)] * 2
    assert world.logins.status() == {
        "logins_waiting": 10,
        "logins_refused": 0,
        "logins_turned_away": 2,
    }


def test_addresses_take_turns(world: World) -> None:
    for number in range(4):
        world.log_in("joe", f"wrong{number}")
    world.log_in("joe", "right", "198.51.100.1")
    # Two of the flood are being hashed; of the others that wait, one goes before.
    world.hand.hash()
    world.hand.hash()
    world.hand.hash()
    world.hand.hash()
    assert ("joe", "") in world.answers


def test_nobody_hashes_for_peers_that_have_gone(world: World) -> None:
    for number in range(4):
        world.log_in("joe", f"wrong{number}", peer=f"p{number}")
    world.gone = {"p2", "p3"}
    # They make room, too.
    world.log_in("joe", "right")
    assert world.answers == []
    while world.hand.work:
        world.hand.hash()
    assert world.users.hashed == [("joe", "wrong0"), ("joe", "wrong1"), ("joe", "right")]
    assert world.logins.waiting == 0


def fail(world: World, count: int) -> None:
    """Let so many logins fail one after the other, waiting as long as it takes."""
    for number in range(count):
        world.log_in("joe", f"wrong{number}")
        if not world.hand.work:
            delay, wake = world.timers.pop()
            world.now += int(delay * 1_000_000) + 1
            wake()
        world.hand.hash()


def test_failures_delay_the_next_hash_longer_each_time(world: World) -> None:
    fail(world, FREE_FAILURES)
    assert world.timers == []
    delays = []
    for _ in range(8):
        fail(world, 1)
        world.log_in("joe", "again")
        delays.append(world.timers[-1][0])
        world.now += int(delays[-1] * 1_000_000) + 1
        world.timers.pop()[1]()
        world.hand.hash()
    assert delays == sorted(delays)
    assert delays[0] < 1
    assert delays[-1] == DELAY_MAX_US / 1_000_000
    # Another address does not pay for it.
    world.log_in("joe", "right", "198.51.100.1")
    world.hand.hash()
    assert world.answers[-1] == ("joe", "")


def test_what_can_never_be_right_is_refused_at_once(world: World) -> None:
    world.log_in("", "")
    world.log_in("guest", "guest")
    assert [text for _, text in world.answers] == [" is wrong", "guest is wrong"]
    assert world.hand.work == []


def test_a_passcode_that_could_not_be_checked_is_no_failure(world: World) -> None:
    world.log_in("joe", "exhausted")
    world.hand.hash()
    [(user, text)] = world.answers
    assert user is None
    assert "could not be checked (no memory)" in text
    assert world.logins.refused == 0


def test_a_refused_login_is_logged_with_its_address(world: World) -> None:
    stream = StringIO()
    logs.configure("info", "json", stream)
    for number in range(30):
        world.log_in("guest", "", peer=f"192.0.2.1:{number}")
    world.now += 60_000_000
    world.logins.tick()
    logs.configure("info", "auto")
    text = stream.getvalue()
    assert text.count("more logins refused") == 1
    assert text.count('"login refused"') == 20
    assert "192.0.2.1" in text


def test_a_login_that_is_proven_otherwise_is_answered_at_once(world: World) -> None:
    def prove(user: str) -> None:
        request = LoginRequest("joe", "right", False, proven=user)
        world.logins.begin(request, lambda user, text: world.answers.append((user, text)))

    prove("joe")
    prove("eve")
    assert world.answers == [("joe", ""), (None, "there is no user 'eve'")]
    assert world.logins.refused == 1


def test_a_disabled_user_hears_it_with_the_right_passcode_only(world: World) -> None:
    world.users.disabled.add("joe")
    world.log_in("joe", "right")
    world.log_in("joe", "wrong")
    world.hand.hash()
    world.hand.hash()
    assert world.answers == [
        (None, f"the user 'joe' is disabled; {ENABLE}"),
        (None, "joe is wrong"),
    ]


def test_a_proof_does_not_wait_behind_hashing(world: World) -> None:
    world.log_in("joe", "wrong1")
    world.log_in("joe", "wrong2")
    world.log_in("joe", "wrong3")
    world.prove(is_right=True)
    world.prove(is_right=False)
    assert world.answers == [("joe", ""), (None, "joe is wrong")]


def test_proofs_wait_for_the_delay_of_their_address(world: World) -> None:
    for number in range(FREE_FAILURES + 3):
        world.prove(is_right=False, peer=f"p{number}")
    world.prove(is_right=True)
    # One of them was behind the first delay already; then each waits for its turn.
    answered = len(world.answers)
    assert answered == FREE_FAILURES + 1
    assert world.logins.waiting == 3
    world.gone.add(f"p{FREE_FAILURES + 1}")
    while world.logins.waiting:
        world.now += DELAY_MAX_US
        world.timers.pop()[1]()
    # Nothing is checked for a peer that has gone.
    assert world.answers[answered:] == [(None, "joe is wrong"), ("joe", "")]
    assert not world.hand.work


def test_proofs_that_wait_are_bounded(world: World) -> None:
    for _ in range(FREE_FAILURES + 1 + world.limits.pending_per_address):
        world.prove(is_right=False)
    assert world.logins.waiting == world.limits.pending_per_address
    world.prove(is_right=True)
    assert world.answers[-1] == (None, BUSY)
    assert world.logins.turned_away == 1


def test_the_proof_of_a_disabled_user(world: World) -> None:
    world.users.disabled.add("joe")
    world.prove(is_right=True)
    world.prove(is_right=False)
    assert world.answers == [
        (None, f"the user 'joe' is disabled; {ENABLE}"),
        (None, "joe is wrong"),
    ]


def test_only_the_log_says_that_a_verifier_is_missing(world: World) -> None:
    stream = StringIO()
    logs.configure("info", "json", stream)
    world.prove(is_right=False)
    world.prove(is_right=False, login="eve")
    logs.configure("info", "auto")
    assert world.answers == [(None, "joe is wrong"), (None, "eve is wrong")]
    assert stream.getvalue().count("daybook user passwd") == 1


def test_what_is_malformed_is_a_failure_of_its_address(world: World) -> None:
    for _ in range(FREE_FAILURES + 1):
        request = LoginRequest("", "", False, address="192.0.2.1", fault="the response is wrong")
        world.logins.begin(request, lambda user, text: world.answers.append((user, text)))
    assert world.answers[-1] == (None, "the response is wrong")
    world.prove(is_right=True)
    assert world.logins.waiting == 1
