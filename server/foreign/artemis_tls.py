"""The parameters for TLS in the URL of an acceptor of Artemis, as keys of ours.

Artemis reads stores of Java, or files in PEM format. The broker cannot open Java key stores, so it
does not open an acceptor with one, and names the command that converts it. Must never know how a
file is read.
"""

from collections.abc import Mapping
from typing import Final

from daybook.server.config_keys.acceptor_config import NONE, OPTIONAL, REQUIRED

PARAMETERS: Final = frozenset(
    {
        "sslEnabled", "keyStorePath", "keyStoreType", "keyStorePassword", "trustStorePath",
        "trustStoreType", "trustStorePassword", "needClientAuth", "wantClientAuth",
        "enabledProtocols", "enabledCipherSuites", "sslAutoReload", "allowCleartext",
    }
)  # fmt: skip
"""The parameters that are translated here."""

_FOR_CLEARTEXT: Final = {"sslEnabled", "allowCleartext"}
_PEM: Final = ("PEM", "PEMCFG")
_PEM_SUFFIXES: Final = (".pem", ".crt", ".cer")
_OLD_VERSIONS: Final = ("TLSV1", "TLSV1.1", "SSLV2HELLO", "SSLV3")


class Translated:
    """The keys that parameters give, why the acceptor cannot be opened, and the lost settings."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.values: dict[str, object] = {}
        self.why_closed = ""
        self.lost: list[str] = []
        if _is_on(parameters, "sslEnabled"):
            self._translate(parameters)
        else:
            # Where Artemis listens without TLS, its operator has decided so.
            given = parameters.get("allowCleartext", "true")
            self.values["allow-cleartext"] = given.lower() == "true"
            others = parameters.keys() & PARAMETERS - _FOR_CLEARTEXT
            self.lost += [f"{name} is ignored without sslEnabled=true" for name in sorted(others)]

    def _translate(self, parameters: Mapping[str, str]) -> None:
        self.values["tls"] = True
        self.values["certificate"] = self._store("keyStore", parameters)
        if _is_on(parameters, "needClientAuth"):
            self.values["client-certificates"] = REQUIRED
        elif _is_on(parameters, "wantClientAuth"):
            self.values["client-certificates"] = OPTIONAL
        if self.values.get("client-certificates", NONE) != NONE:
            self.values["client-ca"] = self._store("trustStore", parameters)
        elif "trustStorePath" in parameters:
            self.lost.append("trustStorePath is ignored, as clients are not asked for certificates")
        versions = _listed(parameters.get("enabledProtocols", ""))
        if versions:
            newer = [each for each in versions if each.upper() not in _OLD_VERSIONS]
            self.values["tls-min-version"] = "1.2" if "TLSv1.2" in newer else "1.3"
            if len(newer) < len(versions):
                self.lost.append("enabledProtocols: versions before TLS 1.2 are not spoken")
        if _is_on(parameters, "sslAutoReload"):
            self.lost.append("sslAutoReload: certificates are read again on SIGHUP")
        suites = _listed(parameters.get("enabledCipherSuites", ""))
        older = [each for each in suites if "_WITH_" in each]
        if older:
            self.values["ciphers"] = ":".join(map(openssl_name, older))

    def _store(self, which: str, parameters: Mapping[str, str]) -> str:
        path = parameters.get(f"{which}Path", "")
        kind = parameters.get(f"{which}Type", "").upper()
        if kind not in _PEM and not (not kind and path.lower().endswith(_PEM_SUFFIXES)):
            target = "server.pem" if which == "keyStore" else "ca.pem"
            self.why_closed = (
                f"{which}Path {path!r} is a store of Java ({kind or 'JKS'}), which is not read;"
                f" convert it (`keytool -importkeystore` to PKCS12, then `openssl pkcs12 -in"
                f" STORE.p12 -nodes -out {target}`), and write {which}Type=PEM;{which}Path={target}"
            )
        return path


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2 from its name in Java."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128_", "AES128_").replace("AES_256_", "AES256_")
    cipher = cipher.removesuffix("_SHA256") if "CHACHA20_POLY1305" in cipher else cipher
    cipher = cipher.replace("_CBC_", "_")
    parts = [] if exchange == "RSA" else exchange.split("_")
    return "-".join([*parts, *cipher.split("_")])


def _is_on(parameters: Mapping[str, str], key: str) -> bool:
    return parameters.get(key, "").lower() == "true"


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
