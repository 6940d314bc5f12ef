"""Users of another broker for `daybook user import`, from whichever file they are in."""

from pathlib import Path

from daybook.server.foreign.artemis_logins import ROLES, read_properties
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.logins import users_of
from daybook.server.foreign.rabbitmq import Definitions, is_definitions
from daybook.server.foreign.taking_over import artemis_users
from daybook.server.users.users_file import User


def foreign_users(source: Path, roles: Path | None, findings: Findings) -> dict[str, User]:
    """Return the users of a folder of Artemis, of its file of properties, or of definitions.

    Slow by design if their passcodes are not hashed yet.
    """
    if source.is_dir():
        return artemis_users(source, findings)
    if is_definitions(source):
        problems: list[str] = []
        found = Definitions(source, problems, findings).users()
        findings.lost.extend(problems)
    else:
        found = read_properties(source, roles or source.parent / ROLES, findings)
    return users_of(found, findings)
