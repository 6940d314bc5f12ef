"""The commands that install extras name packages of an index, as pyproject.toml has them."""

import sys
import tomllib
from pathlib import Path

import pytest

from daybook.journal.extras import install_command, packages_of

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_packages(extra: str) -> None:
    found = packages_of(extra)
    assert {each for each in EXTRAS[extra] if "daybook" not in each} <= set(found)
    assert not any("daybook" in each for each in found)


def test_an_extra_of_an_extra_comes_with_it() -> None:
    assert set(packages_of("sql")) < set(packages_of("delta"))


def test_the_command_is_for_this_environment() -> None:
    assert install_command("s3") == f"{sys.executable} -m pip install 's3fs>=2024.6'"


def test_nothing_is_known_of_other_extras() -> None:
    assert packages_of("nonsense") == []
