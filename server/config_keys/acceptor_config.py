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
SOURCES: Final = (NONE, "cn", "email", "dns", "uri")
"""The parts of a client's certificate that may be its login; see `layers.client_names`."""


class AcceptorConfig(msgspec.Struct, frozen=True):
    """One [[acceptor]]; durations in milliseconds. `options` are those of its protocol, by key."""

    name: str
    protocol: str
    host: str
    port: int
    max_connections: int
    tcp_keepalive: int
    options: dict[str, Value]
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
