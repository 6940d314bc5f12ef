"""Logins by SASL: whatever the peer says, in whatever order, nobody is let in without a passcode,
and nothing of a login is left behind."""

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.protocols.port import Caller
from daybook.server.hub.peer import Peer
from daybook.server.users.logins import Limits, Logins
from daybook.server.users.sasl import Mechanisms
from daybook.server.users.users import Users
from tests.support.links.scram_client import ScramClient
from tests.support.links.session import LinksSession
from tests.unit.server.hub.test_hub import Bench, Transport
from tests.unit.server.hub.test_links import Links
from tests.unit.server.users.test_scram import verifier

MECHANISMS = ("SCRAM-SHA-256", "PLAIN", "EXTERNAL", "SCRAM-SHA-256-PLUS", "")
RIGHT = b"\0joe\0pencil"

answers = st.one_of(
    st.sampled_from(("first", "last", "wrong", "plain", "giant")),
    st.binary(max_size=40),
    st.none(),
)
steps = st.one_of(
    st.tuples(st.just("init"), st.sampled_from(MECHANISMS), answers),
    st.tuples(st.just("response"), st.just(""), answers),
    st.tuples(st.sampled_from(("hello", "open")), st.just(""), st.none()),
)


class AtOnce(Executor):
    """Hashes at once: joe's passcode is pencil, and no time is spent on it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(args == ("joe", "pencil"))
        return done


class Loop:
    """Calls back at once, and never later."""

    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        callback(*args)

    def call_later(self, delay: float, callback: Any) -> None:
        """A delay of failures ends in no test."""


class Door(Links):
    """A peer that logs in by the real checks."""

    def __init__(self, bench: Bench, users: Users) -> None:
        bench.hub._authenticate = Logins(  # type: ignore[misc]
            users, Loop(), AtOnce(), lambda: Limits(9, 9), lambda: bench.now
        ).begin
        self.bench = bench
        self.transport = Transport()
        caller = Caller("peer:1", Mechanisms(users).offered)
        self.session = LinksSession(bench.hub.broker, caller, 1 << 20)
        self.peer = Peer(self.session, self.transport, caller, "links", 1 << 20)
        bench.hub.mechanisms = Mechanisms(users)  # type: ignore[misc]
        bench.hub.opened(self.peer)
        self.scram = ScramClient("joe", "pencil")
        self.challenge = b""

    def answer(self, said: str | bytes | None) -> bytes | None:
        if said == "first":
            return self.scram.first()
        if said in ("plain", "giant"):
            return RIGHT if said == "plain" else bytes(5000)
        if said in ("last", "wrong"):
            if not self.challenge.startswith(b"r=" + self.scram.nonce.encode()):
                return b"c=biws,r=x,p=AAAA"
            right = self.scram.last(self.challenge)
            return right if said == "last" else right[:-8] + b"AAAAAAA="
        assert not isinstance(said, str)
        return said


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    path: Path = tmp_path_factory.mktemp("users") / "users.toml"
    path.write_text(f'[users]\njoe = {{ scram = "{verifier().text}" }}\n')
    return Users.load(path)


Said = list[tuple[str, str, str | bytes | None]]


def log_in(said: Said, users: Users) -> bool:
    """Say all that; return whether the peer was let in. Checks each step."""
    door = Door(Bench(), users)
    mechanism, proven = "", False
    for name, chosen, what in said:
        if door.session.closing:
            break
        answer = door.answer(what)
        was_challenged = door.challenge != b""
        if name == "init":
            mechanism = mechanism or chosen
            door.say("init", chosen, answer)
        elif name == "response":
            door.say("response", answer)
        else:
            door.say(name, *(("c",) if name == "open" else ()))
        door.bench.run()
        for heard, *parts in door.heard():
            if heard == "challenge":
                door.challenge = parts[0]
            if heard == "outcome":
                assert mechanism in ("SCRAM-SHA-256", "PLAIN")
                is_scram = mechanism == "SCRAM-SHA-256"
                proven = (what == "last" and was_challenged) if is_scram else answer == RIGHT
                assert (parts[0], proven) == ("joe", True)
                if is_scram:
                    door.scram.check(parts[1])
        assert door.peer.user == ("joe" if proven else "")
        # Between two steps a peer is like one that has said nothing.
        assert door.session.closing or door.peer.is_stranger == (not proven)
    assert door.peer.sasl is None or not (door.session.closing or proven)
    return proven


@given(said=st.lists(steps, max_size=6))
@settings(deadline=None)
def test_nobody_is_let_in_without_a_passcode(said: Said, users: Users) -> None:
    log_in(said, users)


def test_the_ways_in_and_no_others(users: Users) -> None:
    assert log_in([("init", "SCRAM-SHA-256", "first"), ("response", "", "last")], users)
    assert log_in([("init", "PLAIN", None), ("response", "", "plain"), ("open", "", None)], users)
    assert not log_in([("init", "SCRAM-SHA-256", "first"), ("response", "", "wrong")], users)
    assert not log_in([("init", "SCRAM-SHA-256", "first"), ("response", "", "plain")], users)
