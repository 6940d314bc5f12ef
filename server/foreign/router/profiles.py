"""Sections `sslProfile`, and what they mean for acceptors and connectors.

Must never read a certificate, a key or a passphrase.
"""

from collections.abc import Iterable
from typing import Final

from daybook.server.config_keys.acceptor_config import REQUIRED, VERSIONS
from daybook.server.config_keys.connector_options import EXTERNAL
from daybook.server.foreign.router.grammar import Section
from daybook.server.foreign.router.notes import Notes, Reading

_COMMON_NAME: Final = "n"
_VERSIONS: Final = {f"TLSv{each}": each for each in VERSIONS}


class Profiles:
    """The profiles of a file by their names."""

    def __init__(self, sections: Iterable[Section], notes: Notes) -> None:
        self._notes: Final = notes
        self._readings: Final = [Reading(each, notes) for each in sections]
        self._by_name: Final = {each.text("name"): each for each in self._readings}
        self._used: Final[set[str]] = set()

    def of(self, reading: Reading) -> Reading | None:
        """Return the profile that a listener or connector names, None if it names none."""
        name = reading.text("sslProfile")
        if not name:
            return None
        found = self._by_name.get(name)
        if found is None:
            reading.refuse("sslProfile", f"sslProfile is {name!r}, and there is none of this name")
        self._used.add(name)
        return found

    def end(self) -> None:
        """Note what is said in profiles and has no equivalent."""
        for each in self._readings:
            name = each.text("name")
            if name not in self._used:
                self._notes.spare(each.line, f"sslProfile {name!r}: nothing uses it")
                continue
            if each.text("password"):
                text = "the private key must be without a passphrase (`openssl pkey` takes it off)"
                each.lose("password", f"password: {text}")
            for key in ("ciphers", "protocols", "caCertFile", "certFile", "privateKeyFile"):
                each.text(key)
            uid = each.text("uidFormat", _COMMON_NAME)
            if uid != _COMMON_NAME:
                text = "the login from a certificate is its common name, as uidFormat n has it"
                each.lose("uidFormat", f"uidFormat {uid}: {text}")
            each.end()


def encrypt_acceptor(profile: Reading, reading: Reading, mechanisms: list[str]) -> None:
    """Give an acceptor the certificate of a profile, and ask for those of its clients if they log
    in with them."""
    reading.put("tls", True, "sslProfile")
    _copy(profile, "certFile", reading, "certificate")
    _copy(profile, "privateKeyFile", reading, "key")
    _copy(profile, "ciphers", reading, "ciphers")
    _say_version(profile, reading)
    if EXTERNAL in mechanisms:
        reading.put("client-certificates", REQUIRED, "saslMechanisms")
        reading.put("certificate-login", "cn", "saslMechanisms")
        _copy(profile, "caCertFile", reading, "client-ca")
        if trusted := reading.text("trustedCertsFile"):
            reading.put("client-ca", trusted, "trustedCertsFile")
    if not reading.flag("requireSsl"):
        text = "requireSsl is no: this port is for TLS alone; another listener may be without"
        reading.lose("requireSsl", text)


def encrypt_connector(profile: Reading, reading: Reading) -> None:
    """Give a connector the authorities and the certificate of a profile."""
    _copy(profile, "caCertFile", reading, "trusted-certificates")
    _copy(profile, "certFile", reading, "certificate")
    _copy(profile, "privateKeyFile", reading, "private-key")
    _say_version(profile, reading)
    if "ciphers" in profile:
        profile.lose("ciphers", f"ciphers: connector {reading.name!r} takes those of this machine")


def _copy(profile: Reading, attribute: str, reading: Reading, key: str) -> None:
    if value := profile.text(attribute):
        line = profile.line_of(attribute)
        reading.block.values[key] = reading.notes.given(value, line)


def _say_version(profile: Reading, reading: Reading) -> None:
    """Give the oldest of the versions of TLS that a profile lists."""
    listed = profile.text("protocols").split()
    known = [_VERSIONS[each] for each in listed if each in _VERSIONS]
    if len(known) < len(listed):
        profile.lose("protocols", f"protocols: there are {' and '.join(_VERSIONS)}")
    if listed:
        version = min(known, default=VERSIONS[0])
        reading.block.values["tls-min-version"] = reading.notes.given(
            version, profile.line_of("protocols")
        )
