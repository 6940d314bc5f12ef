"""Which acceptors need TLS, and which of its options go together."""

from typing import Any

import msgspec
import pytest

from daybook.server.configuration import encryption
from daybook.server.configuration.config import ConfigError, load


def problems(*settings: str, listen: str = "stomps://127.0.0.1:0") -> list[str]:
    try:
        load(None, [f"acceptor.{each}" for each in settings], [listen])
    except ConfigError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
        ("LocalHost", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False),
        ("10.0.0.1", False), ("broker.example.org", False), ("localhost.evil.example", False),
        ("fe80::1%eth0", False), ("", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert encryption.is_loopback(host) is expected


@pytest.mark.parametrize("scheme", ["stomp", "http"])
def test_a_port_that_others_reach_needs_tls_or_a_word(scheme: str) -> None:
    (told,) = problems(listen=f"{scheme}://0.0.0.0:1")
    assert told.startswith(f"--listen {scheme}://0.0.0.0:1: ")
    assert "allow-cleartext = true" in told
    assert not problems("allow-cleartext=true", listen=f"{scheme}://0.0.0.0:1")
    assert not problems("certificate=/c", listen=f"{scheme}s://0.0.0.0:1")


def test_what_is_allowed_is_warned_of() -> None:
    config = load(None, [], ["stomp://[::]:1?allow-cleartext=true", "stomp://127.0.0.1:2"])
    (told,) = config.warnings
    assert "acceptor 'stomp' listens on :: without TLS" in told


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ((), "certificate is missing"),
        (("certificate=/c", "client-certificates=required"), "client-ca is missing"),
        (("certificate=/c", "certificate-login=cn"), "clients are not asked for certificates"),
        (("certificate=/c", "certificate-pattern=("), "is not a regular expression"),
        (("certificate=/c", "certificate-pattern=(a)(b)"), "has 2 groups"),
        (("certificate=/c", "tls-min-version=1.1"), 'it must be one of "1.2", "1.3"'),
    ],
)
def test_options_that_do_not_go_together(settings: tuple[str, ...], text: str) -> None:
    (told,) = problems(*settings)
    assert text in told


def test_a_url_has_parameters() -> None:
    url = "stomps://127.0.0.1:1?certificate=/a%20b.pem&client-ca=c.pem&max-connections=7"
    (acceptor,) = load(None, [], [url]).acceptors
    assert (acceptor.protocol, acceptor.tls, acceptor.max_connections) == ("stomp", True, 7)
    assert acceptor.certificate == "/a b.pem"
    assert acceptor.client_ca.startswith("/")
    (told,) = problems(listen="stomp://127.0.0.1:1?sertificate=x")
    assert "did you mean 'acceptor.certificate'?" in told


def test_without_tls_nothing_of_it_is_asked() -> None:
    (acceptor,) = load().acceptors
    values: dict[str, Any] = {"client_certificates": "required", "certificate_login": "cn"}
    assert not list(encryption.problems(msgspec.structs.replace(acceptor, **values)))
