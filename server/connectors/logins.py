"""The login of the broker at a peer, by SASL: which mechanism it chooses, and its messages.

A peer with SCRAM says how often the passcode is hashed, and a good one lets that take a while. So
it is not computed here, where the loop would wait: the attempt ends, a thread computes the key, and
the next attempt finds it (`Keys`). Must never know a frame.
"""

from collections.abc import Sequence
from typing import Final

from daybook.client.amqp.failures import AmqpClientError
from daybook.client.amqp.scram import NAME, Scram, salted_passcode
from daybook.protocols.port import NotLoggedIn
from daybook.server.config_keys.connector_options import ANONYMOUS, EXTERNAL, PLAIN, SCRAM
from daybook.server.configuration.connector_config import ConnectorConfig, Secret, is_plain_text

assert NAME == SCRAM


class Keys:
    """The salted passcode of a connector, for the salt that the peer named last. `wanted` is the
    salt and the number of iterations for which it is to be computed, None if it is there."""

    def __init__(self) -> None:
        self.wanted: tuple[bytes, int] | None = None
        self._known: tuple[Secret, bytes, int, bytes] | None = None

    def compute(self, passcode: Secret) -> None:
        """Compute what is wanted: work for a thread."""
        if self.wanted is not None:
            salt, iterations = self.wanted
            key = salted_passcode(passcode.reveal(), salt, iterations)
            self._known = passcode, salt, iterations, key
            self.wanted = None

    def find(self, passcode: Secret, salt: bytes, iterations: int) -> bytes:
        """Return the key. Raises NotLoggedIn if it has to be computed first."""
        if self._known is not None and self._known[:3] == (passcode, salt, iterations):
            return self._known[3]
        self.wanted = salt, iterations
        raise NotLoggedIn("the key for the login has to be computed first")


class ConnectorLogin:
    """One login of a connector; `passcode` is empty if it has none."""

    def __init__(self, config: ConnectorConfig, passcode: Secret, keys: Keys) -> None:
        self._config: Final = config
        self._passcode: Final = passcode
        self._keys: Final = keys
        self._scram: Scram | None = None
        self._mechanism = ""

    def choose(self, offered: Sequence[str]) -> tuple[str, bytes]:
        """Return the best mechanism of those that the peer offers, and the first message. Raises
        NotLoggedIn."""
        wanted = mechanisms_of(self._config)
        self._mechanism = next((each for each in wanted if each in offered), "")
        login = self._config.login
        if not self._mechanism:
            theirs = ", ".join(each[:40] for each in offered[:10]) or "none"
            raise NotLoggedIn(
                f"the peer offers the logins {theirs}, and the connector uses"
                f" {', '.join(wanted)} (login, passcode-file, mechanisms)"
            )
        if self._mechanism == SCRAM:
            self._scram = Scram(login, self._passcode.reveal(), salted=self._salted)
            return SCRAM, self._scram.first()
        if self._mechanism == PLAIN:
            return PLAIN, f"\0{login}\0".encode() + self._passcode.reveal().encode()
        return self._mechanism, b""

    def _salted(self, salt: bytes, iterations: int) -> bytes:
        return self._keys.find(self._passcode, salt, iterations)

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge. Raises NotLoggedIn."""
        if self._scram is None:
            return b""
        try:
            return self._scram.last(challenge)
        except AmqpClientError as error:
            raise NotLoggedIn(str(error).replace("the broker", "the peer")) from None

    def accepted(self, proof: bytes | None) -> None:
        """Check the proof that the peer gave with its acceptance. Raises NotLoggedIn."""
        if self._scram is None:
            return
        try:
            self._scram.check(proof or b"")
        except AmqpClientError as error:
            raise NotLoggedIn(str(error).replace("the broker", "the peer")) from None

    def refused(self) -> str:
        """Return why the peer may have refused the login."""
        if self._mechanism == EXTERNAL:
            return "the peer refused the certificate as a login"
        if self._mechanism == ANONYMOUS:
            return "the peer refused a login without a name; it may want login and passcode-file"
        return f"the peer refused the login {self._config.login!r}, or its passcode"


def mechanisms_of(config: ConnectorConfig) -> tuple[str, ...]:
    """Return the mechanisms that a connector uses, the best one first."""
    if config.mechanisms:
        return config.mechanisms
    if config.login:
        return (SCRAM,) if is_plain_text(config) else (SCRAM, PLAIN)
    return (EXTERNAL, ANONYMOUS) if config.tls and config.certificate else (ANONYMOUS,)
