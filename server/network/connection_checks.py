"""The checks between a new socket and the connection of a user.

Combines descriptors, the admission of sockets, and logins, with the limits of the current
configuration. Each of them decides in its own module; this one only creates and shows them
together.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from daybook.server.administration.connections import closing
from daybook.server.configuration.config import BrokerConfig
from daybook.server.hub.hub import Hub
from daybook.server.network import admission
from daybook.server.network.admission import Admission
from daybook.server.process.descriptors import Descriptors
from daybook.server.process.in_turns import in_turns
from daybook.server.process.logs import logger
from daybook.server.users import logins
from daybook.server.users.logins import HASHERS, Logins, Loop
from daybook.server.users.users import GUEST, Users
from daybook.server.users.users_file import User

AGAIN: Final = "log in again as a user of the broker"

log = logger("door")


def login_limits(config: BrokerConfig) -> logins.Limits:
    """Return how many logins may wait."""
    return logins.Limits(config.max_pending_logins, config.max_pending_logins_per_address)


class ConnectionChecks:
    """Admission and logins of a broker; `config` returns the current configuration."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        users: Users,
        loop: Loop,
        clock: Callable[[], int],
        uncounted: Callable[[], int],
    ) -> None:
        """Raise the limit of open files. Raises TooFewDescriptors.

        `uncounted` returns the number of connections that admission does not count.
        """
        self._config: Final = config
        self._users: Final = users
        descriptors = Descriptors(lambda: config().max_connections, uncounted)
        if advice := descriptors.advice():
            log.warning("fewer connections than configured", why=advice)
        self._hashing: Final = ThreadPoolExecutor(HASHERS, thread_name_prefix="passcodes")
        self.admission: Final = Admission(descriptors, self._admission_limits, clock)
        self.logins: Final = Logins(users, loop, self._hashing, lambda: login_limits(config()))

    def _admission_limits(self) -> admission.Limits:
        config = self._config()
        return admission.Limits(
            config.max_connections_per_address,
            config.max_pending_logins,
            config.max_pending_logins_per_address,
        )

    def tick(self) -> None:
        """Log the counts of the last minute; called ten times a second."""
        self.admission.tick()
        self.logins.tick()

    def status(self) -> dict[str, Any]:
        """Return the figures for `daybook status`."""
        return {**self.admission.status(), **self.logins.status()}

    async def close_former_users(self, hub: Hub, before: dict[str, User]) -> None:
        """Close connections of users that were removed or disabled, or have another passcode.

        `before` are the users before the change (`Users.snapshot`). Connections of the guest are
        closed if it may no longer log in.
        """
        users = self._users
        changed = users.changed_since(before)
        is_guest_out = not users.has(GUEST) and not users.allows_guest(peer_is_loopback=True)

        def reason(user: str) -> str:
            if user in changed:
                return (
                    f"the user '{user}' was removed or disabled, or has another passcode or other "
                    "virtual hosts"
                )
            return f"{GUEST} is not allowed any more" if is_guest_out and user == GUEST else ""

        # A user whose connection is not open yet is not in the state.
        for peer in [each for each in hub.peers if each.user and not each.connection]:
            if why := reason(peer.user):
                hub.dismiss(peer, why, AGAIN)
        doomed = [
            (each.id, why, AGAIN)
            for each in hub.broker.state.connections.values()
            if (why := reason(each.user))
        ]
        closed = await in_turns(closing(hub.close_connection, doomed))
        if closed:
            log.info("closed connections of former users", connections=closed)

    def close(self) -> None:
        """Stop hashing passcodes."""
        self._hashing.shutdown(wait=False, cancel_futures=True)
