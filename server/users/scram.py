"""SCRAM-SHA-256, on the side of the server (RFC 5802, RFC 7677): verifiers and messages.

Data flow of an `Exchange`: the first message of the client names a login; the answer has a nonce,
and salt and iterations of its verifier; the last message of the client has a `Proof`, whose check
takes a few hashes. Only making a verifier is slow. The messages decide nothing but that: whatever
they say, an exchange takes two of them, of limited length. Must never know users, nor a passcode
for longer than it takes to make its verifier.
"""

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from daybook.server.users.saslprep import saslprep

NAME: Final = "SCRAM-SHA-256"
NAME_PLUS: Final = "SCRAM-SHA-256-PLUS"
BINDING: Final = "tls-server-end-point"
"""The one type of channel binding that is safe in TLS 1.2 and 1.3, and that `ssl` can tell."""
ITERATIONS: Final = 600_000
"""What OWASP recommends for PBKDF2 with SHA-256: one guess takes some 0.1 s."""
ITERATIONS_LEAST: Final = 4096
ITERATIONS_MOST: Final = 10_000_000
SALT_BYTES: Final = 16
SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 24
_KEY_BYTES: Final = 32

_FORM: Final = re.compile(
    r"SCRAM-SHA-256\$(\d{1,8}):([A-Za-z0-9+/=]{4,200})"
    r"\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})"
)
_FIRST: Final = re.compile(
    r"((?:(?P<bound>p=(?P<type>[A-Za-z0-9.-]+))|y|n),(?:a=(?P<for>[^,\0]+))?,)"
    r"(?P<bare>n=(?P<login>[^,\0]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,\0]+)*)"
)
_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]=[^,\0]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class BadMessage(Exception):
    """A message of the client is wrong; the text, for the client, says how."""


