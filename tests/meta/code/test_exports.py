"""A package's `__init__` is its table of contents: true, complete, and in the map of rooms."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.meta import tree
from tests.meta.drawn import rooms_map


def false_names(module: ModuleType) -> list[str]:
    """Return the names in `__all__` that the package lacks, or that are there twice."""
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


def test_the_tables_of_contents_are_true() -> None:
    for package in tree.packages():
        module = importlib.import_module(package)
        assert not false_names(module), package
        assert not unlisted_names(module), package
        assert module.__doc__, package


def test_the_map_of_modules_is_up_to_date() -> None:
    page = (tree.ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert page == rooms_map.redrawn(page, rooms_map.draw(tree.ROOT)), "run `make map`"


def test_packages_list_their_modules() -> None:
    for init in rooms_map.packages_with_modules(tree.ROOT):
        source = init.read_text("utf-8")
        assert source == rooms_map.with_contents(source, rooms_map.contents(init)), (
            f"{init}: run `make map`"
        )


def test_a_list_of_modules_that_is_not_true_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('"""First."""\n')
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__init__.py").write_text('"""A part."""\n')
    init = tmp_path / "__init__.py"
    init.write_text('"""A room.\n\nModules:\n\n- `gone`: What was.\n"""\n\nx = 1\n')
    assert rooms_map.with_contents(init.read_text(), rooms_map.contents(init)) == (
        '"""A room.\n\nModules:\n\n- `one`: First.\n- `part`: A part.\n"""\n\nx = 1\n'
    )


def test_the_map_shows_packages_and_modules(tmp_path: Path) -> None:
    packages = '[tool.setuptools]\npackages = ["daybook", "daybook.room", "daybook.room.part"]\n'
    (tmp_path / "pyproject.toml").write_text(packages)
    (tmp_path / "room" / "part").mkdir(parents=True)
    (tmp_path / "room" / "__init__.py").write_text('"""The room."""\n')
    (tmp_path / "room" / "one.py").write_text('"""First | line.\n\nSecond line.\n"""\n')
    (tmp_path / "room" / "part" / "__init__.py").write_text('"""A part."""\n')
    drawing = rooms_map.draw(tmp_path)
    assert drawing.splitlines() == [
        "### room/",
        "",
        "The room.",
        "",
        "| module | what it is |",
        "|---|---|",
        "| `room/one.py` | First \\| line. |",
        "| `room/part/` | A part. |",
    ]


def test_the_map_replaces_the_old_one_and_nothing_else() -> None:
    page = f"before\n{rooms_map.BEGIN}\nold\n{rooms_map.END}\nafter\n"
    drawn = rooms_map.redrawn(page, "new\n")
    assert drawn == f"before\n{rooms_map.BEGIN}\n\nnew\n\n{rooms_map.END}\nafter\n"
    assert rooms_map.redrawn(drawn, "new\n") == drawn
    with pytest.raises(ValueError, match="must hold the lines"):
        rooms_map.redrawn("no marks", "new\n")


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
