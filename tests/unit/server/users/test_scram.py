"""SCRAM-SHA-256: the example of RFC 7677, and everything that is not as there."""

import base64
import hashlib
import hmac
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.server.users import scram
from daybook.server.users.scram import BINDING, BadMessage, Exchange, Verifier
from tests.support.links.scram_client import ScramClient

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO"
ADDED = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={NONCE}".encode()
CHALLENGE = f"r={NONCE}{ADDED},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
LAST = f"c=biws,r={NONCE}{ADDED},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
ANSWER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SECRET = bytes(32)


def verifier(passcode: str = "pencil", *, iterations: int = 4096) -> Verifier:
    salted = hashlib.pbkdf2_hmac("sha256", passcode.encode(), SALT, iterations)
    key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(iterations, SALT, hashlib.sha256(key).digest(), server_key)


USERS = {"user": verifier(), "a=b,c": verifier()}


def by(login: str) -> Verifier:
    return USERS.get(login) or scram.made_up(login, SECRET)


def exchange(binding: bytes = b"", *, is_bound: bool = False) -> Exchange:
    return Exchange(by, binding, is_bound=is_bound)


@pytest.fixture
def _nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: ADDED)


@pytest.mark.usefixtures("_nonce")
def test_the_example_of_rfc_7677() -> None:
    ours = exchange()
    assert ours.begin(FIRST) == CHALLENGE
    proof = ours.end(LAST)
    assert (proof.login, proof.check(), proof.answer) == ("user", True, ANSWER)


def test_the_client_of_the_tests_follows_the_example() -> None:
    client = ScramClient("user", "pencil", nonce=NONCE)
    assert client.first() == FIRST
    assert client.last(CHALLENGE) == LAST
    client.check(ANSWER)


@pytest.mark.parametrize(
    ("login", "passcode", "is_right"),
    [("user", "pencil", True), ("user", "pen", False), ("a=b,c", "pencil", True),
     ("nobody", "pencil", False)],
)  # fmt: skip
def test_only_the_passcode_of_the_user_is_right(login: str, passcode: str, is_right: bool) -> None:
    ours, client = exchange(), ScramClient(login, passcode)
    challenge = ours.begin(client.first())
    if login == "nobody":
        challenge = challenge.replace(b"i=600000", b"i=1")
    proof = ours.end(client.last(challenge))
    assert (proof.login, proof.check()) == (login, is_right)


def test_a_passcode_that_was_changed_meanwhile_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, client = exchange(), ScramClient("user", "pencil")
    proof = ours.end(client.last(ours.begin(client.first())))
    monkeypatch.setitem(USERS, "user", verifier("other"))
    assert not proof.check()


def test_an_exchange_cannot_be_replayed() -> None:
    ours, client = exchange(), ScramClient("user", "pencil")
    last = client.last(ours.begin(client.first()))
    assert ours.end(last).check()
    again = exchange()
    again.begin(client.first())
    with pytest.raises(BadMessage, match="nonce"):
        again.end(last)


def test_a_login_without_a_verifier_looks_like_one_with_it() -> None:
    made = [scram.made_up(login, SECRET) for login in ("eve", "eve", "joe")]
    assert made[0] == made[1]
    assert made[0].salt != made[2].salt
    assert scram.made_up("eve", b"\1" * 32).salt != made[0].salt
    real = scram.verifier_of("joe", "right")
    assert real is not None
    assert (len(made[0].salt), made[0].iterations) == (len(real.salt), real.iterations)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n", b"n,,", b"n,,n=,r=x", b"n,,n=user", b"n,,n=user,r=", b"n,,r=x,n=user",
        b"x,,n=user,r=x", b"n,a=other,n=user,r=x", b"n,,m=1,n=user,r=x", b"n,,n=u=2Xr,r=x",
        b"n,,n=u=ser,r=x", b"n,,n=us\0er,r=x", b"n,,n=user,r=a b", b"n,,n=\xff,r=x",
        b"p=tls-unique,,n=user,r=x", b"n,,n=user,r=x,", b"n,,n=user,r=x\n",
    ],
)  # fmt: skip
def test_a_first_message_that_is_malformed_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        exchange().begin(message)