class Verifier(NamedTuple):
    """Proofs are checked against it. A passcode cannot be computed from it."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @property
    def text(self) -> str:
        """The verifier as a text, in the form of RFC 5803."""
        keys = f"{_base64(self.stored_key)}:{_base64(self.server_key)}"
        return f"{NAME}${self.iterations}:{_base64(self.salt)}${keys}"


def parse(text: str) -> Verifier | None:
    """Return the verifier of a text, None if it is damaged."""
    found = _FORM.fullmatch(text)
    if found is None or not ITERATIONS_LEAST <= int(found[1]) <= ITERATIONS_MOST:
        return None
    try:
        salt, stored, server = (b64decode(found[part], validate=True) for part in (2, 3, 4))
    except binascii.Error:
        return None
    is_sound = len(stored) == len(server) == _KEY_BYTES
    return Verifier(int(found[1]), salt, stored, server) if is_sound else None


def verifier_of(login: str, passcode: str) -> Verifier | None:
    """Return a new verifier; None if clients cannot send this login, or use this passcode: SASLprep
    would change the one, or forbids the other. Slow by design."""
    prepared = saslprep(passcode)
    if not prepared or saslprep(login) != login:
        return None
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, ITERATIONS)
    client_key = _hmac(salted, b"Client Key")
    return Verifier(
        ITERATIONS, salt, hashlib.sha256(client_key).digest(), _hmac(salted, b"Server Key")
    )


def made_up(login: str, secret: bytes) -> Verifier:
    """Return a verifier that no passcode has, for a login without one: the same each time, so that
    clients cannot tell it from a real one without the `secret`."""
    made = _hmac(secret, b"salt " + login.encode())
    key = _hmac(secret, b"key " + login.encode())
    return Verifier(ITERATIONS, made[:SALT_BYTES], key, key)


class Proof:
    """The proof of a client that it knows the passcode of a `login`. `check` says whether it does,
    by the verifier that holds at that time."""

    __slots__ = ("_by", "_message", "_proof", "_verifier", "login")

    def __init__(
        self,
        login: str,
        proof: bytes,
        message: bytes,
        verifier: Verifier,
        by: Callable[[str], Verifier],
    ) -> None:
        """`message` is all that was said before, `verifier` the one that the client heard of;
        `by` returns the one of a login."""
        self.login: Final = login
        self._proof: Final = proof
        self._message: Final = message
        self._verifier: Final = verifier
        self._by: Final = by

    def check(self) -> bool:
        """Return whether the proof is right, and the passcode was not changed meanwhile."""
        verifier = self._by(self.login)
        signature = _hmac(verifier.stored_key, self._message)
        key = bytes(a ^ b for a, b in zip(self._proof, signature, strict=True))
        found = hashlib.sha256(key).digest()
        return hmac.compare_digest(found, verifier.stored_key) and verifier == self._verifier

    @property
    def answer(self) -> bytes:
        """What proves to the client that the server knows its verifier."""
        return b"v=" + _base64(_hmac(self._verifier.server_key, self._message)).encode()


class Exchange:
    """The two messages of one client. `login` is whom it claims to be, "" before the first.

    `verifier` returns that of a login, a made-up one if there is none. `binding` is what binds the
    exchange to its connection, b"" without TLS; it is demanded if `is_bound`.
    """

    __slots__ = ("_binding", "_first", "_gs2", "_is_bound", "_nonce", "_told", "_verifier", "login")

    def __init__(
        self, verifier: Callable[[str], Verifier], binding: bytes, *, is_bound: bool
    ) -> None:
        self.login = ""
        self._verifier: Final = verifier
        self._binding: Final = binding
        self._is_bound: Final = is_bound
        self._gs2 = self._nonce = self._first = ""
        self._told: Verifier | None = None

    def begin(self, message: bytes) -> bytes:
        """Answer the first message. Raises BadMessage."""
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise BadMessage("the first message of SCRAM is malformed")
        self.login = _name(found["login"])
        if found["for"] is not None and _name(found["for"]) != self.login:
            raise BadMessage("one user cannot log in for another one")
        self._check_binding(found["type"], found[1])
        self._gs2 = found[1]
        self._nonce = found["nonce"] + secrets.token_urlsafe(_NONCE_BYTES)
        told = self._told = self._verifier(self.login)
        answer = f"r={self._nonce},s={_base64(told.salt)},i={told.iterations}"
        self._first = f"{found['bare']},{answer}"
        return answer.encode()

    def _check_binding(self, kind: str | None, gs2: str) -> None:
        if kind is not None and not self._is_bound:
            raise BadMessage(f"channel binding is for {NAME_PLUS}")
        if self._is_bound and kind != BINDING:
            raise BadMessage(f"{NAME_PLUS} is with the channel binding {BINDING} here")
        if gs2.startswith("y") and self._binding:
            # Somebody between the two has removed it from the list of mechanisms.
            raise BadMessage(f"the client was not shown {NAME_PLUS}, which is offered")

    def end(self, message: bytes) -> Proof:
        """Return the proof in the last message. Raises BadMessage."""
        found = _FINAL.fullmatch(_text(message))
        if found is None or self._told is None:
            raise BadMessage("the last message of SCRAM is malformed")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise BadMessage("the nonce is not that of this exchange")
        bound = self._gs2.encode() + (self._binding if self._is_bound else b"")
        if not hmac.compare_digest(found["binding"], _base64(bound)):
            raise BadMessage("the channel binding is not that of this connection")
        try:
            proof = b64decode(found["proof"], validate=True)
        except binascii.Error:
            proof = b""
        if len(proof) != _KEY_BYTES:
            raise BadMessage("the last message of SCRAM is malformed")
        said = f"{self._first},{found['unproven']}".encode()
        return Proof(self.login, proof, said, self._told, self._verifier)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise BadMessage("a message of SCRAM is not in UTF-8") from None


def _name(encoded: str) -> str:
    """Return a login whose commas and equals signs were encoded. Raises BadMessage."""
    if re.search("=(?!2C|3D)", encoded):
        raise BadMessage("a name in the first message of SCRAM is malformed")
    return encoded.replace("=2C", ",").replace("=3D", "=")


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
