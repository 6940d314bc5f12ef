"""Checks the options of an acceptor for TLS, and whether it may work without TLS.

Passcodes and messages that cross a network in clear text can be read on their way. So an acceptor
that others can reach needs TLS, or the operator's word that it needs none. Must never read files
nor open sockets.
"""

import re
from collections.abc import Iterator
from ipaddress import ip_address

from daybook.server.config_keys.acceptor_config import NONE, AcceptorConfig


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host that is listened on."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_exposed(acceptor: AcceptorConfig) -> bool:
    """Return whether others can read the traffic of an acceptor."""
    return not acceptor.tls and not is_loopback(acceptor.host)


def problems(acceptor: AcceptorConfig) -> Iterator[tuple[str, str]]:
    """Yield faults: the key to point at, and the remedy."""
    if is_exposed(acceptor) and not acceptor.allow_cleartext:
        yield (
            "listen",
            f"{acceptor.host} can be reached from other machines, which needs TLS (tls = true,"
            " certificate, key); where the network is trusted, or TLS ends in front of the broker,"
            " set allow-cleartext = true",
        )
    if not acceptor.tls:
        return
    if not acceptor.certificate:
        yield "tls", "certificate is missing: name the file of the certificate, in PEM format"
    asks = acceptor.client_certificates != NONE
    if asks and not acceptor.client_ca:
        yield (
            "client-certificates",
            "client-ca is missing: name the file of the authorities whose certificates clients"
            " have, in PEM format",
        )
    if acceptor.certificate_login != NONE and not asks:
        yield (
            "certificate-login",
            "clients are not asked for certificates; set client-certificates to optional or"
            " required",
        )
    if wrong := wrong_with_pattern(acceptor.certificate_pattern):
        yield "certificate-pattern", wrong


def wrong_with_pattern(pattern: str) -> str:
    """Return the fault of a pattern for names in certificates, "" without one."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}"
    if groups > 1:
        return f"{pattern!r} has {groups} groups; the login is the one group, or the whole name"
    return ""


def warning(acceptor: AcceptorConfig) -> str:
    """Return the warning about an acceptor without TLS, "" without one."""
    if not is_exposed(acceptor):
        return ""
    return (
        f"acceptor {acceptor.name!r} listens on {acceptor.host} without TLS (allow-cleartext):"
        " everybody on the way can read passcodes and messages"
    )
