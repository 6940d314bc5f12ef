"""The door of the broker: all that stands between a peer that connects and a user's connection.

Descriptors, admission of sockets and logins, with the limits of the configuration in force. What
each of them decides is in its own module; here is only that they live and are seen together.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from daybook.engine.state import Connection
from daybook.server import admission, logins
from daybook.server.admission import Admission
from daybook.server.config import BrokerConfig
from daybook.server.connections import close_where
from daybook.server.descriptors import Descriptors
from daybook.server.hub import Hub
from daybook.server.logins import HASHERS, Logins, Loop
from daybook.server.logs import logger
from daybook.server.users import GUEST, Users

log = logger("door")


class Door:
    """Admission and logins of a broker; `config` answers the configuration in force."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        users: Users,
        loop: Loop,
        clock: Callable[[], int],
        uncounted: Callable[[], int],
    ) -> None:
        """Raise the limit of open files, and say what it allows. Raises TooFewDescriptors.

        `uncounted` is how many connections there may be that admission does not count.
        """
        self._config: Final = config
        self._users: Final = users
        descriptors = Descriptors(lambda: config().max_connections, uncounted)
        if advice := descriptors.advice():
            log.warning("fewer connections than configured", why=advice)
        self._hashing: Final = ThreadPoolExecutor(HASHERS, thread_name_prefix="passcodes")
        self.admission: Final = Admission(descriptors, self._admission_limits, clock)
        self.logins: Final = Logins(users, loop, self._hashing, self._login_limits)

    def _admission_limits(self) -> admission.Limits:
        config = self._config()
        return admission.Limits(
            config.max_connections_per_address,
            config.max_pending_logins,
            config.max_pending_logins_per_address,
        )

    def _login_limits(self) -> logins.Limits:
        config = self._config()
        return logins.Limits(config.max_pending_logins, config.max_pending_logins_per_address)

    def tick(self) -> None:
        """Log what was counted; ten times a second."""
        self.admission.tick()
        self.logins.tick()

    def status(self) -> dict[str, Any]:
        """What `daybook status` shows."""
        return {**self.admission.status(), **self.logins.status()}

    def close_former_users(self, hub: Hub, before: dict[str, str]) -> None:
        """Close connections of users that are none any more, or have another passcode.

        `before` are the users that were (`Users.snapshot`). The guest's are closed where it would
        not be let in now.
        """
        users = self._users
        changed = users.changed_since(before)
        is_guest_out = not users.has(GUEST) and not users.allows_guest(peer_is_loopback=True)

        def reason(connection: Connection) -> str:
            user = connection.user
            if user in changed:
                return f"the user '{user}' was removed, or has another passcode"
            return f"{GUEST} is not allowed any more" if is_guest_out and user == GUEST else ""

        closed = close_where(hub.broker.state, hub.close_connection, reason)
        if closed:
            log.info("closed connections of former users", connections=closed)

    def close(self) -> None:
        """Hash no more."""
        self._hashing.shutdown(wait=False, cancel_futures=True)
