"""The users file: who gets in, what is written, and what damage does."""

import os
import re
import stat
import threading
from pathlib import Path

import argon2
import pytest

from daybook.server.users import passcode_hashes as module
from daybook.server.users.passcode_hashes import CannotCheck
from daybook.server.users.users import Users
from daybook.server.users.users_file import UsersError

KNOWN_HASH = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("right")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "users.toml"


@pytest.fixture
def written(path: Path) -> Path:
    """A users file with alice, whose passcode is "right"."""
    path.parent.mkdir()
    path.write_text(f'[users]\nalice = "{KNOWN_HASH}"\n')
    path.chmod(0o600)
    return path


class CountingHasher:
    """Counts the slow verifications, and makes them with a real hasher."""

    def __init__(self, hasher: argon2.PasswordHasher) -> None:
        self.hasher = hasher
        self.calls: list[str] = []
        self.time_cost = hasher.time_cost
        self.memory_cost = hasher.memory_cost
        self.parallelism = hasher.parallelism
        self.hash_len = hasher.hash_len
        self.salt_len = hasher.salt_len

    def verify(self, hashed: str, passcode: bytes) -> bool:
        self.calls.append(hashed)
        return self.hasher.verify(hashed, passcode)


@pytest.fixture
def hasher(monkeypatch: pytest.MonkeyPatch) -> CountingHasher:
    counting = CountingHasher(module._HASHER)
    monkeypatch.setattr(module, "_HASHER", counting)
    return counting


def wrong(login: str) -> str:
    """The answer to a wrong passcode."""
    return f"login or passcode of '{login}' is wrong; give a valid login and passcode"


def test_without_a_file_there_are_no_users(path: Path) -> None:
    users = Users.load(path)
    assert users.logins() == []
    assert users.verify("alice", "x") is False
    assert not path.exists()


def test_a_user_that_was_added_gets_in(path: Path) -> None:
    Users.load(path).add("alice", "päss \x00 word")
    users = Users.load(path)
    assert users.logins() == ["alice"]
    assert users.verify("alice", "päss \x00 word") is True
    assert users.verify("alice", "päss") is False
    assert users.verify("bob", "päss \x00 word") is False
    assert users.verify("alice", "\ud800") is False


def test_the_file_is_private_and_holds_no_passcode(path: Path) -> None:
    Users.load(path).add('al"ice \\ é', "open sesame")
    text = path.read_text()
    assert "sesame" not in text
    assert "$argon2id$" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["users.toml"]
    assert Users.load(path).logins() == ['al"ice \\ é']
    assert Users.load(path).warnings() == []


def test_one_passcode_gives_two_hashes(path: Path) -> None:
    users = Users.load(path)
    users.add("a", "same")
    users.add("b", "same")
    first, second = re.findall(r'"(\$argon2id\$[^"]*)"', path.read_text())
    assert first != second


def test_a_file_that_others_may_read_is_warned_about(written: Path) -> None:
    written.chmod(0o644)
    (warning,) = Users.load(written).warnings()
    assert "mode 0644" in warning
    assert "chmod 600" in warning


@pytest.mark.parametrize(
    ("text", "allow_guest", "why"),
    [
        ("", False, "users.toml does not exist: guest with passcode guest is let in"),
        ("[users]\n", True, "allow-guest is set: guest with passcode guest is let in"),
        ("[users]\n", False, "users.toml has no users, so every login is refused"),
    ],
)
def test_who_is_let_in_without_users_is_warned_about(
    path: Path, text: str, allow_guest: bool, why: str
) -> None:
    if text:
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o600)
    users = Users.load(path)
    users.allow_guest = allow_guest
    (warning,) = users.warnings()
    assert why in warning
    assert f"daybook user add LOGIN --users-file {path}" in warning


def test_virtual_hosts_that_do_not_exist_are_warned_of(written: Path) -> None:
    users = Users.load(written)
    for login, hosts in (("ann", ("eu",)), ("joe", ("eux", "eu")), ("kim", ("eux",))):
        users.add(login, None, (), hosts)
    assert users.warnings({"default", "eu", "eux"}) == users.warnings() == []
    (warning,) = users.warnings({"default", "eu"})
    assert "user 'joe' may use virtual host 'eux', which the configuration does not list" in warning


def test_removing(written: Path) -> None:
    users = Users.load(written)
    assert users.verify("alice", "right")
    users.remove("alice")
    assert users.logins() == Users.load(written).logins() == []
    assert users.verify("alice", "right") is False
    with pytest.raises(UsersError, match="there is no user 'alice'"):
        users.remove("alice")


