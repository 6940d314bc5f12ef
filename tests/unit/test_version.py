"""The version is that of the distribution."""

from importlib.metadata import PackageNotFoundError

import pytest

from daybook import version


def test_the_version_is_a_release() -> None:
    assert version.VERSION[0].isdigit()


def test_without_a_distribution_there_is_still_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(version, "version", missing)
    assert version._version() == "0+uninstalled"
