"""The commands about users: roles, passcodes, tokens, and what a user may do."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.server.administration.broker_views import user_row
from daybook.server.users.users import Users
from daybook.server.users.users_file import User
from daybook.tools.administration import request_commands
from daybook.tools.daybook import cli

RULES = """
[[security-setting]]
match = "orders.#"
send = ["sales"]

[[security-setting]]
match = "orders.secret"
"""


class Clerk:
    """Runs `daybook user` on a folder, with alice as the first user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ok("add", "alice", "--passcode-stdin", "--role", "sales", text="one\n")

    def run(self, *words: str, text: str = "") -> Result:
        command = ["user", *words, "--data", str(self.folder)]
        return CliRunner().invoke(cli, command, input=text)

    def ok(self, *words: str, text: str = "") -> str:
        result = self.run(*words, text=text)
        assert result.exit_code == 0, result.output
        return result.output

    def fails(self, *words: str, text: str = "") -> str:
        result = self.run(*words, text=text)
        assert result.exit_code in (1, 2), result.output
        return result.output

    @property
    def users(self) -> Users:
        return Users.load(self.folder / "users.toml")

    def row(self, login: str) -> dict[str, Any]:
        rows = json.loads(self.ok("list", "--json"))
        return next(row for row in rows if row["user"] == login)


@pytest.fixture
def clerk(tmp_path: Path) -> Clerk:
    return Clerk(tmp_path)


def test_roles_are_given_and_taken(clerk: Clerk) -> None:
    assert clerk.row("alice")["roles"] == ["sales"]
    assert "has the roles sales, staff" in clerk.ok("role", "alice", "--add", "staff")
    assert clerk.users.roles() == {"alice": frozenset({"sales", "staff"})}
    assert "has no roles" in clerk.ok("role", "alice", "--remove", "staff", "--remove", "sales")
    assert "has no role 'staff'" in clerk.fails("role", "alice", "--remove", "staff")
    assert "there is no user 'bob'" in clerk.fails("role", "bob", "--add", "staff")
    assert "name at least one role" in clerk.fails("role", "alice")
    for role in ("user:bob", "*", " x", ""):
        assert "the role" in clerk.fails("role", "alice", "--add", role)


def test_users_without_named_hosts_may_use_all(clerk: Clerk) -> None:
    _, line = clerk.ok("list").splitlines()
    assert line.split() == ["alice", "sales", "all", "yes", "yes", "no", "no"]
    assert clerk.row("alice")["hosts"] == []