@pytest.mark.parametrize(
    ("login", "passcode", "problem"),
    [
        ("", "x", "1 to 255 characters"),
        ("a" * 256, "x", "1 to 255 characters"),
        (" a", "x", "begin nor end with a space"),
        ("a\nb", "x", "control characters"),
        ("a", "", "passcode is empty"),
        ("a", "cut off ", "begins or ends with a blank"),
        ("alice", "x", "'alice' exists already"),
    ],
)
def test_what_cannot_be_added(written: Path, login: str, passcode: str, problem: str) -> None:
    before = written.read_text()
    with pytest.raises(UsersError, match=problem):
        Users.load(written).add(login, passcode)
    assert written.read_text() == before


def test_changes_of_other_processes_are_kept(path: Path) -> None:
    first, second = Users.load(path), Users.load(path)
    first.add("a", "1")
    second.add("b", "2")
    assert Users.load(path).logins() == ["a", "b"]


def test_changes_at_the_same_time_are_all_kept(path: Path) -> None:
    adders = [
        threading.Thread(target=Users.load(path).add, args=(f"user{number}", "x"))
        for number in range(5)
    ]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert len(Users.load(path).logins()) == 5


def test_a_symbolic_link_stays_one(written: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(written)
    Users.load(link).add("bob", "x")
    assert link.is_symlink()
    assert Users.load(written).logins() == ["alice", "bob"]


def test_a_failed_write_leaves_the_old_file(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    users = Users.load(written)
    before = written.read_text()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsersError, match="cannot be written: No space left on device"):
        users.add("bob", "x")
    assert written.read_text() == before
    assert users.logins() == ["alice"]
    assert [one.name for one in written.parent.iterdir()] == ["users.toml"]


def test_the_second_login_costs_no_slow_hash(written: Path, hasher: CountingHasher) -> None:
    users = Users.load(written)
    assert [users.verify("alice", "right") for _ in range(3)] == [True, True, True]
    assert len(hasher.calls) == 1
    assert users.verify("alice", "wrong") is False
    assert users.verify("alice", "wrong") is False
    assert len(hasher.calls) == 3


def test_an_unknown_login_costs_a_slow_hash_with_the_costs_of_a_real_one(
    path: Path, hasher: CountingHasher
) -> None:
    users = Users(path)
    assert users.verify("nobody", "x") is False
    (checked,) = hasher.calls
    assert argon2.extract_parameters(checked) == argon2.extract_parameters(
        hasher.hasher.hash("any")
    )


def test_a_reload_forgets_what_was_right_before(written: Path, hasher: CountingHasher) -> None:
    users = Users.load(written)
    assert users.verify("alice", "right")
    written.write_text(f'[users]\nalice = "{hasher.hasher.hash("new")}"\n')
    users.reload()
    assert users.verify("alice", "right") is False
    assert users.verify("alice", "new") is True


def test_a_verification_that_a_reload_overtakes_is_not_remembered(written: Path) -> None:
    users = Users.load(written)
    assert users.verify("alice", "right")
    remembered = dict(users._verified)
    written.write_text(f'[users]\nalice = "{module._HASHER.hash("new")}"\n')
    users.reload()
    users._verified = remembered  # as a thread does that began before the reload
    assert users.verify("alice", "right") is False


def test_nobody_acts_as_a_user_who_is_not_let_in(tmp_path: Path) -> None:
    users = Users.load(tmp_path / "users.toml")
    users.add("a", "x")
    users.add("b", "x", (), ("eu",))
    assert users.why_not_act("a", "default") == users.why_not_act("b", "eu") == ""
    assert users.why_not_act("c", "default") == "there is no user 'c' here"
    assert users.why_not_act("b", "default") == "the user 'b' may not use 'default'"
    users.set_disabled("a", True)
    assert users.why_not_act("a", "default") == "the user 'a' is disabled"


def admits(users: Users, login: str, passcode: str, *, peer_is_loopback: bool = True) -> bool:
    """Whether somebody is let in, at once or after hashing."""
    return users.admits_at_once(login, passcode, peer_is_loopback=peer_is_loopback) or (
        users.can_be_right(login) and users.verify(login, passcode)
    )


def test_the_guest_is_let_in_from_this_machine_where_there_is_no_file(path: Path) -> None:
    users = Users.load(path)
    assert users.allows_guest(True) is True
    assert users.allows_guest(False) is False
    assert admits(users, "guest", "guest") is True
    assert admits(users, "guest", "guest", peer_is_loopback=False) is False
    assert admits(users, "guest", "other") is False
    assert admits(users, "other", "guest") is False
    users.add("alice", "x")
    assert users.allows_guest(True) is False
    assert admits(users, "guest", "guest") is False
    assert admits(users, "alice", "x", peer_is_loopback=False) is True
    users.remove("alice")
    assert admits(users, "guest", "guest") is False
    assert admits(Users.load(path), "guest", "guest") is False
    users.allow_guest = True
    assert admits(users, "guest", "guest") is True
    assert admits(users, "guest", "guest", peer_is_loopback=False) is False


def test_a_guest_may_be_a_user(path: Path) -> None:
    users = Users.load(path)
    users.add("guest", "real")
    assert admits(users, "guest", "real", peer_is_loopback=False) is True
    assert admits(users, "guest", "guest") is False


def test_why_a_peer_is_not_let_in(path: Path) -> None:
    users = Users.load(path)
    assert "from this machine only" in users.why_not("guest", False)
    assert "from this machine only" in users.why_not("", False)
    assert users.why_not("guest", True) == wrong("guest")
    users.add("alice", "x")
    assert "guest is not allowed" in users.why_not("guest", True)
    assert "wants a login" in users.why_not("", False)
    assert users.why_not("alice", True) == wrong("alice")
    assert len(users.why_not("a" * 10_000, True)) < 200


def test_a_file_that_vanished_lets_nobody_in(written: Path) -> None:
    users = Users.load(written)
    written.unlink()
    with pytest.raises(UsersError, match="users file is gone"):
        users.reload()
    assert users.has("alice")
    assert not users.allows_guest(True)


def test_who_was_let_in_is_remembered_over_a_reload(written: Path, hasher: CountingHasher) -> None:
    users = Users.load(written)
    before = users.snapshot()
    assert users.verify("alice", "right")
    users.reload()
    assert users.admits_at_once("alice", "right", peer_is_loopback=False)
    assert not users.admits_at_once("alice", "wrong", peer_is_loopback=False)
    assert users.changed_since(before) == set()
    written.write_text("[users]\n")
    users.reload()
    assert not users.admits_at_once("alice", "right", peer_is_loopback=False)
    assert users.changed_since(before) == {"alice"}


def test_a_passcode_that_cannot_be_hashed_is_not_wrong(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Exhausted(CountingHasher):
        def verify(self, hashed: str, passcode: bytes) -> bool:
            raise argon2.exceptions.VerificationError("Memory allocation error")

    monkeypatch.setattr(module, "_HASHER", Exhausted(module._HASHER))
    with pytest.raises(CannotCheck, match="Memory allocation"):
        Users.load(written).verify("alice", "right")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"users\.toml: the section \[users\] is missing"),
        ("# cut off\n", r"users\.toml: the section \[users\] is missing"),
        ("users = 3\n", r"the section \[users\] is missing"),
        ("[users]\nalice = \n", r"users\.toml:2: is not valid TOML"),
        ("[users]\n[admins]\n", r"users\.toml:2: unknown key 'admins'; there is only \[users\]"),
        ('[users]\na = "x"\n', r"users\.toml:2: the hash of the user 'a' is damaged; remove"),
        ("[users]\n\na = 3\n", r"users\.toml:3: the hash of the user 'a' is damaged"),
    ],
)
def test_a_damaged_file_is_refused_and_lets_no_guest_in(
    written: Path, text: str, problem: str
) -> None:
    users = Users.load(written)
    written.write_text(text)
    with pytest.raises(UsersError, match=problem):
        Users.load(written)
    with pytest.raises(UsersError, match=problem):
        users.reload()
    assert users.allows_guest(True) is False
    assert users.verify("alice", "right") is True


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="cannot be read: Is a directory"):
        Users.load(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsersError, match=r"cannot be (read|written): "):
        Users(tmp_path / "file" / "users.toml").add("a", "b")


