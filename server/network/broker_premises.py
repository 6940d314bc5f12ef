"""The parts of a running broker beside its state, for the lists of administrators: virtual hosts,
users, and its acceptors with their certificates.

Must never know who lists them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from daybook.server.configuration.config import Config
from daybook.server.configuration.host_config import VirtualHost
from daybook.server.network.layers.certificates import Identity
from daybook.server.network.listeners import Acceptor
from daybook.server.users.users import Users

SECONDS_A_DAY: Final = 86_400


class BrokerPremises:
    """The `Premises` of a broker (`server.administration.premises`)."""

    def __init__(
        self, config: Callable[[], Config], users: Users, acceptors: Sequence[Acceptor]
    ) -> None:
        """`config` returns the configuration in force; `acceptors` are those that there are."""
        self._config: Final = config
        self._acceptors: Final = acceptors
        self.users: Final = users

    @property
    def hosts(self) -> Sequence[VirtualHost]:
        """The virtual hosts of the configuration."""
        return self._config().virtual_hosts

    def acceptors(self) -> list[dict[str, Any]]:
        """Return a row for each acceptor."""
        return [_row(each) for each in self._acceptors]

    def expiring(self) -> list[dict[str, Any]]:
        """Return the acceptors whose certificates expire soon, or have expired."""
        return [
            {
                "acceptor": each.config.name,
                "days_left": _days_left(each.identity),
                "expires": int(each.identity.expires * 1000),
            }
            for each in self._acceptors
            if each.identity is not None and each.identity.expires_soon
        ]


def _row(acceptor: Acceptor) -> dict[str, Any]:
    config = acceptor.config
    return {
        "acceptor": config.name,
        "url": acceptor.urls,
        "connections": len(acceptor.connections),
        "max_connections": config.max_connections,
        "tls": config.tls,
        "client_certificates": config.client_certificates if config.tls else None,
        **_certificate(acceptor.identity, config.certificate),
    }


def _certificate(identity: Identity | None, file: str) -> dict[str, Any]:
    """Return what is known of a certificate; times are in milliseconds since 1970."""
    if identity is None:
        return dict.fromkeys(
            ("certificate", "subject", "issuer", "names", "begins", "expires", "days_left")
        )
    return {
        "certificate": file,
        "subject": identity.holder.subject,
        "issuer": identity.holder.issuer,
        "names": list(identity.holder.names),
        "begins": int(identity.begins * 1000),
        "expires": int(identity.expires * 1000),
        "days_left": _days_left(identity),
    }


def _days_left(identity: Identity) -> int:
    """Return for how many whole days a certificate is still valid; less than 0 if it expired."""
    return int(identity.seconds_left // SECONDS_A_DAY)
