"""Logins of certificates."""

from typing import Any

import pytest

from daybook.protocols.port import Certificate
from daybook.server.network.layers.client_names import ClientNames, subject_of


def certificate(*names: str, **alternatives: str) -> dict[str, Any]:
    return {
        "subject": tuple((("commonName", name),) for name in names) + ((("countryName", "X"),),),
        "subjectAltName": tuple(alternatives.items()),
    }


def test_the_common_name() -> None:
    names = ClientNames("cn", "")
    assert names.login(certificate("joe")) == "joe"
    assert names.login(certificate()) == ""
    assert names.login(certificate("joe", "eve")) == "", "two names are none"
    assert names.login(None) == ""
    assert names.login({}) == ""


def test_the_holder_in_the_notation_of_rfc_4514() -> None:
    subject = (
        (("countryName", "X"),),
        (("organizationName", "Smith, Sons + Co"), ("serialNumber", "7")),
        (("commonName", "joe"),),
    )
    assert subject_of({"subject": subject}) == r"CN=joe,O=Smith\, Sons \+ Co+serialNumber=7,C=X"
    assert subject_of({}) == ""


def test_a_session_gets_holder_and_login() -> None:
    names = ClientNames("cn", "")
    assert names.certificate(certificate("joe")) == Certificate("C=X,CN=joe", "joe", True)
    assert names.certificate(None) is None


def test_off_is_off() -> None:
    assert ClientNames("none", "").login(certificate("joe")) == ""


@pytest.mark.parametrize(("source", "kind"), [("email", "email"), ("dns", "DNS"), ("uri", "URI")])
def test_alternative_names(source: str, kind: str) -> None:
    found = certificate("joe", **{kind: "name"})
    assert ClientNames(source, "").login(found) == "name"
    assert ClientNames(source, "other").login(found) == ""


def test_a_pattern_takes_its_group_of_the_whole_name() -> None:
    names = ClientNames("cn", r"(\w+)\.clients\.example")
    assert names.login(certificate("joe.clients.example")) == "joe"
    assert names.login(certificate("joe.clients.example.evil")) == ""
    assert names.login(certificate("evil joe.clients.example")) == ""
    assert ClientNames("cn", r"j\w+").login(certificate("joe")) == "joe"
    assert ClientNames("cn", r"j(x)?oe").login(certificate("joe")) == ""


def test_odd_names_are_no_logins() -> None:
    assert ClientNames("cn", "").login(certificate("a" * 256)) == ""
    assert ClientNames("cn", "").login(certificate("joe\0evil")) == ""
    assert ClientNames("cn", "").login(certificate("joe\nevil")) == ""
