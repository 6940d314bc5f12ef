"""The login of a connector: the mechanism that is chosen, and what it gives away."""

from pathlib import Path

import pytest

from daybook.protocols.port import NotLoggedIn
from daybook.server.configuration.config import load
from daybook.server.configuration.connector_config import ConnectorConfig, Secret
from daybook.server.connectors.logins import ConnectorLogin, Keys, mechanisms_of
from daybook.server.users.scram import ITERATIONS

ALL = ("ANONYMOUS", "PLAIN", "SCRAM-SHA-256", "EXTERNAL")
PASSCODE = Secret("open-sesame")


def config(folder: Path, url: str, *lines: str) -> ConnectorConfig:
    path = folder / "broker.toml"
    path.write_text("\n".join(["[[connector]]", 'name = "a"', f'url = "{url}"', *lines]))
    return load(path).connectors[0]


def chosen(folder: Path, url: str, *lines: str, offered: tuple[str, ...] = ALL) -> str:
    login = ConnectorLogin(config(folder, url, *lines), PASSCODE, Keys())
    return login.choose(offered)[0]


LOGIN = ('login = "me"', 'passcode-file = "p"')
SHOWN = ('certificate = "c.pem"',)


@pytest.mark.parametrize(
    ("url", "lines", "offered", "mechanism"),
    [
        ("amqp://h", (), ALL, "ANONYMOUS"),
        ("amqps://h", SHOWN, ALL, "EXTERNAL"),
        ("amqps://h", SHOWN, ("ANONYMOUS",), "ANONYMOUS"),
        ("amqps://h", LOGIN, ALL, "SCRAM-SHA-256"),
        ("amqps://h", LOGIN, ("PLAIN", "ANONYMOUS"), "PLAIN"),
        ("amqp://localhost", LOGIN, ("PLAIN",), "PLAIN"),
        ("amqp://h", (*LOGIN, 'mechanisms = ["PLAIN"]'), ALL, "PLAIN"),
    ],
)
def test_the_best_mechanism_that_both_have_is_chosen(
    tmp_path: Path, url: str, lines: tuple[str, ...], offered: tuple[str, ...], mechanism: str
) -> None:
    assert chosen(tmp_path, url, *lines, offered=offered) == mechanism


def test_a_passcode_crosses_no_network_in_clear_text(tmp_path: Path) -> None:
    assert mechanisms_of(config(tmp_path, "amqp://h", *LOGIN)) == ("SCRAM-SHA-256",)
    with pytest.raises(NotLoggedIn, match="the peer offers the logins PLAIN, and the connector us"):
        chosen(tmp_path, "amqp://h", *LOGIN, offered=("PLAIN",))


def test_a_login_is_not_replaced_by_an_anonymous_one(tmp_path: Path) -> None:
    with pytest.raises(NotLoggedIn, match="the peer offers the logins ANONYMOUS"):
        chosen(tmp_path, "amqps://h", *LOGIN, offered=("ANONYMOUS",))
    with pytest.raises(NotLoggedIn, match="the peer offers the logins none"):
        chosen(tmp_path, "amqps://h", *LOGIN, offered=())


def test_the_key_of_scram_is_computed_elsewhere_and_found_the_next_time(tmp_path: Path) -> None:
    keys = Keys()
    known = config(tmp_path, "amqp://h", *LOGIN)

    def answer() -> bytes:
        login = ConnectorLogin(known, PASSCODE, keys)
        first = login.choose(ALL)[1].decode()
        nonce = first.partition("r=")[2]
        return login.respond(f"r={nonce}x,s=c2FsdA==,i={ITERATIONS}".encode())

    with pytest.raises(NotLoggedIn, match="has to be computed first"):
        answer()
    assert keys.wanted == (b"salt", ITERATIONS)
    keys.compute(PASSCODE)
    assert keys.wanted is None
    assert answer().startswith(b"c=biws,r=")
    # Another passcode has another key.
    with pytest.raises(NotLoggedIn):
        keys.find(Secret("other"), b"salt", ITERATIONS)


@pytest.mark.parametrize("challenge", [b"", b"\xff", b"r=x,s=c2FsdA==,i=1", b"r=x,i=x,s=="])
def test_a_challenge_that_answers_nothing_ends_the_login(tmp_path: Path, challenge: bytes) -> None:
    login = ConnectorLogin(config(tmp_path, "amqp://h", *LOGIN), PASSCODE, Keys())
    login.choose(ALL)
    with pytest.raises(NotLoggedIn, match="the peer's challenge"):
        login.respond(challenge)
    with pytest.raises(NotLoggedIn, match="did not prove"):
        login.accepted(b"v=x")


def test_a_refusal_says_what_may_be_wrong(tmp_path: Path) -> None:
    said = {}
    for mechanism, lines in (("PLAIN", LOGIN), ("ANONYMOUS", ()), ("EXTERNAL", SHOWN)):
        login = ConnectorLogin(config(tmp_path, "amqps://h", *lines), PASSCODE, Keys())
        login.choose((mechanism,))
        said[mechanism] = login.refused()
        assert PASSCODE.reveal() not in said[mechanism]
    assert "'me'" in said["PLAIN"]
    assert "login and passcode-file" in said["ANONYMOUS"]
    assert "certificate" in said["EXTERNAL"]
