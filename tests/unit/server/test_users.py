"""The users file: who gets in, what is written, and what damage does."""

import os
import re
import stat
import threading
from pathlib import Path

import argon2
import pytest

from server import users as module
from server.users import Users, UsersError

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


@pytest.mark.parametrize(("text", "why"), [("", "does not exist"), ("[users]\n", "has none")])
def test_that_guest_is_let_in_is_warned_about(path: Path, text: str, why: str) -> None:
    if text:
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o600)
    (warning,) = Users.load(path).warnings()
    assert f"no users ({path} {why}): guest" in warning
    assert f"daybook user add LOGIN --users-file {path}" in warning


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


def test_the_guest_is_let_in_from_this_machine_until_there_is_a_user(path: Path) -> None:
    users = Users.load(path)
    assert users.allows_guest(True) is True
    assert users.allows_guest(False) is False
    assert users.admits("guest", "guest", peer_is_loopback=True) is True
    assert users.admits("guest", "guest", peer_is_loopback=False) is False
    assert users.admits("guest", "other", peer_is_loopback=True) is False
    assert users.admits("other", "guest", peer_is_loopback=True) is False
    users.add("alice", "x")
    assert users.allows_guest(True) is False
    assert users.admits("guest", "guest", peer_is_loopback=True) is False
    assert users.admits("alice", "x", peer_is_loopback=False) is True


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
