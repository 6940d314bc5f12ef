"""A package's `__init__` is its table of contents: true, complete, and in the map of rooms."""

import importlib
import re
from types import ModuleType

import pytest

from tests.meta import tree

MAP = (tree.ROOT / "ARCHITECTURE.md").read_text("utf-8")


def false_names(module: ModuleType) -> list[str]:
    """Return what `__all__` promises and the package does not have, or has twice."""
    promised: list[str] = getattr(module, "__all__", [])
    missing = [name for name in promised if not hasattr(module, name)]
    return missing + [name for name in set(promised) if promised.count(name) > 1]


def unlisted_names(module: ModuleType) -> list[str]:
    """Return public classes and functions of the package's own that `__all__` leaves out."""
    if not hasattr(module, "__all__"):
        return []
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).startswith(module.__name__ + ".")
        and name not in module.__all__
    ]


@pytest.mark.parametrize("package", tree.packages())
def test_the_table_of_contents_is_true(package: str) -> None:
    module = importlib.import_module(package)
    assert not false_names(module)
    assert not unlisted_names(module)
    assert module.__doc__


@pytest.mark.parametrize("package", tree.packages())
def test_the_map_shows_the_package(package: str) -> None:
    assert re.search(rf"^\| `{package.replace('.', '/')}/` \|", MAP, re.MULTILINE)


@pytest.mark.parametrize("package", tree.packages())
def test_the_map_explains_every_module(package: str) -> None:
    folder = tree.ROOT.joinpath(*package.split("."))
    names = [path.name for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    absent = [name for name in names if f"`{package.replace('.', '/')}/{name}`" not in MAP]
    assert not absent


def test_a_false_table_of_contents_is_found() -> None:
    module = ModuleType("room")
    module.__all__ = ["there", "gone", "twice", "twice"]  # type: ignore[attr-defined]
    module.there = module.twice = 1  # type: ignore[attr-defined]
    assert false_names(module) == ["gone", "twice"]


def test_a_name_that_is_not_listed_is_found() -> None:
    class Hidden:
        """Stands for a class that the package took from one of its modules."""

    Hidden.__module__ = "room.part"
    module = ModuleType("room")
    module.__all__ = []  # type: ignore[attr-defined]
    module.Hidden = Hidden  # type: ignore[attr-defined]
    assert unlisted_names(module) == ["Hidden"]
