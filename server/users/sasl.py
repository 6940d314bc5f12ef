"""Mechanisms of SASL (RFC 4422): those that a caller may use, and the steps of its login.

Data flow: each step of a peer is answered with a challenge, or with the request of a login to be
checked like all others (`server.users.logins`). Invariants: a connection has one exchange, of
bounded size and at most three steps; its time is that of a peer without a login, and it goes with
the peer. Must never know a protocol, sockets, or whether a login is right.
"""

from typing import Final

import msgspec

from daybook.protocols.port import Caller, SaslStep
from daybook.server.users.logins import LoginRequest
from daybook.server.users.scram import BINDING, NAME, NAME_PLUS, BadMessage, Exchange
from daybook.server.users.users import Users

EXTERNAL: Final = "EXTERNAL"
PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
RESPONSE_BYTES_MAX: Final = 4096
"""The longest answer of a peer; a login has at most 255 characters."""
_PLAIN_PARTS: Final = 3


class Mechanisms:
    """The mechanisms of a broker, for its users as they are at each call."""

    def __init__(self, users: Users) -> None:
        self._users: Final = users

    def offered(self, caller: Caller) -> tuple[str, ...]:
        """Return what a caller may use, the best one first."""
        users = self._users
        found = []
        if _certified(caller):
            found.append(EXTERNAL)
        if users.has_verifiers:
            found += [NAME_PLUS, NAME] if caller.bindings.get(BINDING) else [NAME]
        found.append(PLAIN)
        if users.allows_guest(caller.is_loopback):
            found.append(ANONYMOUS)
        return tuple(found)

    def begin(self, caller: Caller) -> "SaslLogin":
        """Return the login of a caller, for its steps."""
        return SaslLogin(self.offered(caller), caller, self._users)


class SaslLogin:
    """The login of one peer. `login` is whom it claims to be, "" until it has said that."""

    __slots__ = ("_caller", "_exchange", "_mechanism", "_offered", "_users", "login")

    def __init__(self, offered: tuple[str, ...], caller: Caller, users: Users) -> None:
        self.login = ""
        self._offered: Final = offered
        self._caller: Final = caller
        self._users: Final = users
        self._mechanism = ""
        self._exchange: Exchange | None = None

    def take(self, step: SaslStep, request: LoginRequest) -> bytes | LoginRequest:
        """Return the challenge that follows a step, or `request` with what is to be checked."""
        try:
            return self._take(step, request)
        except (BadMessage, UnicodeDecodeError) as error:
            why = str(error) if isinstance(error, BadMessage) else "a name is not in UTF-8"
            fault = f"{why}; use another client, or another mechanism"
            return msgspec.structs.replace(request, login=self.login, fault=fault)

    def _take(self, step: SaslStep, request: LoginRequest) -> bytes | LoginRequest:
        if not self._mechanism:
            if step.mechanism not in self._offered:
                raise BadMessage(f"the mechanism is none of {', '.join(self._offered)}")
            self._mechanism = step.mechanism
            if step.response is None:
                return b""
        response = step.response or b""
        if len(response) > RESPONSE_BYTES_MAX:
            raise BadMessage(f"a response is longer than {RESPONSE_BYTES_MAX:,} bytes")
        if self._mechanism in (NAME, NAME_PLUS):
            return self._scram(response, request)
        if self._mechanism == PLAIN:
            return self._plain(response, request)
        if self._mechanism == EXTERNAL:
            self.login = _certified(self._caller)
            if response.decode() not in ("", self.login):
                raise BadMessage("the certificate is that of another user")
            return msgspec.structs.replace(request, login=self.login, proven=self.login)
        # Without a login, as in a CONNECT: the guest.
        return request

    def _plain(self, response: bytes, request: LoginRequest) -> LoginRequest:
        """Read the message of RFC 4616: whom to act for, login and passcode."""
        parts = response.decode().split("\0")
        if len(parts) != _PLAIN_PARTS or not parts[1]:
            raise BadMessage("the response is not that of PLAIN")
        actor, self.login, passcode = parts
        if actor not in ("", self.login):
            raise BadMessage("one user cannot log in for another one")
        return msgspec.structs.replace(request, login=self.login, passcode=passcode)

    def _scram(self, response: bytes, request: LoginRequest) -> bytes | LoginRequest:
        exchange = self._exchange
        if exchange is not None:
            return msgspec.structs.replace(request, login=self.login, proof=exchange.end(response))
        exchange = self._exchange = Exchange(
            self._users.verifier,
            self._caller.bindings.get(BINDING, b""),
            is_bound=self._mechanism == NAME_PLUS,
        )
        try:
            return exchange.begin(response)
        finally:
            self.login = exchange.login


def _certified(caller: Caller) -> str:
    """Return the login that an authority of the acceptor vouches for, "" for none."""
    shown = caller.certificate
    return shown.login if shown is not None and shown.is_verified else ""
