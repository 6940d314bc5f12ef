"""The names by which browsers may ask for the console.

A page of a stranger can give its own name the address of this machine (DNS rebinding), and then
reads and writes here as if the console were its own site. The browser says the name in the header
Host, so a name that is not of this console is refused. An address is always right, because nobody
can give it to somebody else.
"""

import re
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from daybook.console.console_config import ConsoleConfig
from daybook.server.network.layers.certificates import holder

LOCAL: Final = "localhost"
ANY: Final = "*."
"""Begins a name of a certificate that stands for all names one word longer."""
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/@]+)(?::[0-9]{1,5})?")


class Hosts:
    """The names of one console: those that are configured, of its certificate, of its machine, and
    the host that it listens at."""

    def __init__(self, config: ConsoleConfig) -> None:
        self._config: Final = config
        self._names: frozenset[str] = frozenset()
        self.read_certificate()

    def read_certificate(self) -> None:
        """Learn the names of the certificate, which may be a renewed one."""
        config = self._config
        names = [LOCAL, socket.gethostname(), config.host, *config.names]
        if config.certificate is not None:
            names += names_of(config.certificate)
        self._names = frozenset(map(_plain, names))

    def knows(self, header: str) -> bool:
        """Whether the value of a header Host names this console."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = _plain(found[1].strip("[]"))
        return name in self._names or ANY + name.partition(".")[2] in self._names or _is_ip(name)


def names_of(certificate: Path) -> tuple[str, ...]:
    """Return the names in a certificate, as `daybook acceptor list` shows them; none if it cannot
    be read."""
    try:
        return holder(certificate.read_text("utf-8", "replace")).names
    except OSError:
        return ()


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
