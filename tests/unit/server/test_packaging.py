"""The guard against foreign packages of our names."""

from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest

from server import packaging


def test_our_own_packages_are_fine() -> None:
    assert packaging.foreign_packages() == []


def test_a_foreign_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> ModuleSpec | None:
        if name == "engine":
            return ModuleSpec("engine", None, origin="/elsewhere/engine/__init__.py")
        return None if name == "tools" else find_spec(name)

    monkeypatch.setattr(packaging, "find_spec", find)
    wrong = packaging.foreign_packages()
    assert len(wrong) == 2
    assert "'engine' is loaded from /elsewhere/engine/__init__.py" in wrong[0]
    assert "'tools'" in wrong[1]