def test_what_the_messages_may_say_besides_is_ignored() -> None:
    ours = exchange()
    ours.begin(b"n,a=user,n=user,r=x,e=more")
    assert ours.login == "user"


@pytest.mark.parametrize(
    "replaced",
    [{"r": "x"}, {"r": NONCE}, {"c": "eSws"}, {"c": "biwsYQ=="}, {"p": "AAAA"}, {"p": "A"},
     {"p": "%"}, {"r": ""}],
)  # fmt: skip
def test_a_last_message_that_was_tampered_with_is_refused(replaced: dict[str, str]) -> None:
    ours, client = exchange(), ScramClient("user", "pencil")
    challenge = ours.begin(client.first())
    with pytest.raises(BadMessage):
        ours.end(client.last(challenge, **replaced))


def test_the_messages_come_in_order() -> None:
    with pytest.raises(BadMessage):
        exchange().end(LAST)


def test_a_login_is_bound_to_its_connection() -> None:
    ours = exchange(b"certificate", is_bound=True)
    client = ScramClient("user", "pencil", binding=(BINDING, b"certificate"))
    assert ours.end(client.last(ours.begin(client.first()))).check()
    ours = exchange(b"certificate", is_bound=True)
    client = ScramClient("user", "pencil", binding=(BINDING, b"of another broker"))
    challenge = ours.begin(client.first())
    with pytest.raises(BadMessage, match="channel binding"):
        ours.end(client.last(challenge))


@pytest.mark.parametrize("flag", ["n", "y", "p=tls-unique"])
def test_with_plus_nothing_but_the_certificate_binds(flag: str) -> None:
    with pytest.raises(BadMessage, match="tls-server-end-point"):
        exchange(b"certificate", is_bound=True).begin(f"{flag},,n=user,r=x".encode())


def test_who_hides_the_better_mechanism_is_found_out() -> None:
    with pytest.raises(BadMessage, match="was not shown"):
        exchange(b"certificate").begin(b"y,,n=user,r=x")
    # Without TLS there is no better one, and a client that can no better says nothing of it.
    exchange().begin(b"y,,n=user,r=x")
    exchange(b"certificate").begin(b"n,,n=user,r=x")


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_messages_end_in_a_wrong_proof_or_a_reason(first: bytes, last: bytes) -> None:
    ours = exchange()
    try:
        ours.begin(first)
        proof = ours.end(last)
    except BadMessage:
        return
    assert not proof.check()


# ---- verifiers


def test_a_verifier_is_read_as_it_was_written() -> None:
    made = scram.verifier_of("joe", "right")
    assert made is not None
    assert scram.parse(made.text) == made
    salted = hashlib.pbkdf2_hmac("sha256", b"right", made.salt, scram.ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert made.stored_key == hashlib.sha256(client_key).digest()
    assert made.server_key == hmac.digest(salted, b"Server Key", "sha256")


@pytest.mark.parametrize(
    ("login", "passcode"),
    [("joe", "a\u0007b"), ("joe", "\U0001f600"), ("joe", "\u00ad"), ("\u2168", "right")],
)
def test_what_scram_cannot_express_has_no_verifier(login: str, passcode: str) -> None:
    assert scram.verifier_of(login, passcode) is None


@pytest.mark.parametrize(
    "damage",
    [
        ("4096", "1"),
        ("4096", "99999999"),
        ("SHA-256", "SHA-1"),
        ("==$", "=$"),
        (":", ";"),
    ],
)
def test_a_verifier_that_is_damaged_is_none(damage: tuple[str, str]) -> None:
    assert scram.parse(verifier().text) == verifier()
    assert scram.parse(verifier().text.replace(*damage, 1)) is None
