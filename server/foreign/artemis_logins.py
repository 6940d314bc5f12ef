"""Users and roles beside a broker.xml of Artemis: the files of its login modules.

`login.config` names the modules: users are in the two files of properties of a
PropertiesLoginModule, and a GuestLoginModule lets clients in that give no login. Users of any other
module live elsewhere and are only named. Fault model: any file may be missing, unreadable, too long
or damaged, which is a finding. Must never change a file.
"""

import re
from pathlib import Path
from typing import Final

import javaproperties
import msgspec

from daybook.server.foreign.findings import Findings
from daybook.server.foreign.logins import ForeignUser
from daybook.server.foreign.xml_source import XmlError, read_xml

USERS: Final = "artemis-users.properties"
ROLES: Final = "artemis-roles.properties"
LOGIN: Final = "login.config"
BOOTSTRAP: Final = "bootstrap.xml"
BYTES_MAX: Final = 8 * 1024 * 1024
_DOMAIN: Final = "activemq"
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DOMAINS: Final = re.compile(r"([\w.-]+)\s*\{([^{}]*)\}\s*;?")
_OPTION: Final = re.compile(r'([\w.]+)\s*=\s*(?:"([^"]*)"|([^\s;"]+))')
_PREFIX: Final = "org.apache.activemq.jaas."
_CERTIFICATES: Final = ("CertificateLoginModule", "TextFileCertificateLoginModule")


class Logins(msgspec.Struct):
    """The content of the files: users, and the roles of clients without a login, None if they are
    refused.
    """

    users: list[ForeignUser] = []
    guest_roles: list[str] | None = None


def read_logins(folder: Path, findings: Findings) -> Logins:
    """Read the files in the folder of a broker.xml."""
    logins = Logins()
    _note_manager(folder / BOOTSTRAP, findings)
    modules = _modules(folder / LOGIN, findings)
    if modules is None:
        modules = [("PropertiesLoginModule", {})] if (folder / USERS).is_file() else []
    for module, options in modules:
        if module == "PropertiesLoginModule":
            base = folder / options.get("baseDir", "")
            users = base / options.get(f"{_PREFIX}properties.user", USERS)
            roles = base / options.get(f"{_PREFIX}properties.role", ROLES)
            logins.users += read_properties(users, roles, findings)
        elif module == "GuestLoginModule":
            given = options.get(f"{_PREFIX}guest.role", "guests")
            logins.guest_roles = [each.strip() for each in given.split(",") if each.strip()]
        elif module in _CERTIFICATES:
            findings.lose(
                str(folder / LOGIN),
                f"users of {module} are not taken over; add them with `daybook user add LOGIN"
                " --no-passcode`, and set certificate-login of the acceptor (docs/security.md#tls)",
            )
        else:
            findings.lose(
                str(folder / LOGIN),
                f"users of {module} are not taken over, since they are kept elsewhere; add them"
                " with `daybook user add LOGIN --role ROLE`",
            )
    return logins


def read_properties(users: Path, roles: Path, findings: Findings) -> list[ForeignUser]:
    """Read users from a file of properties, and their roles from another one, `ROLE = LOGINS`."""
    given = _properties(users, findings)
    if given is None:
        return []
    found = {
        login: ForeignUser(login, str(users), passcode)
        for login, passcode in given.items()
        if login
    }
    for role, logins in (_properties(roles, findings) or {}).items():
        for login in filter(None, (each.strip() for each in logins.split(","))):
            if login in found:
                found[login].roles.append(role)
            else:
                findings.lose(str(roles), f"role {role!r} has {login!r}, and there is no such user")
    return list(found.values())


def named(roles: list[str]) -> str:
    """Describe the roles of a user."""
    if len(roles) == 1:
        return f"the role {roles[0]}"
    return f"the roles {', '.join(roles)}" if roles else "no roles"


def _properties(path: Path, findings: Findings) -> dict[str, str] | None:
    text = _text(path, findings)
    if text is None:
        return None
    try:
        return {key.strip(): value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        findings.lose(str(path), f"cannot be read: {error}")
        return None


def _text(path: Path, findings: Findings) -> str | None:
    """Return the text of a file; None, with a finding, if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        findings.lose(str(path), f"cannot be read: {error.strerror}")
        return None
    if len(data) > BYTES_MAX:
        findings.lose(str(path), f"is longer than {BYTES_MAX:,} bytes")
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _modules(path: Path, findings: Findings) -> list[tuple[str, dict[str, str]]] | None:
    """Return the login modules of the broker's domain with their options; None without a file."""
    text = _text(path, findings) if path.exists() else None
    if text is None:
        return None
    domains = dict(_DOMAINS.findall(_COMMENT.sub(" ", text)))
    content = domains.get(_DOMAIN) or next(iter(domains.values()), "")
    found = []
    for entry in content.split(";"):
        words = entry.split()
        if words:
            options = {key: quoted or plain for key, quoted, plain in _OPTION.findall(entry)}
            found.append((words[0].rpartition(".")[2], options))
    return found


def _note_manager(path: Path, findings: Findings) -> None:
    """Note a security manager that keeps users in the data of Artemis."""
    if not path.exists():
        return
    try:
        root = read_xml(path, keeps_placeholders_of="broker")
    except XmlError as error:
        findings.lose(str(path), f"cannot be read: {error}")
        return
    for child in root.children:
        name = child.attributes.get("class-name", "").rpartition(".")[2]
        if child.tag == "security-manager" and name:
            findings.lose(
                f"{path}:{child.line}",
                f"users of {name} are not taken over, since it keeps them in the data of Artemis;"
                " add them with `daybook user add LOGIN --role ROLE`",
            )