def test_it_says_whose_users_these_are(clerk: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has its own" not in clerk.ok("list")
    monkeypatch.setenv("DAYBOOK_CONTROL_URL", "control://broker:61612")
    told = clerk.ok("list")
    assert f"these users are in {clerk.folder / 'users.toml'} here" in told
    assert "the broker at control://broker:61612 has its own" in told
    command = ["user", "list", "--users-file", str(clerk.folder / "users.toml")]
    assert "has its own" not in CliRunner().invoke(cli, command).output


def test_the_users_of_a_broker_elsewhere_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def reach(_: Path, request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        rows = [user_row(f"u{request['offset']}", User(roles=("a",)))]
        return {"users": rows, "next_offset": 1 if request["offset"] == 0 else None}

    monkeypatch.setattr(request_commands, "reach", reach)
    command = ["user", "list", "--url", "control://broker:61612", "--json"]
    result = CliRunner().invoke(cli, command)
    assert [row["user"] for row in json.loads(result.output)] == ["u0", "u1"]
    assert [request["do"] for request in asked] == ["users", "users"]


def test_a_passcode_is_changed(clerk: Clerk) -> None:
    clerk.ok("passwd", "alice", "--passcode-stdin", text="two\n")
    assert clerk.users.verify("alice", "two")
    assert not clerk.users.verify("alice", "one")
    assert clerk.row("alice")["roles"] == ["sales"]
    assert clerk.row("alice")["scram"] is True
    told = clerk.ok("passwd", "alice", "--passcode-stdin", text="\U0001f511\n")
    assert "user 'alice' cannot log in by SCRAM" in told
    assert clerk.row("alice")["scram"] is False
    assert "there is no user 'bob'" in clerk.fails("passwd", "bob", "--passcode-stdin", text="x\n")
    assert "the passcode is empty" in clerk.fails("passwd", "alice", "--passcode-stdin", text="\n")


def test_a_user_is_disabled_and_enabled(clerk: Clerk) -> None:
    assert "disabled user 'alice'" in clerk.ok("disable", "alice")
    assert clerk.row("alice")["disabled"] is True
    assert clerk.users.is_disabled("alice")
    clerk.ok("enable", "alice")
    assert not clerk.users.is_disabled("alice")
    assert "there is no user" in clerk.fails("disable", "bob")


def test_a_user_without_a_passcode(clerk: Clerk) -> None:
    clerk.ok("add", "robot", "--no-passcode")
    assert clerk.row("robot")["passcode"] is False
    assert not clerk.users.verify("robot", "")
    assert "exclude each other" in clerk.fails("add", "x", "--no-passcode", "--passcode-stdin")


def test_a_token_is_shown_once(clerk: Clerk) -> None:
    first = clerk.ok("token", "alice").strip()
    second = clerk.ok("token", "alice").strip()
    assert first != second
    assert first.startswith("dbk_")
    assert clerk.users.user_of_token(second) == "alice"
    assert clerk.users.user_of_token(first) is None
    assert second not in (clerk.folder / "users.toml").read_text()
    clerk.ok("token", "alice", "--remove")
    assert clerk.users.user_of_token(second) is None
    assert "has no token" in clerk.fails("token", "alice", "--remove")


def test_rights_by_a_file(clerk: Clerk, tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(RULES)
    flags = ("--config", str(config))
    shown = clerk.ok("show", "alice", "--address", "orders.eu", *flags)
    assert "at orders.eu:" in shown
    assert any(line.split()[:3] == ["send", "yes", "sales"] for line in shown.splitlines())
    answer = json.loads(clerk.ok("show", "alice", "--address", "orders.secret", *flags, "--json"))
    assert {row["allowed"] for row in answer["permissions"]} == {False}
    assert answer["permissions"][0]["rules"] == ["orders.secret"]
    everywhere = clerk.ok("show", "alice", *flags)
    assert "no rule covers it" not in everywhere
    assert "there is no user 'bob'" in clerk.fails("show", "bob", *flags)
    assert "no broker runs" in clerk.fails("show", "alice")
    config.write_text("")
    assert clerk.ok("show", "alice", *flags).endswith("every user may do everything\n")
    clerk.ok("add", "joe", "--virtual-host", "eu", "--passcode-stdin", text="secret\n")
    assert clerk.ok("show", "joe", *flags).endswith("every user may do everything on eu\n")


def test_a_check_of_the_configuration_says_whom_the_first_start_lets_in(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f'[broker]\ndata-directory = "{tmp_path}/data"\n', "utf-8")
    check = ["config", "check", str(config)]
    told = CliRunner().invoke(cli, check).output
    assert f"{tmp_path}/data/users.toml does not exist: guest with passcode guest is let in" in told
    add = ["user", "add", "ann", "--passcode-stdin", "--data", str(tmp_path / "data")]
    refused = CliRunner().invoke(cli, add, input="one\n")
    assert f"before its first start, make it: mkdir -m 700 {tmp_path}/data" in refused.output
    (tmp_path / "data").mkdir(0o700)
    assert CliRunner().invoke(cli, add, input="one\n").exit_code == 0
    assert "guest" not in CliRunner().invoke(cli, check).output
    config.write_text(
        f'[broker]\ndata-directory = "{tmp_path}/data"\nallow-guest = true\n', "utf-8"
    )
    assert "allow-guest is set: guest with" in CliRunner().invoke(cli, check).output
    (tmp_path / "data" / "users.toml").write_text("x = ", "utf-8")
    broken = CliRunner().invoke(cli, check)
    assert broken.exit_code
    assert "users.toml" in broken.output
