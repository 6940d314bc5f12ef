"""A client of SCRAM-SHA-256, written from RFC 5802 without a look at the broker's side.

`tests/unit/server/users/test_scram.py` checks it against the example of RFC 7677.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final


class ScramClient:
    """One exchange. With a `binding`, its name and data, it is for SCRAM-SHA-256-PLUS; `flag` is
    what the client says otherwise, "n" or "y"."""

    def __init__(
        self,
        login: str,
        passcode: str,
        *,
        binding: tuple[str, bytes] | None = None,
        flag: str = "n",
        nonce: str = "",
    ) -> None:
        self.nonce = nonce or base64.b64encode(secrets.token_bytes(18)).decode()
        self.is_proven = False
        self.salt = b""
        self._passcode: Final = passcode
        name, self._data = binding or ("", b"")
        self._header: Final = f"p={name},," if binding else f"{flag},,"
        escaped = login.replace("=", "=3D").replace(",", "=2C")
        self._bare: Final = f"n={escaped},r={self.nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """The first message."""
        return (self._header + self._bare).encode()

    def last(self, challenge: bytes, **replaced: str) -> bytes:
        """The answer to a challenge; parts of it may be `replaced`, to do wrong."""
        parts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        assert parts["r"].startswith(self.nonce)
        assert len(parts["r"]) > len(self.nonce)
        self.salt = base64.b64decode(parts["s"])
        salted = hashlib.pbkdf2_hmac("sha256", self._passcode.encode(), self.salt, int(parts["i"]))
        binding = base64.b64encode(self._header.encode() + self._data).decode()
        said = {"c": binding, "r": parts["r"]} | replaced
        unproven = f"c={said['c']},r={said['r']}"
        auth = f"{self._bare},{challenge.decode()},{unproven}".encode()
        client_key = hmac.new(salted, b"Client Key", hashlib.sha256).digest()
        stored = hashlib.sha256(client_key).digest()
        signature = hmac.new(stored, auth, hashlib.sha256).digest()
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.new(salted, b"Server Key", hashlib.sha256).digest()
        self._expected = hmac.new(server_key, auth, hashlib.sha256).digest()
        shown = said.get("p") or base64.b64encode(proof).decode()
        return f"{unproven},p={shown}".encode()

    def check(self, proof: bytes) -> None:
        """The broker must know its verifier."""
        assert proof == b"v=" + base64.b64encode(self._expected)
        self.is_proven = True
