"""A login by SASL: the mechanism that a client chooses, and its messages (part 5, section 5.3).

Must never know a frame.
"""

from collections.abc import Sequence
from typing import Final

from daybook.client.amqp import scram
from daybook.client.amqp.failures import AmqpClientError, AmqpRefused
from daybook.client.amqp.scram import Scram
from daybook.client.endpoint import Endpoint

EXTERNAL: Final = "EXTERNAL"
PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
GUEST: Final = "guest"
"""The login and the passcode of a URL that names none."""


class Login:
    """The login of an endpoint. With TLS it is PLAIN, which every user can have; without TLS the
    passcode is not sent if the broker knows SCRAM, unless it is that of a guest."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint
        self._scram: Scram | None = None
        self._mechanism = ""

    def choose(self, offered: Sequence[str]) -> tuple[str, bytes]:
        """Return a mechanism and the first message. Raises AmqpClientError if none is suitable."""
        endpoint = self._endpoint
        wanted: tuple[str, ...]
        if endpoint.login:
            wanted = (PLAIN, scram.NAME) if endpoint.tls else (scram.NAME, PLAIN)
            if endpoint.login == endpoint.passcode == GUEST:
                # It is not a secret, and a guest that is not a user has no key for SCRAM.
                wanted = (PLAIN, ANONYMOUS, scram.NAME)
        else:
            wanted = (EXTERNAL,) if endpoint.certificate else (ANONYMOUS,)
        found = next((each for each in wanted if each in offered), None)
        if found is None:
            raise AmqpClientError(
                f"{endpoint} offers the logins {', '.join(offered) or 'none'}, and this client"
                f" needs {' or '.join(wanted)}"
            )
        self._mechanism = found
        if found == scram.NAME:
            self._scram = Scram(endpoint.login, endpoint.passcode)
            return found, self._scram.first()
        if found == PLAIN:
            return found, f"\0{endpoint.login}\0{endpoint.passcode}".encode()
        return found, b""

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge. Raises AmqpClientError."""
        return self._scram.last(challenge) if self._scram is not None else b""

    def accepted(self, proof: bytes | None) -> None:
        """Note that the broker accepted the login. Raises AmqpClientError if it must be another
        broker than that which knows the passcode."""
        if self._scram is not None:
            self._scram.check(proof or b"")

    def refusal(self) -> AmqpRefused:
        """Return the error for a login that the broker did not accept."""
        text = f"{self._endpoint} refused the login: login or passcode is wrong"
        if self._mechanism == scram.NAME:
            text += "; a user who was added by an older version needs TLS, or a new passcode"
        elif self._mechanism == EXTERNAL:
            text = f"{self._endpoint} refused the certificate as a login"
        return AmqpRefused(text, condition="amqp:unauthorized-access")
