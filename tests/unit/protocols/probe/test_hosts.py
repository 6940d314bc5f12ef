"""Which hosts a probe answers to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.probe.hosts import SHOWN_MAX, AllowedHosts, refusal

HOSTS = AllowedHosts(("Broker.Example.org", "monitor_1"), ("0.0.0.0", "machine"))


@pytest.mark.parametrize(
    "authority",
    [
        "localhost", "localhost:8161", "LOCALHOST.", "127.0.0.1:8161", "127.9.9.9", "[::1]",
        "[::1]:8161", "10.1.2.3:80", "[2001:db8::1]", "broker.example.org:8161",
        "BROKER.example.org.", "monitor_1", "machine:8161", "",
    ],
)  # fmt: skip
def test_own_names_listed_names_and_addresses_are_allowed(authority: str) -> None:
    assert HOSTS.allow(authority)


@pytest.mark.parametrize(
    "authority",
    [
        "evil.example", "localhost.evil.example", "evil.example:8161", "127.0.0.1.evil.example",
        "broker.example.org.evil.example", "xbroker.example.org", "example.org", "[evil.example]",
        "[::1].evil.example", "1.2.3", "0x7f000001", "2130706433", ":8161", "..", "127.0.0.1@evil",
    ],
)  # fmt: skip
def test_other_names_are_not(authority: str) -> None:
    assert not HOSTS.allow(authority)


@given(st.text(max_size=300))
def test_a_star_allows_everything_and_no_text_is_too_odd(authority: str) -> None:
    assert AllowedHosts(("*",), ()).allow(authority)
    HOSTS.allow(authority)
    assert len(refusal(authority)) < SHOWN_MAX + 60


@pytest.mark.parametrize("wrong", ["http://a", "a:8161", "a/b", "", "a b", "*.example.org", "-a"])
def test_what_is_no_name_is_a_problem_of_the_configuration(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"allowed-hosts: .* is not the name of a host"):
        AllowedHosts((wrong,), ())


def test_addresses_may_be_listed() -> None:
    AllowedHosts(("10.0.0.1", "::1", "[::1]"), ())