def test_users_with_roles_are_written_as_tables_and_read_again(path: Path) -> None:
    users = Users.load(path)
    users.add("alice", "one", ["sales", "staff", "sales"])
    users.add("robot", None)
    users.add("plain", "two")
    lines = path.read_text().splitlines()
    assert any(line.startswith('"alice" = { hash = "$argon2') for line in lines)
    assert '"robot" = { }' in lines
    assert any(line.startswith('"plain" = { hash = "$argon2') for line in lines)
    again = Users.load(path)
    assert again.roles()["alice"] == {"sales", "staff"}
    assert again.verify("alice", "one")
    assert not again.verify("robot", "")


def test_a_disabled_user_takes_as_long_and_is_not_let_in(path: Path) -> None:
    users = Users.load(path)
    users.add("alice", "one")
    assert users.verify("alice", "one")
    assert users.admits_at_once("alice", "one", peer_is_loopback=True)
    before = users.snapshot()
    users.set_disabled("alice", True)
    assert not users.admits_at_once("alice", "one", peer_is_loopback=True)
    assert users.changed_since(before) == {"alice"}
    assert users.altered_since(before) == {"alice"}
    assert "disabled" in users.why_not_proven("alice")
    users.set_disabled("alice", False)
    assert users.why_not_proven("alice") == ""
    assert "there is no user" in users.why_not_proven("bob")


