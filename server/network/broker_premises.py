"""The parts of a running broker beside its state, for the lists of administrators: virtual hosts,
users, and its acceptors with their certificates, as well as that of its console.

Must never know who lists them.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from daybook.server.config_keys.acceptor_config import NONE
from daybook.server.configuration.config import Config
from daybook.server.configuration.console_section import ConsoleSection
from daybook.server.configuration.host_config import VirtualHost
from daybook.server.monitoring.health import CONSOLE_NAME
from daybook.server.network.layers.certificates import Identity, TlsError, of_console
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
        self._console: Identity | None = None
        self.users: Final = users

    @property
    def hosts(self) -> Sequence[VirtualHost]:
        """The virtual hosts of the configuration."""
        return self._config().virtual_hosts

    def read_console(self, section: ConsoleSection) -> None:
        """Read the certificate of the console, as the console itself does when it starts and at
        SIGHUP. One that cannot be used leaves the former one here: the console says why."""
        if not section.listen or not section.certificate:
            self._console = None
            return
        files = of_console(section.certificate, section.private_key)
        with contextlib.suppress(TlsError):
            before = self._console
            self._console = before.renewed(files) if before is not None else Identity(files)

    def acceptors(self) -> list[dict[str, Any]]:
        """Return a row for each acceptor, and for a console with a certificate."""
        rows = [_row(each) for each in self._acceptors]
        if self._console is not None:
            rows.append(_row_of_console(self._config().console, self._console))
        return rows

    def expiring(self) -> list[dict[str, Any]]:
        """Return the acceptors, and the console, whose certificates expire soon, or have
        expired."""
        return [
            {
                "acceptor": name,
                "days_left": _days_left(identity),
                "expires": int(identity.expires * 1000),
            }
            for name, identity in self._identities()
            if identity.expires_soon
        ]

    def expiries(self) -> list[tuple[str, float]]:
        """Return the acceptors, and the console, that have certificates, and until when these are
        valid, in seconds since 1970."""
        return [(name, identity.expires) for name, identity in self._identities()]

    def _identities(self) -> list[tuple[str, Identity]]:
        found = [(each.config.name, each.identity) for each in self._acceptors]
        return [
            (name, identity)
            for name, identity in [*found, (CONSOLE_NAME, self._console)]
            if identity is not None
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


def _row_of_console(section: ConsoleSection, identity: Identity) -> dict[str, Any]:
    return {
        "acceptor": CONSOLE_NAME,
        "url": section.listen,
        # They are not those of the broker.
        "connections": None,
        "max_connections": None,
        "tls": True,
        "client_certificates": NONE,
        **_certificate(identity, section.certificate),
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
