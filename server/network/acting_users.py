"""The users for whom programs of the operator act (`server.administration.acting`).

Must never know the programs, nor what they ask next.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from daybook.engine.refusals import Code, Refusal
from daybook.server.administration.acting import ActAs, LogIn
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.request_rows import Answer
from daybook.server.configuration.encryption import is_loopback
from daybook.server.process.logs import logger
from daybook.server.users.logins import LoginRequest, Logins
from daybook.server.users.users import GUEST, Users

log = logger("administrators")


class ActingUsers:
    """The users of a broker, or of a node; `rights` returns those of an existing user at an
    ADDRESS:PORT."""

    def __init__(
        self, users: Users, logins: Callable[[], Logins], rights: Callable[[str, str], AdminRights]
    ) -> None:
        self._users: Final = users
        self._logins: Final = logins
        self._rights: Final = rights

    def rights_of(self, user: str, peer: str) -> AdminRights | Refusal:
        """Return the rights of a user now, or why nobody may act for it."""
        if self._users.has(user) and not self._users.is_disabled(user):
            return self._rights(user, peer)
        if user == GUEST and self._users.allows_guest(is_loopback(_address_of(peer))):
            return self._rights(user, peer)
        return Refusal(Code.NOT_ALLOWED, f"there is no user {user!r}, or it is disabled")

    async def answer(self, asked: LogIn | ActAs) -> Answer | Refusal:
        """Return the user of a login, or what a user may see and change now; or why not."""
        if isinstance(asked, LogIn):
            return await self._log_in(asked)
        rights = self.rights_of(asked.user, asked.peer)
        return rights if isinstance(rights, Refusal) else rights.outline()

    async def _log_in(self, asked: LogIn) -> Answer | Refusal:
        """Try a login: slow, and slower after failures of the same address, as each login."""
        done: asyncio.Future[Answer | Refusal] = asyncio.get_running_loop().create_future()

        def answer(user: str | None, text: str) -> None:
            if done.done():
                return
            if user is None:
                done.set_result(Refusal(Code.NOT_ALLOWED, text))
            else:
                log.info("user logged in at the console", user=user, peer=asked.peer)
                done.set_result({"user": user})

        address = _address_of(asked.peer)
        self._logins().begin(
            LoginRequest(
                asked.login, asked.passcode, is_loopback(address), asked.peer, address,
                lambda: not done.cancelled(),
            ),
            answer,
        )  # fmt: skip
        return await done


def _address_of(peer: str) -> str:
    """Return the address in ADDRESS:PORT."""
    return peer.rpartition(":")[0].strip("[]")
