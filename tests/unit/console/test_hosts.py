"""The names of a console: its own, and none that a stranger can give to its address."""

import socket
from pathlib import Path

import pytest
import trustme

from daybook.console.console_config import ConsoleConfig
from daybook.console.hosts import Hosts


@pytest.mark.parametrize(
    ("header", "is_own"),
    [
        ("127.0.0.1:8162", True), ("[::1]:8162", True), ("10.0.0.7", True), ("localhost", True),
        ("LocalHost.:1", True), ("console.example.org", True), (socket.gethostname(), True),
        ("listening.example:8162", True), ("evil.example", False), ("", False),
        ("localhost.evil.example", False), ("evil.example:8162", False), ("a b", False),
        ("x@localhost", False), ("localhost/", False), ("[evil.example]", False),
        ("127.0.0.1.evil.example", False), ("localhost:x", False),
    ],
)  # fmt: skip
def test_only_own_names_are_known(header: str, is_own: bool) -> None:
    config = ConsoleConfig((), "listening.example", names=("console.example.org",))
    assert Hosts(config).knows(header) == is_own


def test_the_names_of_a_certificate_are_own_ones(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    made = trustme.CA().issue_cert("east.example.org", "*.shop.example")
    made.cert_chain_pems[0].write_to_path(str(file))
    hosts = Hosts(ConsoleConfig((), certificate=file))
    assert hosts.knows("east.example.org")
    assert hosts.knows("a.shop.example:8443")
    assert not hosts.knows("a.b.shop.example")
    assert not hosts.knows("west.example.org")
    made = trustme.CA().issue_cert("west.example.org")
    made.cert_chain_pems[0].write_to_path(str(file))
    hosts.read_certificate()
    assert hosts.knows("west.example.org")
    assert not hosts.knows("east.example.org")
    file.write_text("damaged")
    assert not Hosts(ConsoleConfig((), certificate=file)).knows("east.example.org")
