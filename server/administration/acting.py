"""Programs of the operator that act for users, with the users' rights: the console does.

The control socket is the operator's, and the operator may do everything. `log-in` asks whether a
login is right, and `act-as` makes a connection that of a user: each later request on it is judged
by the rights that this user has then. Rights are only given up here, never gained, and there is no
way back (ADR 112). Must never know how a request is carried out, nor sockets.
"""

from collections.abc import Awaitable
from typing import Protocol

import msgspec

from daybook.engine.refusals import Refusal
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.request_rows import Answer


class LogIn(msgspec.Struct, frozen=True, tag_field="do", tag="log-in"):
    """Ask whether a login is right; `peer` is where the user is, as ADDRESS:PORT."""

    login: str
    passcode: str
    peer: str


class ActAs(msgspec.Struct, frozen=True, tag_field="do", tag="act-as"):
    """Act for a user at `peer` from now on; without a user, for the operator at `peer`."""

    user: str
    peer: str


class Acting(Protocol):
    """The users of a broker, and their rights."""

    def answer(self, asked: LogIn | ActAs) -> Awaitable[Answer | Refusal]:
        """Return the user of a login, or what a user may see and change now; or why not."""
        ...

    def rights_of(self, user: str, peer: str) -> AdminRights | Refusal:
        """Return the rights of a user now, or why nobody may act for it."""
        ...
