"""Hashes of passcodes: those of Artemis are checked as they are."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.server.users.passcode_hashes import (
    bytes_of,
    hash_of,
    hash_of_artemis,
    hash_of_nobody,
    is_damaged,
    verify,
)
from daybook.server.users.users import Users
from tests.support.brokers.artemis_created import HASHED

NOBODY = hash_of_nobody()


def test_a_passcode_that_artemis_hashed_is_right_and_others_are_not() -> None:
    hashed = hash_of_artemis(HASHED)
    assert hashed is not None
    assert not is_damaged(hashed)
    assert verify(hashed, NOBODY, "password")
    for wrong in ("", "Password", "password ", "x" * 1000):
        assert not verify(hashed, NOBODY, wrong)


@settings(max_examples=20)
@given(st.text(max_size=50), st.binary(min_size=1, max_size=64), st.integers(1, 2000))
def test_any_passcode_and_salt(passcode: str, salt: bytes, rounds: int) -> None:
    digest = hashlib.pbkdf2_hmac("sha1", bytes_of(passcode), salt, rounds, 64)
    hashed = hash_of_artemis(f"ENC({rounds}:{salt.hex().upper()}:{digest.hex()})")
    assert hashed is not None
    assert verify(hashed, NOBODY, passcode)
    assert not verify(hashed, NOBODY, passcode + "x")


@pytest.mark.parametrize(
    "text",
    ["password", "ENC(-5fba27)", "ENC(1024:AB:)", "ENC(1024:ABC:00)", "ENC(0:AB:" + 64 * "0" + ")",
     "ENC(999999999:AB:" + 64 * "0" + ")", "ENC(1024:AB:00)", ""],
)  # fmt: skip
def test_what_is_no_hash_of_artemis_is_none(text: str) -> None:
    assert hash_of_artemis(text) is None


@pytest.mark.parametrize(
    "hashed", ["$pbkdf2-sha1$i=1$!$!", "$pbkdf2-sha1$", "$argon2id$x", "secret", ""]
)
def test_damaged_hashes_are_known(hashed: str) -> None:
    assert is_damaged(hashed)
    assert not is_damaged(hash_of("x"))


def test_nobody_has_a_passcode() -> None:
    assert not verify("", NOBODY, "")
    assert not verify("", NOBODY, "x")


def test_a_users_file_may_have_such_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text(f'[users]\nadmin = "{hash_of_artemis(HASHED)}"\n')
    users = Users.load(path)
    assert users.verify("admin", "password")
    assert not users.verify("admin", "wrong")
    users.change_passcode("admin", "another")
    assert Users.load(path).verify("admin", "another")
