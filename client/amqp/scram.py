"""SCRAM-SHA-256 (RFC 5802, RFC 7677) on the side of a client: it proves that it knows a passcode
without sending it, and checks that the broker knows it too.

Must never know a frame.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, TypeAlias
from unicodedata import normalize

from daybook.client.amqp.failures import AmqpClientError

NAME: Final = "SCRAM-SHA-256"
ITERATIONS_MOST: Final = 10_000_000
"""A broker that asks for more wants only to keep this machine busy."""
Salted: TypeAlias = Callable[[bytes, int], bytes]
"""Returns the salted passcode for a salt and a number of iterations."""
_HEADER: Final = "n,,"
"""There is no channel binding."""


class Scram:
    """One exchange."""

    def __init__(
        self, login: str, passcode: str, nonce: str = "", salted: Salted | None = None
    ) -> None:
        """`salted` finds the salted passcode; by default it is computed, which takes time."""
        self._nonce: Final = nonce or secrets.token_urlsafe(24)
        self._passcode: Final = passcode
        escaped = login.replace("=", "=3D").replace(",", "=2C")
        self._bare: Final = f"n={escaped},r={self._nonce}"
        self._expected = b""
        self._salted: Final = salted if salted is not None else self._compute

    def _compute(self, salt: bytes, iterations: int) -> bytes:
        return salted_passcode(self._passcode, salt, iterations)

    def first(self) -> bytes:
        """Return the first message."""
        return (_HEADER + self._bare).encode()

    def last(self, challenge: bytes) -> bytes:
        """Return the answer to the challenge of the broker. Raises AmqpClientError."""
        try:
            parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
            nonce, salt, iterations = parts["r"], b64decode(parts["s"]), int(parts["i"])
        except (KeyError, ValueError) as error:
            raise AmqpClientError("the broker's challenge of SCRAM is malformed") from error
        if not nonce.startswith(self._nonce) or not 0 < iterations <= ITERATIONS_MOST:
            raise AmqpClientError("the broker's challenge of SCRAM is not an answer to ours")
        salted = self._salted(salt, iterations)
        unproven = f"c={b64encode(_HEADER.encode()).decode()},r={nonce}"
        said = f"{self._bare},{challenge.decode()},{unproven}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._expected = b"v=" + b64encode(_hmac(_hmac(salted, b"Server Key"), said))
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def check(self, proof: bytes) -> None:
        """Raise AmqpClientError if the broker does not know the passcode."""
        if not self._expected or not hmac.compare_digest(proof, self._expected):
            raise AmqpClientError("the broker did not prove that it knows the passcode")


def salted_passcode(passcode: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted passcode, by which a login is proved."""
    prepared = normalize("NFKC", passcode).encode()
    return hashlib.pbkdf2_hmac("sha256", prepared, salt, iterations)


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
