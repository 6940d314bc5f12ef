"""The certificate of an acceptor, a console, a connector or a node of a cluster, and what its peers
must show: files in, a TLS context out.

Everything is read and checked before the new context replaces the old one, so that a bad
certificate never ends what works. Fault model: files may be missing, unreadable, damaged, mixed up,
or expired. Must never know sockets.
"""

import hashlib
import ssl
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from daybook.errors import DaybookError
from daybook.server.config_keys.acceptor_config import OPTIONAL, REQUIRED, VERSIONS, AcceptorConfig
from daybook.server.configuration.config import Config
from daybook.server.configuration.connector_config import ConnectorConfig
from daybook.server.configuration.replication_config import ReplicationConfig
from daybook.server.network.layers.der import Holder, element, fields_of, first_of, holder_of

EXPIRES_SOON_SECONDS: Final = 14 * 24 * 3600
FILE_BYTES_MAX: Final = 1 << 20
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_DEMANDS: Final = {OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
_VALIDITY: Final = 3
_END_POINT_HASHES: Final = {
    # MD5 and SHA-1 with RSA, and SHA-1 with ECDSA, stand for SHA-256 (RFC 5929, 4.1).
    "2a864886f70d010104": "sha256",
    "2a864886f70d010105": "sha256",
    "2a8648ce3d0401": "sha256",
    # SHA-256, 384 and 512 with RSA, then with ECDSA.
    "2a864886f70d01010b": "sha256",
    "2a864886f70d01010c": "sha384",
    "2a864886f70d01010d": "sha512",
    "2a8648ce3d040302": "sha256",
    "2a8648ce3d040303": "sha384",
    "2a8648ce3d040304": "sha512",
}
"""The hash of a certificate that binds logins to it, by the algorithm of its signature."""
_UTC_TIME: Final = 0x17

assert set(_VERSIONS) == set(VERSIONS)


class TlsError(DaybookError):
    """A certificate, a key or another option of TLS is not usable; the text says what to do."""


class Identity:
    """A TLS context made from the files of an acceptor, and until when its certificate is valid."""

    def __init__(self, config: AcceptorConfig) -> None:
        """Read the files. Raises TlsError."""
        certificate = Path(config.certificate)
        key = Path(config.key or config.certificate)
        text = _read(certificate, "certificate")
        self.begins, self.expires = validity(text, str(certificate))
        self.context: Final = _context(config)
        _load_pair(self.context, certificate, key)
        self.end_point: Final = end_point(text)
        self.holder: Final = holder(text)
        if config.client_certificates in _DEMANDS:
            self.context.verify_mode = _DEMANDS[config.client_certificates]
            _trust(self.context, config.client_ca, "client-ca")
        self._key: Final = key

    @property
    def seconds_left(self) -> float:
        """How long the certificate is still valid; less than 0 if it expired."""
        return self.expires - time.time()

    @property
    def expires_soon(self) -> bool:
        """Whether it is time to renew the certificate, or too late."""
        return self.seconds_left < EXPIRES_SOON_SECONDS

    @property
    def is_expired(self) -> bool:
        """Whether clients that look at the time refuse the certificate now."""
        return not self.begins <= time.time() < self.expires

    def warnings(self) -> list[str]:
        """Return what an operator should know, in sentences."""
        return _warnings(self._key, self.expires)

    def renewed(self, config: AcceptorConfig) -> "Identity":
        """Read the files again. Raises TlsError if the new certificate cannot be used, or is not
        valid now while this one is."""
        new = Identity(config)
        if not self.is_expired:
            new.check_dates(config.certificate)
        return new

    def check_dates(self, certificate: str) -> None:
        """Raise TlsError if the certificate is not valid now."""
        if self.is_expired:
            raise TlsError(
                f"{certificate}: the certificate is valid from {_day(self.begins)} to"
                f" {_day(self.expires)}, and not now; renew it"
            )


def check(config: Config) -> None:
    """Read the certificates of all acceptors and connectors, and of the console. Raises
    TlsError."""
    for acceptor in config.acceptors:
        if acceptor.tls:
            try:
                Identity(acceptor)
            except TlsError as error:
                raise TlsError(f"acceptor {acceptor.name!r}: {error}") from None
    for connector in config.connectors:
        if connector.tls:
            try:
                client_context(connector)
            except TlsError as error:
                raise TlsError(f"connector {connector.name!r}: {error}") from None
    if config.replication is not None:
        try:
            _check_node(config.replication)
        except TlsError as error:
            raise TlsError(f"replication: {error}") from None
    if config.console.listen and config.console.certificate:
        try:
            Identity(of_console(config.console.certificate, config.console.private_key))
        except TlsError as error:
            raise TlsError(f"console: {error}") from None


def of_console(certificate: str | Path, key: str | Path) -> AcceptorConfig:
    """Return the TLS of a console: that of an acceptor with these files and no other option."""
    return AcceptorConfig(
        "console", "", 0, 0, 0, {}, tls=True, certificate=str(certificate), key=str(key)
    )


def client_context(config: ConnectorConfig) -> ssl.SSLContext:
    """Return the TLS context of a connector, made from its files. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[config.tls_min_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.check_hostname = config.verify_host_name
    if config.trusted_certificates:
        _trust(context, config.trusted_certificates, "trusted-certificates")
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if config.certificate:
        certificate = Path(config.certificate)
        key = Path(config.private_key or config.certificate)
        validity(_read(certificate, "certificate"), str(certificate))
        _load_pair(context, certificate, key)
    return context


def _check_node(config: ReplicationConfig) -> None:
    if config.listen.tls:
        _check_both(config.certificate, config.key, config.authority, "authority")
    if any(each.startswith("https:") for each in config.endpoints):
        files = (config.etcd_certificate, config.etcd_key, config.etcd_authority)
        _check_both(*files, "etcd-authority")


def _check_both(certificate: str, key: str, authority: str, name: str) -> None:
    """Read what one side shows, and what it accepts, if there is any. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificate:
        validity(_read(Path(certificate), "certificate"), certificate)
        _load_pair(context, Path(certificate), Path(key))
    if authority:
        _trust(context, authority, name)


def _context(config: AcceptorConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.tls_min_version]
    # Compression leaks secrets, and a renegotiation costs the server more than the client.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1
    if config.ciphers:
        try:
            context.set_ciphers(config.ciphers)
        except ssl.SSLError:
            raise TlsError(
                f"ciphers is {config.ciphers!r}, of which OpenSSL knows no cipher; write a list as"
                " for `openssl ciphers`, like ECDHE+AESGCM:ECDHE+CHACHA20"
            ) from None
    return context


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _read(key, "key")

    def refuse() -> str:
        raise TlsError(
            f"{key}: the key is protected by a passphrase, which a broker that starts by itself"
            " cannot type in; write it without one (`openssl pkey`) and make the file readable by"
            " the broker's user alone"
        )

    try:
        context.load_cert_chain(certificate, key, password=refuse)
    except ssl.SSLError as error:
        reason = error.reason or "PEM_LIB"
        hints = {
            "KEY_VALUES_MISMATCH": "the key belongs to another certificate",
            "NO_START_LINE": "one of the files is not in PEM format",
            "PEM_LIB": "one of the files is not in PEM format, or there is no key in it",
            "CA_MD_TOO_WEAK": "the certificate is signed with a weak digest",
            "EE_KEY_TOO_SMALL": "the key is too short",
        }
        raise TlsError(
            f"certificate {certificate} and key {key} cannot be used: {hints.get(reason, reason)}"
        ) from None


def _trust(context: ssl.SSLContext, path: str, key: str) -> None:
    """Accept certificates of the authorities in a file, which a key names. Raises TlsError."""
    _read(Path(path), key)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsError(
            f"{key} {path} cannot be used: {error.reason or error}; it must be a file of"
            " certificates in PEM format"
        ) from None
    if not context.cert_store_stats()["x509"]:
        raise TlsError(f"{key} {path} has no certificate")


def _read(path: Path, key: str) -> str:
    """Read a file in PEM format. Raises TlsError."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise TlsError(f"{path} ({key}) is longer than {FILE_BYTES_MAX:,} bytes")
        return path.read_text("ascii", errors="replace")
    except OSError as error:
        raise TlsError(f"{path} ({key}) cannot be read: {error.strerror}") from None


def _warnings(key: Path, expires: float) -> list[str]:
    """Return what an operator should know, in sentences."""
    found = []
    try:
        mode = stat.S_IMODE(key.stat().st_mode)
    except OSError:
        mode = 0
    if mode & 0o077:
        found.append(f"{key}: others may use the key (mode {mode:04o}); `chmod 600` it")
    left = expires - time.time()
    if left <= 0:
        found.append(f"the certificate expired on {_day(expires)}; clients will refuse it")
    elif left < EXPIRES_SOON_SECONDS:
        found.append(f"the certificate expires on {_day(expires)}; renew it, then send SIGHUP")
    return found


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def validity(pem: str, name: str) -> tuple[float, float]:
    """Return from when until when the first certificate of a text is valid. Raises TlsError."""
    text = first_of(pem)
    if not text:
        raise TlsError(f"{name} has no certificate in PEM format")
    try:
        der = ssl.PEM_cert_to_DER_cert(text)
        _, first, _ = element(der, fields_of(der)[_VALIDITY])
        _, _, second = element(der, first)
        return _time(der, first), _time(der, second)
    except (ValueError, IndexError):
        raise TlsError(f"{name}: the certificate is damaged") from None


def holder(pem: str) -> Holder:
    """Return the holder of the first certificate of a text, which OpenSSL has accepted; nobody if
    it says that in an unknown way."""
    try:
        return holder_of(ssl.PEM_cert_to_DER_cert(first_of(pem)))
    except (ValueError, IndexError):
        return Holder("", "", ())


def end_point(pem: str) -> bytes:
    """Return the hash of the first certificate of a text, which OpenSSL has accepted: the data of
    `tls-server-end-point`. Empty where the signature of the certificate names no single hash."""
    der = ssl.PEM_cert_to_DER_cert(first_of(pem))
    _, inside, _ = element(der, 0)
    _, _, after = element(der, inside)
    _, algorithm, _ = element(der, after)
    _, at, stop = element(der, algorithm)
    name = _END_POINT_HASHES.get(der[at:stop].hex())
    return hashlib.new(name, der).digest() if name is not None else b""


def _time(der: bytes, at: int) -> float:
    tag, start, stop = element(der, at)
    text = der[start:stop].decode("ascii")
    if tag == _UTC_TIME:
        # RFC 5280, 4.1.2.5.1: two digits of the year, from 1950 to 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
