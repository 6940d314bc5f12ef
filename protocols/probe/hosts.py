"""The hosts that a probe answers to: requests for any other name are refused.

A web page can make its own name resolve to the address of this machine (DNS rebinding). The browser
then lets the page read the answers, but still sends the page's name in the header Host. So only
known names are answered. An address instead of a name cannot come from such a page. Must never
resolve a name.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

ANY: Final = "*"
KEY: Final = "allowed-hosts"
LOCAL: Final = "localhost"
SHOWN_MAX: Final = 100
"""How much of a refused host is repeated to the peer and in the log."""
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?\.?")


class AllowedHosts:
    """The names of one acceptor: those that the configuration lists, and its own."""

    def __init__(self, listed: Iterable[str], own: Iterable[str]) -> None:
        """Raise ValueError if something listed is not the name of a host."""
        names = [name.lower() for name in listed]
        for name in names:
            if name != ANY and not _NAME.fullmatch(name) and not _is_address(name.strip("[]")):
                raise ValueError(
                    f'{KEY}: "{name}" is not the name of a host, like "broker.example.org": without'
                    ' scheme, port and path; "*" allows any host'
                )
        self._is_any: Final = ANY in names
        self._names: Final = {_bare(name) for name in (*names, *own, LOCAL) if name}

    def allow(self, authority: str) -> bool:
        """Return whether requests for a host, with or without a port, are answered.

        An empty one is allowed: it comes from checks of load balancers, never from a browser.
        """
        if self._is_any or not authority:
            return True
        host = _without_port(authority)
        return _is_address(host) or _bare(host) in self._names


def refusal(authority: str) -> str:
    """Return the reason for people why requests for a host are not answered."""
    return f"'{authority[:SHOWN_MAX]}' is not listed in {KEY} of this acceptor"


def _without_port(authority: str) -> str:
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        return host if port[:1] in ("", ":") else authority
    return authority.partition(":")[0]


def _bare(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
