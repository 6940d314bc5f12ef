"""Which virtual host a client gets by the header `host` of its CONNECT (ADR 58).

As in Apollo: the one that has the name as a host name; the first one if the client names none, as
in STOMP 1.0; and if the configuration has no virtual hosts, the default one for every name. Must
never know what a virtual host has.
"""

from functools import lru_cache
from typing import Final

import msgspec

from daybook.engine.names.host_names import host_of
from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import TEXTS, V10

REMEMBERED: Final = 1000


def chosen(given: str | None, version: int, options: StompOptions) -> str:
    """Return the virtual host for the header `host` of a CONNECT, `UNKNOWN_HOST` if there is none
    of the name. Raises StompError for a name that the acceptor does not serve. An unknown name is
    refused after the login, as is a host that the user may not use: only users learn which hosts
    exist.
    """
    _check_acceptor(given, version, options)
    return host_of(given, options.virtual_hosts)


@lru_cache(maxsize=REMEMBERED)
def on_host(options: StompOptions, host: str) -> StompOptions:
    """Return the options of the sessions on a virtual host."""
    return msgspec.structs.replace(options, host=host) if host != options.host else options


def _check_acceptor(host: str | None, version: int, options: StompOptions) -> None:
    # The specification requires `host` from 1.1 on. stomp.py omits it in 1.1 and stompest leaves it
    # empty: both are accepted, unless the acceptor has several names.
    if version == V10 or not options.hosts or host in options.hosts:
        return
    if not host:
        raise StompError(
            f"CONNECT without host, which STOMP {TEXTS[version]} requires",
            "give one of the names listed in hosts of the acceptor in the header host",
        )
    raise StompError(
        f"no virtual host is named {shortened(host)}",
        "connect with one of the names listed in hosts of the acceptor",
    )
