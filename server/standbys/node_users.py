"""The users of a node whose broker does not run: their logins at its console, and their rights.

Users and permissions are those of the node's own files, as of its broker once it leads. Nobody may
change anything here: that takes a broker, which judges by itself. The journal is the leader's, so
refused logins are in the log alone. Must never know the state of queues.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Denial, Permissions
from daybook.engine.state.state import State
from daybook.server.administration.acting import ActAs, LogIn
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.request_rows import Answer
from daybook.server.configuration.config import Config
from daybook.server.network.acting_users import ActingUsers
from daybook.server.network.connection_checks import login_limits
from daybook.server.users.logins import HASHERS, Logins, Loop
from daybook.server.users.users import Users

NOT_YET: Final = (
    "the users of Artemis are taken over when this node leads for the first time; nobody can log in"
    " here before"
)


class NodeUsers:
    """The users of a node. Use it in the event loop."""

    def __init__(self, config: Config, loop: Loop) -> None:
        """Raises UsersError."""
        self._users: Final = Users.load(Path(config.broker.users_file))
        hashing = ThreadPoolExecutor(HASHERS, thread_name_prefix="passcodes")
        self._logins: Final = Logins(
            self._users, loop, hashing, lambda: login_limits(self._config.broker)
        )
        self._acting: Final = ActingUsers(self._users, lambda: self._logins, self._rights_of)
        self._take(config)

    def _take(self, config: Config) -> None:
        self._config = config
        self._users.allow_guest = config.broker.allow_guest
        rules = config.security_settings, self._users.roles(), config.wildcards.syntax
        permissions = Permissions(*rules, config.host_security)
        self._permissions = permissions if permissions.count else None

    def renew(self, config: Config) -> None:
        """Read the users again, and put a configuration in force. Raises UsersError."""
        self._users.reload()
        self._take(config)

    def tick(self) -> None:
        """Do periodic work."""
        self._logins.tick()

    async def answer(self, asked: LogIn | ActAs) -> Answer | Refusal:
        """Return the user of a login, or what a user may see now."""
        if self._config.foreign.users and not self._users.has_file:
            return Refusal(Code.NOT_ALLOWED, NOT_YET)
        return await self._acting.answer(asked)

    def _rights_of(self, user: str, peer: str) -> AdminRights:
        hosts = self._users.hosts_of(user)
        return AdminRights(State(), self._permissions, user, peer, _ignore, hosts)


def _ignore(denial: Denial) -> None:
    """Nothing is refused: it is only asked what a user may see."""
