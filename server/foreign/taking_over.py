"""The first start with a configuration of another broker: its users become ours.

That happens once, as long as there is no users file; after that the users are ours, and the other
files are not read again. Must never overwrite a users file.
"""

from pathlib import Path

from daybook.server.foreign.artemis_logins import read_logins
from daybook.server.foreign.findings import Findings, Foreign
from daybook.server.foreign.logins import users_of
from daybook.server.process.logs import logger
from daybook.server.users.users import GUEST, Users
from daybook.server.users.users_file import User

log = logger("users")


def load_users(path: Path, foreign: Foreign) -> Users:
    """Return the users of a file; if there is none, write those beside a broker.xml to it first.

    Slow by design if their passcodes are not hashed yet. Raises UsersError.
    """
    users = Users.load(path)
    if users.has_file or not foreign.users:
        return users
    # Users that cannot be taken over are among the warnings of the configuration.
    found = artemis_users(Path(foreign.folder), Findings())
    users.take_over(found)
    log.warning(
        "took over the users of Artemis; from now on `daybook user` changes them",
        users=len(found), source=foreign.folder, file=str(users.path),
    )  # fmt: skip
    return users


def artemis_users(folder: Path, findings: Findings) -> dict[str, User]:
    """Return the users beside a broker.xml as ours; one is the guest, if there is a module for
    it."""
    logins = read_logins(folder, findings)
    found = users_of(logins.users, findings)
    if logins.guest_roles is not None:
        found.setdefault(GUEST, User(roles=tuple(logins.guest_roles)))
    return found
