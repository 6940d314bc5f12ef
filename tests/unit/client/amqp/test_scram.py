"""SCRAM of the client: the example of RFC 7677, and brokers that do not know the passcode."""

import pytest

from daybook.client.amqp.failures import AmqpClientError
from daybook.client.amqp.scram import Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=" + NONCE.encode()
CHALLENGE = (f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").encode()
LAST = (
    f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
).encode()
PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_the_specification() -> None:
    scram = Scram("user", "pencil", NONCE)
    assert scram.first() == FIRST
    assert scram.last(CHALLENGE) == LAST
    scram.check(PROOF)
    with pytest.raises(AmqpClientError, match="did not prove"):
        scram.check(PROOF[:-1])


def test_a_proof_without_an_exchange_is_none() -> None:
    with pytest.raises(AmqpClientError, match="did not prove"):
        Scram("user", "pencil").check(b"")


def test_names_are_escaped_and_nonces_differ() -> None:
    assert Scram("a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"
    assert Scram("a", "x").first() != Scram("a", "x").first()


@pytest.mark.parametrize(
    "challenge",
    [
        b"", b"r=x", b"\xff", b"r=other,s=AAAA,i=1", f"r={NONCE}1,s=AAAA,i=0".encode(),
        f"r={NONCE}1,s=AAAA,i=99999999".encode(), f"r={NONCE}1,s=A,i=1".encode(),
    ],
)  # fmt: skip
def test_a_challenge_that_is_none(challenge: bytes) -> None:
    with pytest.raises(AmqpClientError, match="challenge of SCRAM"):
        Scram("user", "pencil", NONCE).last(challenge)
