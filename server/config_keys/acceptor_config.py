"""An acceptor in the configuration, and the values of its options for TLS.

`server.configuration.encryption` says which of them go together.
"""

from typing import Final

import msgspec

from daybook.protocols.port import Value

NONE: Final = "none"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
VERSIONS: Final = ("1.2", "1.3")
BETWEEN: Final = "+"
"""Divides several protocols of an acceptor, as in amqp+stomp://HOST:PORT."""
NORMAL: Final = "normal"
CONTAINER: Final = "container"
ROLES: Final = (NORMAL, CONTAINER)
SOURCES: Final = (NONE, "cn", "email", "dns", "uri")
"""The parts of a client's certificate that may be its login; see `layers.client_names`."""


class AcceptorConfig(msgspec.Struct, frozen=True):
    """One [[acceptor]]; durations in milliseconds. `speaks` has its protocols, and the options of
    each by key.
    """

    name: str
    host: str
    port: int
    max_connections: int
    tcp_keepalive: int
    speaks: dict[str, dict[str, Value]]
    tls: bool = False
    certificate: str = ""
    key: str = ""
    tls_min_version: str = "1.2"
    ciphers: str = ""
    client_certificates: str = NONE
    client_ca: str = ""
    certificate_login: str = NONE
    certificate_pattern: str = ""
    allow_cleartext: bool = False
    role: str = NORMAL

    @property
    def protocol(self) -> str:
        """Its protocols in one word, as the scheme of `--listen` has them."""
        return BETWEEN.join(self.speaks)

    @property
    def options(self) -> dict[str, Value]:
        """The options of all of its protocols; the first that has a key says its value."""
        of_all: dict[str, Value] = {}
        for options in self.speaks.values():
            of_all = options | of_all
        return of_all
