"""Mechanisms of SASL: offers to clients, and the steps of a login."""

from pathlib import Path

import pytest

from daybook.protocols.port import Caller, Certificate, SaslStep
from daybook.server.users.logins import LoginRequest
from daybook.server.users.sasl import RESPONSE_BYTES_MAX, Mechanisms
from daybook.server.users.scram import BINDING
from daybook.server.users.users import Users
from tests.support.links.scram_client import ScramClient

REQUEST = LoginRequest("", "", True, "p:1", "p")


class Taker:
    def challenge(self, challenge: bytes, now: int) -> None:
        raise AssertionError

    def prove(self, proof: bytes) -> None:
        raise AssertionError


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    found = Users(tmp_path_factory.mktemp("users") / "users.toml")
    found.add("joe", "right")
    found.add("eve", "other")
    return found


def step(mechanism: str, response: bytes | None = b"") -> SaslStep:
    return SaslStep(mechanism, response, Taker())


def caller(
    login: str = "", *, is_verified: bool = True, binding: bytes = b"", is_loopback: bool = True
) -> Caller:
    found = Caller("p:1", is_loopback=is_loopback)
    if login:
        found.certificate = Certificate(f"CN={login}", login, is_verified)
    if binding:
        found.bindings = {BINDING: binding}
    return found


def take(users: Users, first: SaslStep, by: Caller | None = None) -> LoginRequest:
    said = Mechanisms(users).begin(by or caller()).take(first, REQUEST)
    assert isinstance(said, LoginRequest)
    return said


def test_a_caller_is_offered_what_it_can_use(users: Users, tmp_path: Path) -> None:
    offered = Mechanisms(users).offered
    assert offered(caller()) == ("SCRAM-SHA-256", "PLAIN")
    assert offered(caller("joe", binding=b"x")) == (
        "EXTERNAL", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN",
    )  # fmt: skip
    assert "EXTERNAL" not in offered(caller("joe", is_verified=False))
    # Nobody has a verifier, and the guest is let in from this machine.
    nobody = Mechanisms(Users(tmp_path / "none.toml")).offered
    assert nobody(caller()) == ("PLAIN", "ANONYMOUS")
    assert nobody(caller(is_loopback=False)) == ("PLAIN",)


@pytest.mark.parametrize("mechanism", ["EXTERNAL", "ANONYMOUS", "SCRAM-SHA-256-PLUS", ""])
def test_what_is_not_offered_is_refused(users: Users, mechanism: str) -> None:
    fault = take(users, step(mechanism)).fault
    assert fault.startswith("the mechanism is none of SCRAM-SHA-256, PLAIN; ")


def test_plain_has_a_login_and_a_passcode(users: Users) -> None:
    for actor in (b"", b"joe"):
        request = take(users, step("PLAIN", actor + b"\0joe\0right"))
        assert (request.login, request.passcode, request.fault) == ("joe", "right", "")
        assert (request.peer, request.address) == ("p:1", "p")


@pytest.mark.parametrize(
    "response",
    [b"", b"joe", b"\0joe", b"\0joe\0right\0", b"eve\0joe\0right", b"\0\0right", b"\0j\xff\0x",
     b"\0joe\0" + bytes(RESPONSE_BYTES_MAX)],
)  # fmt: skip
def test_plain_that_is_malformed_is_refused(users: Users, response: bytes) -> None:
    request = take(users, step("PLAIN", response))
    assert request.fault
    assert not request.passcode


def test_the_first_response_may_come_after_an_empty_challenge(users: Users) -> None:
    login = Mechanisms(users).begin(caller())
    assert login.take(step("PLAIN", None), REQUEST) == b""
    said = login.take(step("PLAIN", b"\0joe\0right"), REQUEST)
    assert isinstance(said, LoginRequest)
    assert (said.login, said.passcode) == ("joe", "right")


def test_a_certificate_proves_the_login_of_its_holder_alone(users: Users) -> None:
    for response in (b"", b"joe"):
        request = take(users, step("EXTERNAL", response), caller("joe"))
        assert (request.login, request.proven, request.fault) == ("joe", "joe", "")
    assert take(users, step("EXTERNAL", b"eve"), caller("joe")).fault


def test_anonymous_is_a_login_without_a_name(tmp_path: Path) -> None:
    assert take(Users(tmp_path / "none.toml"), step("ANONYMOUS", b"trace@example")) == REQUEST


def test_scram_takes_two_steps(users: Users) -> None:
    login, client = Mechanisms(users).begin(caller()), ScramClient("joe", "right")
    challenge = login.take(step("SCRAM-SHA-256", client.first()), REQUEST)
    assert isinstance(challenge, bytes)
    said = login.take(step("SCRAM-SHA-256", client.last(challenge)), REQUEST)
    assert isinstance(said, LoginRequest)
    assert said.login == "joe"
    assert said.proof is not None
    assert said.proof.check()
    client.check(said.proof.answer)


def test_scram_that_is_malformed_names_its_login_in_the_record_alone(users: Users) -> None:
    login = Mechanisms(users).begin(caller())
    assert isinstance(login.take(step("SCRAM-SHA-256", b"n,,n=joe,r=x"), REQUEST), bytes)
    said = login.take(step("SCRAM-SHA-256", b"x" * (RESPONSE_BYTES_MAX + 1)), REQUEST)
    assert isinstance(said, LoginRequest)
    assert said.login == "joe"
    assert "joe" not in said.fault
    assert "longer than" in said.fault


def test_a_salt_says_nothing_about_a_user(users: Users) -> None:
    def challenge(login: str, secret: Users = users) -> tuple[int, str, bytes]:
        begun = Mechanisms(secret).begin(caller())
        said = begun.take(step("SCRAM-SHA-256", f"n,,n={login},r=x".encode()), REQUEST)
        assert isinstance(said, bytes)
        _, salt, iterations = said.split(b",")
        return len(said), salt.decode(), iterations

    for login in ("joe", "nobody"):
        assert challenge(login) == challenge(login)
    assert challenge("joe")[0] == challenge("nobody")[0]
    assert challenge("joe")[2] == challenge("nobody")[2]
    # A start of the broker makes no difference.
    assert challenge("nobody", Users.load(users.path)) == challenge("nobody")
