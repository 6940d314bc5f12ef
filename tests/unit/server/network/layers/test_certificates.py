"""Files of certificates: reading them, and reports about bad ones."""

import ssl
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.configuration.config import load
from daybook.server.network.layers import certificates
from daybook.server.network.layers.certificates import Identity, TlsError, of_console, validity
from tests.support.brokers.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def config(certificate: Path, **values: Any) -> AcceptorConfig:
    acceptor = load().acceptors[0]
    return msgspec.structs.replace(acceptor, tls=True, certificate=str(certificate), **values)


def test_the_time_of_a_certificate(authority: Authority) -> None:
    identity = Identity(config(authority.issue("localhost")))
    assert identity.begins < time.time() < identity.expires
    assert not identity.is_expired
    old = Identity(config(authority.issue("localhost", expired=True)))
    assert (old.begins, old.expires) == (978_307_200, 979_084_800)
    assert old.is_expired
    with pytest.raises(TlsError, match="valid from 2001-01-01 00:00 UTC to 2001-01-10 00:00 UTC"):
        old.check_dates("f")


def test_a_certificate_says_who_it_is_for(authority: Authority) -> None:
    issued = authority.issue("localhost", "127.0.0.1", "::1", "joe@example.org", cn="Jo\u00e9")
    holder = Identity(config(issued)).holder
    assert holder.subject.startswith("CN=Jo\u00e9,")
    assert "O=trustme" in holder.issuer
    assert holder.names == ("localhost", "127.0.0.1", "::1", "joe@example.org")


def test_a_console_has_the_tls_of_an_acceptor(authority: Authority) -> None:
    file = authority.issue("localhost")
    of_acceptor = Identity(config(file)).context
    context = Identity(of_console(file, file)).context
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (context.options, context.minimum_version, context.num_tickets) == (
        of_acceptor.options, of_acceptor.minimum_version, of_acceptor.num_tickets,
    )  # fmt: skip
    assert context.get_ciphers() == of_acceptor.get_ciphers()


def test_an_expired_certificate_replaces_none_that_is_valid(authority: Authority) -> None:
    file = authority.issue("localhost")
    valid = Identity(config(file))
    authority.issue("localhost", expired=True)
    with pytest.raises(TlsError, match="renew it"):
        valid.renewed(config(file))
    expired = Identity(config(file))
    assert expired.renewed(config(file)).is_expired
    authority.issue("localhost")
    assert not expired.renewed(config(file)).is_expired


def test_it_expires_soon(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity(config(authority.issue("localhost")))
    assert not identity.expires_soon
    now = identity.expires - certificates.EXPIRES_SOON_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: now)
    assert identity.expires_soon
    assert not identity.is_expired


def test_a_signature_without_a_hash_of_its_own_binds_nothing(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = config(authority.issue("localhost"))
    assert len(Identity(made).end_point) == 32
    monkeypatch.setattr(certificates, "_END_POINT_HASHES", {})
    assert Identity(made).end_point == b""


def test_any_cut_of_a_certificate_is_an_error(authority: Authority) -> None:
    text = authority.issue("localhost").read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    lines = text[start:].splitlines()
    for count in range(2, 6):
        cut = "\n".join([*lines[:count], "-----END CERTIFICATE-----"])
        if count < 3:
            with pytest.raises(TlsError, match="damaged"):
                validity(cut, "f")
    with pytest.raises(TlsError, match="no certificate in PEM format"):
        validity(text[:start], "f")


def test_bad_files_are_named(authority: Authority, tmp_path: Path) -> None:
    good = authority.issue("localhost")
    with pytest.raises(TlsError, match=r"missing \(certificate\) cannot be read: No such file"):
        Identity(config(tmp_path / "missing"))
    with pytest.raises(TlsError, match=r"missing \(key\) cannot be read"):
        Identity(config(good, key=str(tmp_path / "missing")))
    with pytest.raises(TlsError, match="the key belongs to another certificate"):
        Identity(config(good, key=str(authority.issue("localhost", name="other"))))
    only = tmp_path / "only.pem"
    only.write_text(good.read_text()[good.read_text().index("-----BEGIN CERT") :])
    with pytest.raises(TlsError, match="there is no key in it"):
        Identity(config(only))
    with pytest.raises(TlsError, match="of which OpenSSL knows no cipher"):
        Identity(config(good, ciphers="nonsense"))
    asking = {"client_certificates": "required"}
    with pytest.raises(TlsError, match=r"client-ca .* cannot be used"):
        Identity(config(good, client_ca="/dev/null", **asking))
    large = tmp_path / "large"
    large.write_bytes(b"x" * (1 << 20) + b"x")
    with pytest.raises(TlsError, match="longer than"):
        Identity(config(large))


def test_a_passphrase_is_not_asked_for(authority: Authority, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    good = authority.issue("localhost")
    key = serialization.load_pem_private_key(good.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsError, match="protected by a passphrase"):
        Identity(config(good, key=str(locked)))


def test_what_an_operator_should_know(authority: Authority) -> None:
    path = authority.issue("localhost")
    identity = Identity(config(path))
    assert identity.warnings() == []
    path.chmod(0o640)
    assert "mode 0640" in identity.warnings()[0]
    path.unlink()
    assert identity.warnings() == []
    identity.expires = time.time() + 3600
    assert "renew it" in identity.warnings()[0]
