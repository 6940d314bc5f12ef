"""Where a console listens, and what proves history to it: the section [console], and the rules that
hold for every console.

Must never read files nor open sockets, and knows nothing else of the console.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from daybook.journal.archive.store import without_password
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.kinds import Invalid
from daybook.server.config_keys.options import BROKER_NAME, CONSOLE_LISTEN
from daybook.server.configuration.encryption import is_loopback
from daybook.server.configuration.host_config import Problem

SCHEMES: Final = ("http", "https")
EVERYWHERE: Final = ("0.0.0.0", "::")


class ConsoleSection(msgspec.Struct, frozen=True):
    """The section [console]; without `listen` the broker starts no console."""

    listen: str
    certificate: str
    private_key: str
    names: tuple[str, ...]
    docs: str
    archive: str = ""
    public_keys: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


NO_CONSOLE: Final = ConsoleSection("", "", "", (), "")


def host_and_port(listen: str, *, has_files: bool) -> tuple[str, int]:
    """Return where to listen, 0 for any port; `has_files` if there are a certificate and a key.
    Raises Invalid."""
    try:
        parts = urlsplit(listen)
        port = parts.port or 0
    except ValueError:
        parts, port = urlsplit(""), -1
    is_plain = parts.path in ("", "/") and "@" not in parts.netloc and not parts.query
    if parts.scheme not in SCHEMES or not parts.hostname or port < 0 or not is_plain:
        raise Invalid(f"'{listen}' is not where to listen; write it like {CONSOLE_LISTEN}")
    if (parts.scheme == "https") != has_files:
        raise Invalid("https:// needs certificate and private-key, and http:// takes neither")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise Invalid(
            f"others could read passcodes on the way to {parts.hostname}; listen by https://, or"
            " at 127.0.0.1 behind a proxy that speaks TLS"
        )
    return parts.hostname, port


def check_docs(docs: str) -> None:
    """Refuse what is not the URL of a site. Raises Invalid."""
    if not docs:
        return
    try:
        parts = urlsplit(docs)
        is_site = parts.scheme in SCHEMES and bool(parts.hostname)
    except ValueError:
        is_site = False
    if not is_site or "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid(
            f"'{docs}' is not where the documentation is; write the URL of the site, like"
            " https://docs.example.org/daybook"
        )


def check_console(
    block: Block,
    section: ConsoleSection,
    acceptors: Sequence[AcceptorConfig],
    problem: Problem,
) -> None:
    """Find what keeps a console from listening."""
    where = block.values.get("listen", block).where
    if not section.listen:
        if section != NO_CONSOLE:
            problem(where, f"console.listen is missing; write it like {CONSOLE_LISTEN}")
        return
    try:
        host, port = host_and_port(
            section.listen, has_files=bool(section.certificate and section.private_key)
        )
    except Invalid as error:
        problem(where, f"console.listen: {error}")
        return
    try:
        check_docs(section.docs)
    except Invalid as error:
        problem(block.values.get("docs", block).where, f"console.docs: {error}")
    if without_password(section.archive) != section.archive:
        problem(
            block.values.get("archive", block).where,
            "console.archive has a login, which others could read in the list of processes; leave"
            " it out, and give it by the environment of the broker",
        )
    if wrong := taken(host, port, acceptors):
        problem(where, f"console.listen {wrong}")


def taken(host: str, port: int, acceptors: Sequence[AcceptorConfig]) -> str:
    """Return why nothing else can listen there, empty if it can."""
    for acceptor in acceptors:
        is_same = host == acceptor.host or {host, acceptor.host} & {*EVERYWHERE}
        if port and port == acceptor.port and is_same:
            return f"has the port of acceptor {acceptor.name!r}, {port}; choose another one"
    return ""


def with_paths(section: ConsoleSection, absolute: Callable[[str], object]) -> ConsoleSection:
    """Return the section with the absolute names of its files."""
    files = {
        field: str(absolute(path)) if (path := getattr(section, field)) else ""
        for field in ("certificate", "private_key")
    }
    lists = {
        field: tuple(str(absolute(path)) for path in getattr(section, field))
        for field in ("public_keys", "anchors")
    }
    archive = section.archive
    if archive and "://" not in archive:
        archive = str(absolute(archive))
    return msgspec.structs.replace(section, archive=archive, **files, **lists)


def command_of(section: ConsoleSection, data_directory: str, name: str) -> tuple[str, ...]:
    """Return the command line of the console for a broker, empty if there is to be none. A name
    that nobody chose says less than the data directory."""
    if not section.listen:
        return ()
    chosen = name if name != BROKER_NAME else ""
    texts = (
        ("--broker", chosen),
        ("--certificate", section.certificate), ("--private-key", section.private_key),
        *(("--name", name) for name in section.names), ("--docs", section.docs),
        ("--archive", section.archive),
        *(("--public-key", file) for file in section.public_keys),
        *(("--anchor", file) for file in section.anchors),
    )  # fmt: skip
    return (
        sys.executable, "-P", "-m", "daybook", "console", "--with-broker", "--no-link",
        "--data", data_directory, "--listen", section.listen,
        *(word for flag, text in texts if text for word in (flag, text)),
    )  # fmt: skip