def test_other_roles_close_no_connections(path: Path) -> None:
    users = Users.load(path)
    users.add("alice", "one")
    before = users.snapshot()
    users.change_roles("alice", ["sales"], [])
    assert users.changed_since(before) == set()
    assert users.altered_since(before) == {"alice"}


def test_tokens_belong_to_one_user_that_is_enabled(path: Path) -> None:
    users = Users.load(path)
    users.add("alice", None)
    users.add("bob", None)
    token = users.new_token("alice")
    assert users.user_of_token(token) == "alice"
    for other in ("", token[:-1], token + "x", "-" * 64, "\ud800"):
        assert users.user_of_token(other) is None
    users.set_disabled("alice", True)
    assert users.user_of_token(token) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('alice = { role = ["x"] }', "did you mean 'roles'?"),
        ('alice = { roles = "x" }', "is damaged"),
        ('alice = { roles = ["user:x"] }', "must neither be"),
        ('alice = { token = "abc" }', "make another"),
        ('alice = { hash = "abc" }', "the hash of the user 'alice' is damaged"),
        ("alice = 3", "the hash of the user 'alice' is damaged"),
        ('alice = ""', "the hash of the user 'alice' is damaged"),
    ],
)
def test_a_damaged_user_is_an_error(path: Path, line: str, why: str) -> None:
    path.parent.mkdir()
    path.write_text(f"[users]\n{line}\n")
    with pytest.raises(UsersError) as caught:
        Users.load(path)
    assert why in str(caught.value)
    assert "users.toml:2" in str(caught.value)


def test_a_passcode_gets_a_verifier_with_its_hash(path: Path) -> None:
    users = Users.load(path)
    users.add("robot", None)
    # What older brokers can read stays so.
    assert "scram" not in path.read_text()
    assert not users.has_verifiers
    users.add("alice", "one")
    first = users.verifier("alice")
    assert users.has_verifiers
    assert users.has_verifier("alice")
    assert not users.has_verifier("robot")
    again = Users.load(path)
    assert again.verifier("alice") == first
    assert again.verifier("robot") == users.verifier("robot") != first
    before = again.snapshot()
    again.change_passcode("alice", "two")
    assert again.changed_since(before) == {"alice"}
    assert again.verifier("alice") != first
    # Only one secret is ever made.
    assert again.verifier("robot") == users.verifier("robot")


def test_users_of_older_files_log_in_as_before_and_get_a_verifier_with_the_next_passcode(
    written: Path,
) -> None:
    users = Users.load(written)
    made_up = users.verifier("alice")
    assert users.verify("alice", "right")
    assert not users.has_verifiers
    users.set_disabled("alice", False)
    assert "scram" not in written.read_text()
    users.change_passcode("alice", "new")
    assert Users.load(written).has_verifier("alice")
    assert users.verifier("alice") != made_up


def test_a_passcode_that_scram_cannot_express_has_a_hash_alone(path: Path) -> None:
    users = Users.load(path)
    users.add("alice", "one")
    users.change_passcode("alice", "\U0001f511")
    assert not users.has_verifier("alice")
    assert users.verify("alice", "\U0001f511")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('alice = { scram = "SCRAM-SHA-256$1:x$y:z" }', "verifier for SCRAM of the user 'alice'"),
        ("[other]\na = 1", "unknown key"),
    ],
)
def test_damaged_verifiers_are_named(path: Path, line: str, named: str) -> None:
    path.parent.mkdir()
    path.write_text(f"[users]\n{line}\n")
    with pytest.raises(UsersError, match=named):
        Users.load(path)


def test_a_damaged_secret_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('scram-secret = "xyz"\n[users]\n')
    with pytest.raises(UsersError, match="scram-secret is damaged"):
        Users.load(path)
