"""The holder, and the login, of a certificate that a client has shown.

The authority of the acceptor has vouched for the certificate; the name of its holder is read from
the subject or from the alternative names. Must never know users.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from daybook.protocols.port import Certificate
from daybook.server.config_keys.acceptor_config import NONE

_NAME_LENGTH_MAX: Final = 255
_ALTERNATIVES: Final = {"email": "email", "dns": "DNS", "uri": "URI"}


_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "userId": "UID",
}
_has_special: Final = re.compile(r'[\\,+"<>;=]')


def subject_of(certificate: Mapping[str, Any]) -> str:
    """Return the holder of a certificate in the notation of RFC 4514, the narrowest part first."""
    parts = [
        "+".join(
            f"{_SHORT.get(key, key)}={_has_special.sub(_escaped, value)}" for key, value in relative
        )
        for relative in certificate.get("subject", ())
    ]
    return ",".join(reversed(parts))


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[0]


class ClientNames:
    """The rule of an acceptor: the field with the name, and the part of it that is the login."""

    def __init__(self, source: str, pattern: str) -> None:
        """`source` is one of `acceptor_config.SOURCES`; an empty pattern takes the whole name."""
        self._source: Final = source
        self._pattern: Final = re.compile(pattern) if pattern else None

    def certificate(self, shown: Mapping[str, Any] | None) -> Certificate | None:
        """Return the certificate for the session; None if the client has shown none.

        A handshake with one that no authority vouches for fails.
        """
        if not shown:
            return None
        return Certificate(subject_of(shown), self.login(shown), is_verified=True)

    def login(self, certificate: Mapping[str, Any] | None) -> str:
        """Return the login of a certificate as `ssl` describes it; "" if it gives none."""
        if self._source == NONE or not certificate:
            return ""
        for name in self._names(certificate):
            login = self._login_in(name)
            if login:
                return login
        return ""

    def _names(self, certificate: Mapping[str, Any]) -> list[str]:
        if self._source == "cn":
            pairs = [pair for relative in certificate.get("subject", ()) for pair in relative]
            found = [value for key, value in pairs if key == "commonName"]
            # Two of them are ambiguous and give no login.
            return found if len(found) == 1 else []
        kind = _ALTERNATIVES[self._source]
        return [value for key, value in certificate.get("subjectAltName", ()) if key == kind]

    def _login_in(self, name: str) -> str:
        if len(name) > _NAME_LENGTH_MAX or not name.isprintable():
            return ""
        if self._pattern is None:
            return name
        found = self._pattern.fullmatch(name)
        if found is None:
            return ""
        return found[1] or "" if found.re.groups else name
