"""The parts of a running broker beside its state: virtual hosts of its configuration, acceptors,
users.

For lists (`server.administration.broker_views`). Must never know how they are listed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # Slow to import, and the command line needs neither.
    from daybook.server.configuration.host_config import VirtualHost
    from daybook.server.users.users import Users


class Premises(Protocol):
    """The parts of a running broker beside its state."""

    @property
    def hosts(self) -> "Sequence[VirtualHost]":
        """The virtual hosts of the configuration."""
        ...

    @property
    def users(self) -> "Users | None":
        """The users, None without a broker."""
        ...

    def acceptors(self) -> list[dict[str, Any]]:
        """Return a row for each acceptor."""
        ...


class NoPremises:
    """There is nothing: no broker runs."""

    hosts: "Sequence[VirtualHost]" = ()
    users: "Users | None" = None

    def acceptors(self) -> list[dict[str, Any]]:
        """Return no rows."""
        return []
