"""Users beside a broker.xml: those that are taken over, and reports of the others."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.server.configuration.config import load
from daybook.server.foreign.artemis_logins import BYTES_MAX, read_logins
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.importing import foreign_users
from daybook.server.foreign.logins import USERS_MAX, ForeignUser, users_of
from daybook.server.foreign.taking_over import load_users
from daybook.server.users.users import GUEST, Users
from tests.support.brokers.artemis_created import HASHED, create


def test_what_artemis_creates_has_few_losses_and_many_needless_things(tmp_path: Path) -> None:
    config = load(create(tmp_path / "etc"))
    lost = [each for each in config.warnings if "without TLS" not in each]
    assert len(lost) == 3
    assert all("protocols" in each or "cannot connect" in each for each in lost), lost
    assert len(config.foreign.needless) == 37
    assert not any("persistence-enabled" in each for each in config.warnings)
    assert not any("persistence-enabled" in each for each in config.foreign.needless)
    assert config.broker.name == "daybook"
    assert (config.foreign.users, config.foreign.folder) == (1, str(tmp_path / "etc"))
    assert not config.broker.allow_guest


def test_the_first_start_takes_the_users_over_and_no_later_one(tmp_path: Path) -> None:
    config = load(create(tmp_path / "etc"))
    path = tmp_path / "users.toml"
    users = load_users(path, config.foreign)
    assert users.verify("admin", "password")
    assert users.roles() == {"admin": {"amq"}}
    users.remove("admin")
    assert load_users(path, config.foreign).logins() == []


def test_clients_without_a_login_are_the_guest(tmp_path: Path) -> None:
    config = load(create(tmp_path / "etc", anonymous=True))
    assert config.broker.allow_guest
    assert any("from this machine only, as guest with the role amq" in w for w in config.warnings)
    users = load_users(tmp_path / "users.toml", config.foreign)
    users.allow_guest = config.broker.allow_guest
    assert users.roles()[GUEST] == {"amq"}
    assert users.admits_at_once(GUEST, GUEST, peer_is_loopback=True)
    assert not users.admits_at_once(GUEST, GUEST, peer_is_loopback=False)
    assert not users.verify(GUEST, GUEST)


def test_without_users_it_says_what_to_do(tmp_path: Path) -> None:
    broker = create(tmp_path / "etc")
    for name in ("artemis-users.properties", "login.config"):
        (tmp_path / "etc" / name).unlink()
    config = load(broker)
    assert any("`daybook user add LOGIN --role amq`" in each for each in config.warnings)
    assert config.foreign.users == 0
    assert not load_users(tmp_path / "users.toml", config.foreign).has_file


def test_passcodes_in_any_form(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / "artemis-users.properties").write_text(
        f"one={HASHED}\ntwo : se\\u0063ret\nthree\\ four ENC(-5fba27)\nnone =\n"
    )
    (tmp_path / "artemis-roles.properties").write_text("a = one, two,three four\nb=two,ghost\n")
    findings = Findings()
    found = foreign_users(tmp_path, None, findings)
    users = Users(tmp_path / "users.toml")
    users.take_over(found)
    assert users.verify("one", "password")
    assert users.verify("two", "secret")
    assert (found["three four"].hash, found["none"].hash) == ("", "")
    assert found["two"].roles == ("a", "b")
    ghost, masked = findings.lost
    assert "role 'b' has 'ghost', and there is no such user" in ghost
    assert "the passcode of user 'three four' is masked" in masked
    assert load(tmp_path / "broker.xml").warnings[-4:-2] != ()
    by_file = foreign_users(tmp_path / "artemis-users.properties", None, Findings())
    assert by_file.keys() == found.keys()


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("LDAPLoginModule", "users of LDAPLoginModule are not taken over, since they are kept"),
        ("TextFileCertificateLoginModule", "set certificate-login of the acceptor"),
    ],
)
def test_users_that_are_elsewhere_are_named(tmp_path: Path, module: str, text: str) -> None:
    create(tmp_path)
    (tmp_path / "login.config").write_text(f"activemq {{ org.x.{module} required debug=true; }};")
    findings = Findings()
    assert read_logins(tmp_path, findings).users == []
    assert text in findings.lost[0]


def test_a_manager_that_keeps_users_in_its_data_is_named(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / "bootstrap.xml").write_text(
        '<broker><security-manager class-name="org.x.ActiveMQBasicSecurityManager"/></broker>'
    )
    findings = Findings()
    read_logins(tmp_path, findings)
    assert "users of ActiveMQBasicSecurityManager are not taken over" in findings.lost[0]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / "artemis-roles.properties").write_bytes(b"a" * (BYTES_MAX + 1))
    (tmp_path / "artemis-users.properties").write_text("a = \\uZZZZ\n")
    (tmp_path / "bootstrap.xml").write_text("<broker>")
    findings = Findings()
    assert read_logins(tmp_path, findings).users == []
    assert len(findings.lost) == 2
    assert all("cannot be read" in each for each in findings.lost)


def test_names_that_no_user_may_have_are_named() -> None:
    found = [ForeignUser("", "f"), ForeignUser("a\n", "f"), ForeignUser("b", "f", roles=["*"])]
    findings = Findings()
    assert users_of(found, findings) == {}
    assert len(findings.lost) == 3
    many = (ForeignUser(f"u{n}", "f") for n in range(USERS_MAX + 1))
    assert len(users_of(many, findings)) == USERS_MAX


@given(st.text(max_size=300))
def test_any_login_config_is_read(text: str) -> None:
    import tempfile  # noqa: PLC0415 (a folder for each example)

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "login.config").write_text(text, encoding="utf-8", errors="replace")
        read_logins(Path(name), Findings())
